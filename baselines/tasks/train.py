"""Trains a model of whichever collection.

model_dir = train(config.TileConfig(data_root='~/data/tpugraphs/...'))
"""

from typing import Optional, Union

from baselines import config as config_lib
from baselines.tasks import task
from baselines.tasks import training


def train(
    config: Union[config_lib.TileConfig, config_lib.LayoutConfig],
    own: Optional[training.Own] = None,
) -> str:
    """Trains a model and writes the run, and a ranking of the test split.

    Prints what it does; returns the model directory.

    Args:
        config: the settings.
        own: models and losses of the user's, and the command line.

    Raises:
        ValueError: the settings or the data are unusable; says why.
        OSError: something cannot be written.
    """
    return task.kind_of(config.collection).Training(config, own).run()
