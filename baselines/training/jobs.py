"""Trains a model of whichever collection.

model_dir = train(config.TileConfig(data_root='~/data/tpugraphs/...'))
"""

import importlib
from typing import Callable, Optional, Union

from baselines import config as config_lib
from baselines.training import job
from baselines.training import loop


def train(
    config: Union[config_lib.TileConfig, config_lib.LayoutConfig],
    extras: Optional[job.Extras] = None,
    after_epoch: Callable[[loop.State], None] = lambda state: None,
) -> str:
    """Trains a model and writes the run, and a ranking of the test split.

    Prints what it does; returns the model directory.

    Args:
        config: the settings.
        extras: models and losses of the user's, and the command line.
        after_epoch: called with the state after every epoch, when it is kept; what
            it raises ends the training, and --resume goes on from there.

    Raises:
        ValueError: the settings or the data are unusable; says why.
        OSError: something cannot be written.
    """
    # The other task is not imported: it needs its models.py, which may be a user's.
    module = importlib.import_module(
        f'baselines.training.{config.collection.task}_data'
    )
    return module.Training(config, extras).run(after_epoch)
