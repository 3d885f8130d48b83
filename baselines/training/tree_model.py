"""Grows the trees of a training: alone, or next to a graph model.

options = options_of(settings)
trees, curve = grow(data, options)
"""

import time

from baselines import config as config_lib
from baselines.core import registry
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.training import progress
from baselines.training import task_data
from baselines.trees import booster
from baselines.trees import growing


def options_of(config: config_lib.AnyConfig) -> growing.TreeOptions:
    """Returns the options for growing trees, alone or next to a graph model.

    Raises:
        ValueError: --model_kwargs_json has an unknown option of trees.
    """
    of_tiles = isinstance(config, config_lib.TileConfig)
    if config.model == registry.TREES:
        alone = growing.OF_TILES if of_tiles else growing.TreeOptions()
        return alone.changed(settings_lib.parse_model_kwargs(config.model_kwargs_json))
    return growing.OF_TILES if of_tiles else growing.FEWER


def grow(
    data: task_data.TaskData, options: growing.TreeOptions
) -> tuple[booster.Trees, text.JsonObject]:
    """Grows trees.  There is no state to resume, as this takes about a minute.

    Returns:
        The trees; and the fields of a run file on their growth: a row of the curve for
        each tree (see `progress.State`), so that runs of both kinds look alike.
    """
    settings, stores, started = data.settings, data.stores, time.monotonic()
    trees, losses_by_tree = growing.grow(
        data.task,
        stores['train'],
        data.rankable,
        data.weights_of(data.rankable),
        stores['valid'],
        settings.validation_configs,
        options,
        settings.seed,
        data.graphs,
    )
    grown = len(losses_by_tree['train_loss'])
    seconds = (time.monotonic() - started) / grown
    curve: dict[str, list[float | None]] = {
        name: [None] * grown for name in progress.CURVES
    }
    curve.update({n: [*map(float, losses)] for n, losses in losses_by_tree.items()})
    curve['epoch'] = list(range(grown))
    curve.update(train_seconds=[seconds] * grown, val_seconds=[0.0] * grown)
    print(f'trees: {trees.count}, looking at {text.count(len(trees.used), "column")}')
    return trees, {'train_curve': curve, 'best_epoch': min(trees.count, grown) - 1}
