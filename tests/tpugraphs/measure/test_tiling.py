"""Kernels as loops over tiles: they compute what NumPy computes."""

import numpy as np
import pytest

from tpugraphs.measure import backend as backend_lib
from tpugraphs.measure import building
from tpugraphs.measure import kernels
from tpugraphs.measure import tiling

pytest.importorskip('jaxlib', reason='jaxlib is not installed (the extra [measure])')


@pytest.fixture(scope='module')
def backend():
    return backend_lib.Backend()


def f32(*dims):
    return building.shape_of('f32', dims)


class Build:
    """A kernel under construction: parameters, then instructions."""

    def __init__(self, source=None):
        self.module = building.Module('kernel', source)
        self.entry = self.module.computation('entry')

    def parameter(self, *dims, kind='f32'):
        return self.entry.parameter(building.shape_of(kind, dims))

    def add(self, opcode, dims, *operands, kind='f32', **fields):
        shape = building.shape_of(kind, dims)
        return self.entry.add(opcode, shape, operands, **fields)

    def scalar(self, number):
        return self.entry.constant('f32', float(number))

    def reducer(self, opcode):
        body = self.module.computation('reducer')
        a, b = body.parameter(f32()), body.parameter(f32())
        body.add(opcode, f32(), [a, b])
        return [body.finish()]

    def plan(self, root=None):
        return tiling.Plan(self.module.finish(self.entry, root))


def reduce_of(build, x, dims, kept, opcode='add', start=0.0):
    return build.add(
        'reduce',
        kept,
        x,
        build.scalar(start),
        calls=build.reducer(opcode),
        dimensions=dims,
    )


def run(backend, module, arrays):
    program = backend.compile(module.SerializeToString())
    return np.asarray(program.run(program.place(arrays))[0])


