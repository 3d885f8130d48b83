"""The analytical estimate: kernels small enough to work out by hand."""

import math

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from baselines.features import tile_table
from baselines.features import tree_table
from tests.helpers import hlo_kernels
from tests.helpers import tile_records
from tests.helpers.hlo_kernels import configs
from tests.helpers.hlo_kernels import kernel
from tests.helpers.hlo_kernels import node

_MIB = 2**20


def _value_range(store, kernels=None):
    return tile_table.TileTable(store, ['estimate']).measure_range(kernels)['estimate']


def _columns(record):
    """{column: values of the configurations}, logarithms undone."""
    found = hlo_kernels.columns(record, 'estimate')
    values = {name: np.exp(x.astype(np.float64)) for name, x in found.items()}
    for name in ('log_bytes', 'log_matrix_operations', 'log_vector_operations'):
        values[name] -= 1
    values['log_footprint'] = values['log_footprint'] * 16 * _MIB - 1
    return values


def _check(record, **expected):
    found = _columns(record)
    for name, values in expected.items():
        np.testing.assert_allclose(
            found[f'log_{name}'], values, rtol=1e-5, atol=1e-3, err_msg=name
        )


def test_an_elementwise_kernel():
    # 16 x 256: 2 x 2 registers.  Whole, and in four tiles of one register.
    record = hlo_kernels.addition([16, 256], configs(([2, 2], []), ([1, 1], [])))
    moved = 3 * 16 * 256 * 4  # two read, one written
    _check(
        record,
        tiles=[1, 4],
        padding=[1, 1],
        bytes=[moved, moved],
        matrix_operations=[0, 0],
        vector_operations=[4, 4],
        footprint=[moved, moved / 4],
        time=[moved / 450 + 250, moved / 450 + 1000],
    )
    # Bounds that are absent, 0 or -1, mean the whole; and those that are too large.
    rows = configs(([], []), ([-1, -1], []), ([9, 9], []))
    _check(hlo_kernels.addition([16, 256], rows), tiles=[1, 1, 1], padding=[1, 1, 1])
    for dtype, size in (('bf16', 2), ('pred', 1)):
        record = hlo_kernels.addition([8, 128], configs(([1, 1], [])), dtype=dtype)
        _check(record, bytes=[3 * 1024 * size])


def test_padding():
    # 20 x 300 elements: 3 x 3 registers, in 2 x 2 tiles of 2 x 2 registers, two
    # of four half empty in each direction: 32 x 512.
    record = hlo_kernels.addition([20, 300], configs(([2, 2], [])))
    _check(
        record,
        tiles=[4],
        padding=[32 * 512 / (20 * 300)],
        bytes=[3 * 24 * 384 * 4],  # whole registers of the array alone
        vector_operations=[16],  # 4 tiles of 4 registers
    )


@pytest.mark.parametrize(
    'dims, layout, tile, trips',
    [
        ([16, 256], [0, 1], [16, 1], 2),  # 16 lie along lanes, 256 / 8 are slowest
        ([4096], [0], [2], 2),  # rank 1: 1,024 to a register
        ([3, 16, 256], [1, 2, 0], [1, 32, 1], 3),  # slowest: 3, then 256, then 16
        ([3, 16, 256], [2, 0, 1], [4, 1, 2], 4),  # slowest: 16, then 3, then 256
    ],
)
def test_the_layout_says_which_dimension_is_which(dims, layout, tile, trips):
    _check(
        hlo_kernels.addition(dims, configs((tile, [])), layout=layout), tiles=[trips]
    )


@pytest.mark.parametrize('first', ['left', 'right'])
def test_a_matrix_product(first):
    """Its tiles are 256 x 512 with depth 1024, then 128 x 256 with depth 512."""
    left, right, out = 256 * 1024 * 4, 1024 * 512 * 4, 256 * 512 * 4
    operations = 2 * 256 * 512 * 1024
    # The first operand is needed for both halves of the columns, the second
    # for both halves of the rows; the result is written once.
    moved = np.array([left + right + out, 2 * left + 2 * right + out])
    _check(
        # The second operand has 128 x 4 registers, the result 32 x 4.
        hlo_kernels.product(([32, 4], [128, 4]), ([16, 2], [64, 2]), first=first),
        tiles=[1, 8],
        padding=[1, 1],
        bytes=moved,
        matrix_operations=[operations, operations],
        vector_operations=[0, 0],
        footprint=[left + right + out, left / 4 + right / 4 + out / 4],
        time=moved / 450 + 250 * np.array([1, 8]),
    )
    # 4 x 128 x 128 operations a cycle at 0.94 GHz: 4.4 us, less than the 7.0
    # that the smaller traffic takes.
    assert operations / (4 * 128 * 128 * 0.94) < moved[0] / 450


