"""Tiles in elements, by hand."""

import numpy as np
import pytest

from baselines.data.tile import memory_store
from baselines.features import loop_columns
from baselines.features import tile_table
from baselines.measuring import packaged
from tests.helpers import hlo_kernels
from tests.helpers import tile_records


def _rows(*bounds):
    """Raw columns of (output, kernel, input) bounds."""
    rows = hlo_kernels.configs(*((output, kernel) for output, kernel, _ in bounds))
    for row, (*_, taken) in zip(rows, bounds):
        row[16 : 16 + len(taken)] = taken
    return rows


def _sum(*bounds):
    """A sum over the first dimension of f32[60, 10, 100]; the untiled one first."""
    whole = ([10, 100], [60], [60, 10, 100])
    nodes = [
        hlo_kernels.node('parameter', [60, 10, 100]),
        hlo_kernels.node('reduce', [10, 100], root=True),
    ]
    return hlo_kernels.kernel(nodes, [(1, 0)], _rows(whole, *bounds))


def _columns(record):
    store = hlo_kernels.store(record)
    table = tile_table.TileTable(store, ('loop_columns',))
    found = table.rows(np.arange(record.num_configs))
    assert found.shape[1] == len(table.names) == len(set(table.names))
    return {name[len('loop_') :]: x for name, x in zip(table.names, found.T)}


def test_a_sum_over_the_slowest_dimension():
    found = _columns(
        _sum(([10, 32], [20], [20, 10, 32]), ([3, 100], [60], [60, 3, 100]))
    )
    logs = {name: np.exp(x).tolist() for name, x in found.items()}

    def near(name, *wanted):
        assert logs[name] == pytest.approx(wanted, rel=1e-5), name

    near('output_tile_0', 100, 32, 100)
    near('output_trips_0', 1, 4, 1)
    near('output_trips_1', 1, 1, 4)
    near('output_tile_2', 1, 1, 1)
    near('kernel_trips_0', 1, 3, 1)
    near('output_elements', 1000, 320, 300)
    near('output_share', 1, 0.32, 0.3)
    # 32 of 100 lie together; 3 whole rows of 100 do, and 60 x 3 rows do not.
    near('output_run', 1000, 32, 300)
    near('input_run', 60_000, 32, 300)
    near('input_run_share', 1, 32 / 60_000, 300 / 60_000)
    near('trips', 1, 12, 4)
    near('overhead', 1 / 120_000, 12 / 120_000, 4 / 120_000)
    near('work', 60_000, 320 * 20, 300 * 60)
    # 12 times 20 x 10 x 32 and 4 times 60 x 3 x 100, of 60 x 10 x 100.
    near('input_again', 1, 12 * 6400 / 60_000, 4 * 18_000 / 60_000)
    near('footprint', 61_000, 320 + 6400, 300 + 18_000)
    near('waste', 1, 4 * 32 / 100, 4 * 3 / 10)
    assert found['output_first'].tolist() == [6, 0, 1]
    assert found['output_last'].tolist() == [-1, 0, 1]
    assert found['input_last'].tolist() == [-1, 2, 1]
    assert found['output_by_8'].tolist() == [0, 1, 0]
    assert found['fastest_kept'].tolist() == [1, 1, 1]
    assert found['fastest_reduced'].tolist() == [0, 0, 0]


def test_bounds_in_elements_are_told_from_those_in_registers():
    assert loop_columns.fits(hlo_kernels.store(_sum()))
    nodes = [hlo_kernels.node('parameter', [60, 300], root=True)]
    registers = hlo_kernels.kernel(nodes, [], hlo_kernels.configs(([8, 3], [])))
    assert not loop_columns.fits(hlo_kernels.store(registers))
    few = tile_records.make_records(2, node_features=9)
    assert not loop_columns.fits(hlo_kernels.store(*few))


def test_the_measured_kernels_have_elements():
    from baselines.data.tile import records

    root = packaged.folder('tile')
    import glob

    paths = sorted(glob.glob(f'{root}/test/*.npz'))[:10]
    kernels = [records.read_tile(path) for path in paths]
    store = memory_store.tile_store('measured', kernels)
    assert loop_columns.fits(store)
    assert 'loop_trips' in tile_table.FlatTable(store).names
