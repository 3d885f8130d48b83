"""Kernels measured before and since XLA's thunks, in one training."""

import dataclasses

import numpy as np

from baselines import config
from baselines.features import tile_table
from baselines.features import tree_table
from baselines.training import task_data
from tests.helpers import hlo_kernels


def _store(*releases):
    """Kernels of a CPU with two configurations each."""
    bounds = hlo_kernels.configs(([60, 100], []), ([6, 100], []))
    kernels = [
        dataclasses.replace(
            hlo_kernels.addition([60, 100], bounds),
            graph_id=f'kernel_{number}',
            xla_release=release,
        )
        for number, release in enumerate(releases)
    ]
    return hlo_kernels.store(*kernels)


def test_the_column_of_each_configuration():
    store = _store(0, 4030, 4032, 12000)
    assert store.record(3).xla_release == 12000
    table = tile_table.TileTable(store, ['release'])
    assert table.names == ('release_thunks',)
    assert table.rows(np.arange(8))[:, 0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert 'release_thunks' in tree_table.TreeTable(store).names


def test_a_recipe_adds_the_column_where_releases_differ(capsys):
    settings = config.TileConfig(recipe='strong', columns='tile', configs=2, batch=1)
    without = dataclasses.replace(settings, columns='')
    assert task_data.fit_recipe(without, _store(4030, 12000)) == without
    completed = task_data.fit_recipe(settings, _store(5003, 12000))
    assert completed.column_sets == ['tile', 'loop']
    capsys.readouterr()
    completed = task_data.fit_recipe(settings, _store(4030, 12000))
    assert completed.column_sets == ['tile', 'loop', 'release']
    assert 'tiles of a CPU; adding --columns=loop,release' in capsys.readouterr().out
    data = task_data.TileData(completed, {'train': _store(4030, 12000)})
    assert list(data.normalizer.table_ranges) == ['tile', 'loop', 'release']