def test_a_sum_is_padded_to_the_side_of_the_matrix_unit():
    record = kernel(
        [
            node('parameter', [8, 24]),
            node('parameter', [24, 128]),
            node('convolution', [8, 128], root=True, **hlo_kernels.PRODUCT),
        ],
        [(2, 0), (2, 1)],
        configs(([1, 1], [3, 1]), ([1, 1], [1, 1])),
    )
    # Depth 24 is one step of 128, or three tiles of 8 that take 128 each.
    _check(record, tiles=[1, 3], matrix_operations=2 * 8 * 128 * 128 * np.array([1, 3]))


def test_a_convolution_goes_over_its_input_for_every_position_of_the_window():
    columns = dict(zip(hlo_kernels.CONVOLUTION, (0, 3, 2, 3, 0, 3)))
    shape = [16, 4, 4, 128]
    record = kernel(
        [
            node('parameter', shape, layout=[3, 0, 2, 1]),
            node('parameter', [3, 1, 128, 128]),
            node('convolution', shape, layout=[3, 0, 2, 1], root=True, **columns),
        ],
        [(2, 0), (2, 1)],
        # Result: 4, 4, 2 (batch), 1.  Window 3 x 1, depth 16 x 8, one column.
        configs(([4, 4, 2, 1], [3, 1, 16, 1]), ([2, 4, 2, 1], [1, 1, 16, 1])),
    )
    array, window = 16 * 4 * 4 * 128 * 4, 3 * 128 * 128 * 4
    _check(
        record,
        tiles=[1, 6],
        bytes=[2 * array + window, 3 * array + 2 * window + array],
        matrix_operations=[2 * 16 * 4 * 4 * 128 * 3 * 128] * 2,
    )


def test_a_batch_of_products_goes_by_sizes():
    # [2, 64, 128] x [2, 256, 128] -> [2, 64, 256]; a `dot` has no columns of
    # its own.  The second operand has 2, 32 and 1 registers' lengths.
    record = kernel(
        [
            node('parameter', [2, 64, 128]),
            node('parameter', [2, 256, 128]),
            node('dot', [2, 64, 256], root=True),
        ],
        [(2, 0), (2, 1)],
        configs(([2, 8, 2], [2, 32, 1]), ([1, 8, 1], [1, 16, 1])),
    )
    left, right, out = (
        4 * size for size in (2 * 64 * 128, 2 * 256 * 128, 2 * 64 * 256)
    )
    _check(
        record,
        tiles=[1, 4],
        bytes=[left + right + out, 2 * left + right + out],
        matrix_operations=[2 * 2 * 64 * 256 * 128] * 2,
    )


def test_tiles_that_do_not_fit_twice_take_turns():
    # 4096 x 1024 floats are 16 MiB; halves of two operands and a result 24 MiB.
    dims = [4096, 1024]
    moved, registers = 3 * 16 * _MIB, 4096
    record = hlo_kernels.addition(dims, configs(([256, 8], []), ([64, 8], [])))
    memory, vector = moved / 450, registers / (2 * 0.94)
    _check(
        record,
        footprint=[24 * _MIB, 6 * _MIB],
        time=[memory + vector + 500, memory + 8 * 250],
    )


def test_a_sum_loops_over_what_it_sums():
    record = kernel(
        [
            node('parameter', [32, 512]),
            node('constant'),
            node('reduce', [512], root=True),
        ],
        [(2, 0), (2, 1)],
        configs(([4, 4], []), ([1, 2], [])),
    )
    # The result, half a register, is written once.
    _check(record, tiles=[1, 8], bytes=[32 * 512 * 4 + 4096] * 2)


