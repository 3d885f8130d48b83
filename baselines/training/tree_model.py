"""Grows the trees of a training: alone, or next to a graph model.

options = choose_options(settings)
trees, fields = grow_trees(data, options)
"""

import time

import numpy as np

from baselines import config as config_lib
from baselines.core import registry
from baselines.core import settings as settings_lib
from baselines.core import starting
from baselines.core import text
from baselines.training import progress
from baselines.training import task_data
from baselines.trees import booster
from baselines.trees import growing

_CELLS = 1 << 27  # of the table that trees are grown on: 512 MB


def choose_options(config: config_lib.AnyConfig) -> growing.TreeOptions:
    """Returns the options for growing trees, alone or next to a graph model.

    Raises:
        ValueError: --model_kwargs_json has an unknown option of trees.
    """
    of_tiles = isinstance(config, config_lib.TileConfig)
    if config.model == registry.TREES:
        alone = growing.OF_TILES if of_tiles else growing.TreeOptions()
        kwargs = settings_lib.parse_model_kwargs(config.model_kwargs_json)
        return alone.replace_options(kwargs)
    return growing.OF_TILES if of_tiles else growing.FEWER


def grow_trees(
    data: task_data.TaskData, options: growing.TreeOptions
) -> tuple[booster.Trees, text.JsonObject]:
    """Grows trees, which takes about a minute: an interrupted growth starts again.

    Returns:
        The trees; and the fields of a run file on their growth: a row of the curve for
        each tree (see `progress.State`), so that runs of both kinds look alike.
    """
    settings, task, started = data.settings, data.task, time.monotonic()
    train, valid = data.stores['train'], data.stores['valid']
    starting.return_memory()  # the table is often the largest array of a training
    # A stream of its own, unlike that of any epoch.
    rng = np.random.default_rng([settings.seed, 2**31])
    table, chosen = task.table(train, None, data.graphs['train']), data.rankable
    most = min(options.rows, _CELLS // len(table.names))
    weights = data.compute_weights(chosen)
    rows = growing.draw_rows(rng, task, train, table, chosen, most, weights)
    checked = None
    if valid.has_runtimes:
        most = settings.validation_configs * len(valid)
        of_valid = task.table(valid, None, data.graphs['valid'])
        every = np.arange(len(valid))
        checked = growing.draw_rows(rng, task, valid, of_valid, every, most)
    trees, losses_by_tree = growing.fit_trees(
        table.names, options, rows, checked, settings.seed, task.prior
    )
    starting.return_memory()  # what LightGBM took
    grown = len(losses_by_tree['train_loss'])
    seconds = (time.monotonic() - started) / grown
    curve: text.JsonObject = {
        **dict.fromkeys(progress.CURVES, [None] * grown),
        **{name: [*map(float, losses)] for name, losses in losses_by_tree.items()},
        'epoch': list(range(grown)),
        'train_seconds': [seconds] * grown,
        'val_seconds': [0.0] * grown,
    }
    print(f'trees: {trees.count}, looking at {text.count(len(trees.used), "column")}')
    return trees, {'train_curve': curve, 'best_epoch': min(trees.count, grown) - 1}