def check(backend, plan, arrays, expected, output, kernel=(), whole=()):
    """The tiled kernel and the untiled one both give what NumPy gives."""
    untiled = run(backend, plan.module, arrays)
    np.testing.assert_allclose(untiled, expected, rtol=1e-4, atol=1e-5)
    tiled = tiling.tile(plan, tiling.Tiles(output, kernel))
    assert tiled.module.computations[-1].instructions  # not the module itself
    found = run(backend, tiled.module, arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert tiled.whole == whole
    return tiled


def numbers(*dims):
    values = np.random.default_rng(0).uniform(-1, 1, dims)
    return values.astype(np.float32)


def test_elementwise_with_a_broadcast_and_tiles_that_do_not_divide(backend):
    build = Build()
    x, b = build.parameter(10, 7), build.parameter(7)
    wide = build.add('broadcast', [10, 7], b, dimensions=[1])
    build.add('multiply', [10, 7], x, wide)
    x, b = numbers(10, 7), numbers(7)
    tiled = check(backend, build.plan(), [x, b], x * b, (4, 3))
    assert tiled.input == (4, 3)


def test_transpose(backend):
    build = Build()
    x = build.parameter(4, 6, 5)
    build.add('transpose', [5, 4, 6], x, dimensions=[2, 0, 1])
    x = numbers(4, 6, 5)
    tiled = check(backend, build.plan(), [x], x.transpose(2, 0, 1), (2, 4, 3))
    assert tiled.input == (4, 3, 2)  # the dimensions as x has them


def test_slice_with_strides(backend):
    build = Build()
    x = build.parameter(12, 9)
    value = build.add('slice', [4, 7], x)
    for start, limit, stride in ((1, 12, 3), (2, 9, 1)):
        value.slice_dimensions.add(start=start, limit=limit, stride=stride)
    x = numbers(12, 9)
    check(backend, build.plan(), [x], x[1:12:3, 2:9], (2, 3))


def test_reverse(backend):
    build = Build()
    x = build.parameter(7, 5)
    build.add('reverse', [7, 5], x, dimensions=[0])
    x = numbers(7, 5)
    check(backend, build.plan(), [x], x[::-1], (3, 2))


def test_concatenate_across_its_parts(backend):
    build = Build()
    a, b = build.parameter(3, 4), build.parameter(5, 4)
    build.add('concatenate', [8, 4], a, b, dimensions=[0])
    a, b = numbers(3, 4), numbers(5, 4)
    check(backend, build.plan(), [a, b], np.concatenate([a, b]), (4, 2))


def test_pad_is_tiled_where_nothing_is_padded(backend):
    build = Build()
    x = build.parameter(6, 5)
    value = build.add('pad', [6, 9], x, build.scalar(2.0))
    value.padding_config.dimensions.add()
    value.padding_config.dimensions.add(edge_padding_low=1, edge_padding_high=3)
    plan = build.plan()
    assert plan.tileable() == ([True, False], [])
    x = numbers(6, 5)
    expected = np.pad(x, [(0, 0), (1, 3)], constant_values=2)
    check(backend, plan, [x], expected, (4, 9))
    check(backend, plan, [x], expected, (6, 4), whole=('pad',))


def test_iota_select_compare_convert(backend):
    build = Build()
    x = build.parameter(6, 8)
    iota = build.add('iota', [6, 8], kind='s32', dimensions=[1])
    real = build.add('convert', [6, 8], iota)
    less = build.add('compare', [6, 8], x, real, kind='pred', comparison_direction='LT')
    build.add('select', [6, 8], less, x, real)
    x = numbers(6, 8) * 8
    columns = np.broadcast_to(np.arange(8, dtype=np.float32), x.shape)
    check(backend, build.plan(), [x], np.minimum(x, columns), (4, 3))


def test_a_kernel_without_parameters(backend):
    build = Build()
    iota = build.add('iota', [6, 8], dimensions=[1])
    build.add('negate', [6, 8], iota)
    expected = np.broadcast_to(-np.arange(8, dtype=np.float32), (6, 8))
    tiled = check(backend, build.plan(), [], expected, (4, 3))
    assert tiled.input == ()


@pytest.mark.parametrize(
    'before, after, output',
    [
        ((4, 6, 5), (24, 5), (12, 2)),  # merged: whole rows of 6
        ((24, 5), (4, 6, 5), (2, 6, 5)),  # split, the first of the parts tiled
        ((8, 1, 3), (8, 3, 1), (3, 2, 1)),  # ones come and go
    ],
)
def test_reshape(backend, before, after, output):
    build = Build()
    x = build.parameter(*before)
    doubled = build.add('add', before, x, x)
    build.add('reshape', after, doubled)
    x = numbers(*before)
    check(backend, build.plan(), [x], (2 * x).reshape(after), output)


def test_reshape_across_tiles_is_computed_whole(backend):
    build = Build()
    x = build.parameter(4, 6)
    doubled = build.add('add', [4, 6], x, x)
    build.add('reshape', [24], doubled)
    plan = build.plan()
    x = numbers(4, 6)
    check(backend, plan, [x], (2 * x).ravel(), (4,), whole=('reshape',))
    # With tiles of half the length, whole rows: it can be tiled.
    assert plan.tileable() == ([True], [])


@pytest.mark.parametrize('opcode', ['add', 'maximum', 'minimum', 'multiply'])
def test_reduce_with_its_own_axis_tiled(backend, opcode):
    of = {'add': np.sum, 'maximum': np.max, 'minimum': np.min, 'multiply': np.prod}
    build = Build()
    x = build.parameter(8, 5, 6)
    squared = build.add('multiply', [8, 5, 6], x, x)
    start = {'add': 0.5, 'multiply': 2.0}.get(opcode, 0.25)
    reduced = reduce_of(build, squared, [0, 2], [5], opcode, start)
    build.add('negate', [5], reduced)
    x = numbers(8, 5, 6) + 2
    expected = of[opcode](x * x, axis=(0, 2))
    expected = -{
        'add': expected + 0.5,
        'multiply': expected * 2.0,
        'maximum': np.maximum(expected, 0.25),
        'minimum': np.minimum(expected, 0.25),
    }[opcode]
    plan = build.plan()
    assert plan.reduced == (8, 6)
    assert plan.tileable() == ([True], [True, True])
    check(backend, plan, [x], expected, (2,), (8, 6))
    check(backend, plan, [x], expected, (5,), (4, 6))
    tiled = check(backend, plan, [x], expected, (2,), (2, 3))
    assert tiled.input == (2, 2, 3)


def test_dot_with_a_batch_and_something_after(backend):
    build = Build()
    x, y = build.parameter(3, 4, 8), build.parameter(3, 8, 6)
    dot = build.add('dot', [3, 4, 6], x, y)
    numbers_ = dot.dot_dimension_numbers
    numbers_.lhs_batch_dimensions.append(0)
    numbers_.rhs_batch_dimensions.append(0)
    numbers_.lhs_contracting_dimensions.append(2)
    numbers_.rhs_contracting_dimensions.append(1)
    build.add('tanh', [3, 4, 6], dot)
    plan = build.plan()
    x, y = numbers(3, 4, 8), numbers(3, 8, 6)
    expected = np.tanh(x @ y)
    check(backend, plan, [x, y], expected, (2, 3, 4), (8,))
    check(backend, plan, [x, y], expected, (3, 4, 6), (2,))
    tiled = check(backend, plan, [x, y], expected, (1, 4, 3), (4,))
    assert tiled.input == (1, 4, 3)  # of y, the larger one


def convolved(x, k, stride, low, high, groups=1):
    """A plain convolution of [b, h, w, i] with [h, w, i / groups, o]."""
    x = np.pad(x, [(0, 0), (low, high), (low, high), (0, 0)])
    size, (b, h, w, _) = k.shape[0], x.shape
    rows = (h - size) // stride + 1
    columns = (w - size) // stride + 1
    out = np.zeros((b, rows, columns, k.shape[3]), np.float32)
    inner, each = k.shape[2], k.shape[3] // groups
    for o in range(k.shape[3]):
        first = o // each * inner
        for r in range(rows):
            for c in range(columns):
                at_r, at_c = r * stride, c * stride
                part = x[:, at_r : at_r + size, at_c : at_c + size]
                part = part[..., first : first + inner] * k[..., o]
                out[:, r, c, o] = part.sum((1, 2, 3))
    return out


def convolution(build, x_dims, k_dims, out, stride, low, high, groups=1):
    x, k = build.parameter(*x_dims), build.parameter(*k_dims)
    value = build.add('convolution', out, x, k, batch_group_count=1)
    value.feature_group_count = groups
    for _ in range(2):
        value.window.dimensions.add(
            size=k_dims[0],
            stride=stride,
            padding_low=low,
            padding_high=high,
            window_dilation=1,
            base_dilation=1,
        )
    numbers_ = value.convolution_dimension_numbers
    numbers_.input_batch_dimension = numbers_.output_batch_dimension = 0
    numbers_.input_feature_dimension = numbers_.output_feature_dimension = 3
    numbers_.input_spatial_dimensions.extend([1, 2])
    numbers_.output_spatial_dimensions.extend([1, 2])
    numbers_.kernel_spatial_dimensions.extend([0, 1])
    numbers_.kernel_input_feature_dimension = 2
    numbers_.kernel_output_feature_dimension = 3


def test_convolution_with_a_halo(backend):
    build = Build()
    convolution(build, (2, 9, 9, 4), (3, 3, 4, 6), (2, 5, 5, 6), 2, 1, 1)
    plan = build.plan()
    assert plan.reduced == (3, 3, 4)
    assert plan.tileable() == ([True] * 4, [False, False, True])
    x, k = numbers(2, 9, 9, 4), numbers(3, 3, 4, 6)
    expected = convolved(x, k, 2, 1, 1)
    check(backend, plan, [x, k], expected, (1, 5, 5, 4), (3, 3, 4))
    check(backend, plan, [x, k], expected, (2, 5, 5, 6), (3, 3, 2))
    tiled = check(backend, plan, [x, k], expected, (2, 2, 3, 6), (3, 3, 2))
    assert tiled.input == (2, 5, 7, 2)  # (2 - 1) * 2 + 3 rows, (3 - 1) * 2 + 3


def test_convolution_of_feature_groups(backend):
    build = Build()
    convolution(build, (1, 6, 6, 6), (3, 3, 2, 12), (1, 4, 4, 12), 1, 0, 0, groups=3)
    plan = build.plan()
    x, k = numbers(1, 6, 6, 6), numbers(3, 3, 2, 12)
    expected = convolved(x, k, 1, 0, 0, groups=3)
    check(backend, plan, [x, k], expected, (1, 2, 4, 4), (3, 3, 2))
    whole = check(
        backend, plan, [x, k], expected, (1, 4, 4, 3), (3, 3, 2), ('convolution',)
    )
    assert whole.input == (1, 6, 6, 6)


def test_reduce_window_with_padding(backend):
    build = Build()
    x = build.parameter(6, 7)
    value = build.add(
        'reduce-window', [6, 4], x, build.scalar(-9.0), calls=build.reducer('maximum')
    )
    value.window.dimensions.add(size=1, stride=1, window_dilation=1, base_dilation=1)
    value.window.dimensions.add(
        size=3,
        stride=2,
        padding_low=1,
        padding_high=1,
        window_dilation=1,
        base_dilation=1,
    )
    x = numbers(6, 7)
    wide = np.pad(x, [(0, 0), (1, 1)], constant_values=-9)
    expected = np.stack([wide[:, i : i + 3].max(1) for i in (0, 2, 4, 6)], 1)
    tiled = check(backend, build.plan(), [x], expected, (4, 3), (3,))
    assert tiled.input == (4, 7)  # (3 - 1) * 2 + 3 columns


def test_gather_of_rows(backend):
    build = Build()
    table, rows = build.parameter(9, 4), build.parameter(6, kind='s32')
    value = build.add('gather', [6, 4], table, rows, gather_slice_sizes=[1, 4])
    numbers_ = value.gather_dimension_numbers
    numbers_.offset_dims.append(1)
    numbers_.collapsed_slice_dims.append(0)
    numbers_.start_index_map.append(0)
    numbers_.index_vector_dim = 1
    x, rows = numbers(9, 4), np.array([3, 0, 8, 8, 1, 5], np.int32)
    check(backend, build.plan(), [x, rows], x[rows], (4, 2))


def test_what_does_not_depend_on_the_tile_is_computed_once():
    build = Build()
    x, b = build.parameter(8, 6), build.parameter(6)
    costly = build.add('tanh', [6], b)
    wide = build.add('broadcast', [8, 6], costly, dimensions=[1])
    build.add('add', [8, 6], x, wide)
    tiled = tiling.tile(build.plan(), tiling.Tiles((2, 6), ()))
    entry = kernels.entry_of(tiled.module)
    assert [i.opcode for i in entry.instructions].count('tanh') == 1
    inside = [i.opcode for c in tiled.module.computations[:-1] for i in c.instructions]
    assert 'tanh' not in inside and 'add' in inside


def test_the_untiled_kernel_is_the_kernel_itself():
    build = Build()
    x = build.parameter(8, 6)
    reduce_of(build, x, [0], [6])
    plan = build.plan()
    assert tiling.tile(plan, plan.untiled).module is plan.module