def test_a_small_operand_is_read_for_every_trip_of_what_it_does_not_follow():
    record = kernel(
        [
            node('parameter', [32, 512]),
            node('parameter', [512]),
            node('broadcast', [32, 512]),
            node('tanh', [32, 512]),
            node('add', [32, 512], root=True),
        ],
        [(2, 1), (3, 0), (4, 2), (4, 3)],
        configs(([4, 4], []), ([1, 2], [])),
    )
    array, vector = 32 * 512 * 4, 4096
    _check(
        record,
        bytes=[2 * array + vector, 2 * array + 4 * vector],
        # 16 registers: copied, tanh for 10 operations, added.
        vector_operations=[16 * 12] * 2,
    )


def test_the_entries_of_a_tuple_are_written():
    shape = [32, 512]
    record = kernel(
        [
            node('parameter', shape),
            node('negate', shape),
            node('abs', shape),
            node('tuple', dtype='tuple', root=True),
            node('parameter', shape),
            node('fusion', dtype='tuple', root=True),
        ],
        [(1, 0), (2, 0), (3, 1), (3, 2), (5, 3), (5, 4)],
        configs(([4, 4], []), ([1, 1], [])),
    )
    _check(record, tiles=[1, 16], bytes=[3 * 32 * 512 * 4] * 2)


def test_a_kernel_of_scalars_takes_the_time_of_a_tile():
    record = kernel(
        [node('parameter'), node('abs', root=True)],
        [(1, 0)],
        configs(([], []), ([3], [])),
    )
    _check(record, tiles=[1, 1], bytes=[0, 0], time=[250, 250])


# Any numbers ------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), pad=st.sampled_from([0, -1]))
def test_any_columns_give_finite_estimates(seed, pad):
    rng = np.random.default_rng(seed)
    kernels = tile_records.make_records(3, seed)
    for record in kernels:
        # Magnitudes of all kinds, absent entries, and nonsense layouts.
        scale = 10.0 ** rng.integers(0, 7, record.node_feat.shape)
        record.node_feat[...] *= np.where(rng.random(scale.shape) < 0.3, scale, 1)
        record.config_feat[rng.random(record.config_feat.shape) < 0.3] = pad
    store = hlo_kernels.store(*kernels)
    of_row = np.repeat(np.arange(3), store.config_counts)
    table = tile_table.TileTable(store, ['tile', 'estimate'])
    columns = table.rows(np.arange(len(of_row)))
    assert np.isfinite(columns).all()
    assert (columns[:, table.names.index('log_tiles')] >= 0).all()
    # Each row by itself, in whatever company.
    order = rng.permutation(len(of_row))
    again = tile_table.TileTable(store, table.sets)
    np.testing.assert_array_equal(again.rows(order), columns[order])
    alone = tile_table.TileTable(hlo_kernels.store(kernels[1]), table.sets)
    np.testing.assert_array_equal(
        alone.rows(np.arange(kernels[1].num_configs)), columns[of_row == 1]
    )


def test_other_columns_are_refused():
    store = hlo_kernels.store(*tile_records.make_records(1, node_features=113))
    with pytest.raises(ValueError, match='here: node_feat has 113'):
        _value_range(store)
    store = hlo_kernels.store(*tile_records.make_records(1, config_features=8))
    for make in (_value_range, tree_table.TreeTable):
        with pytest.raises(ValueError, match='config_feat has 8'):
            make(store)


# Scaled, and at the end of a configuration's columns ----------------------------


def test_the_range_is_that_of_64_evenly_spaced_configurations():
    # 127 tiles of 1 to 127 registers: every second one counts, 1 to 127.
    record = hlo_kernels.addition(
        [1024 * 127], configs(*[([i], []) for i in range(1, 128)])
    )
    low, high = _value_range(hlo_kernels.store(record))
    assert high[0] == np.float32(math.log(127)) and low[0] == 0
    # The second largest number of tiles, 64 of 2 registers, is not looked at.
    fewer = hlo_kernels.addition(
        [1024 * 127], configs(*[([i], []) for i in range(2, 129)])
    )
    assert _value_range(hlo_kernels.store(fewer))[1][0] == np.float32(math.log(64))
    # Some kernels only.
    both = hlo_kernels.store(
        record, hlo_kernels.addition([8, 128], configs(([1, 1], [])))
    )
    assert _value_range(both, [1])[1][0] == 0
