"""Kernels as loops over tiles: they compute what XLA makes of the untiled kernel."""

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from baselines.hlo import protos
from lab.tests.helpers import measured_programs
from tpugraphs_lab.kernels import building
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import neutral_elements
from tpugraphs_lab.kernels import rewriting
from tpugraphs_lab.measure.clock import backend as backend_lib
from tpugraphs_lab.programs import xla


@pytest.fixture(scope='module')
def run():
    """Returns a function: module -> its result for random inputs."""
    backend = backend_lib.Backend()

    def run(module):
        rng = np.random.default_rng(0)
        arrays = [
            rng.uniform(0.5, 1.5, i['dims']).astype(i['type'])
            if i['type'] == 'float32'
            else rng.integers(0, i['high'], i['dims']).astype(i['type'])
            for i in cutting.inputs_of(module)
        ]
        program = backend.compile(module.SerializeToString())
        return program.outputs(program.place(arrays))[0]

    return run


class Case(NamedTuple):
    """A kernel, a configuration, and what is expected of it."""

    text: str
    output: tuple[int, ...]
    kernel: tuple[int, ...] = ()
    input: Any = None  # the tile of the largest parameter, unless None
    whole: tuple[str, ...] = ()
    tileable: Any = None  # dimensions of output and reduction, unless None


_PAD = """
  x = f32[6,5] parameter(0)
  two = f32[] constant(2)
  ROOT r = f32[6,9] pad(x, two), padding=0_0x1_3
"""
_ACROSS = """
  x = f32[4,6] parameter(0)
  doubled = f32[4,6] add(x, x)
  ROOT r = f32[24] reshape(doubled)
"""
_REDUCE = """
  x = f32[8,5,6] parameter(0)
  squared = f32[8,5,6] multiply(x, x)
  start = f32[] constant({1})
  reduced = f32[5] reduce(squared, start), dimensions={{0,2}}, to_apply={0}
  ROOT r = f32[5] negate(reduced)
"""
_DOT = """
  x = f32[3,4,8] parameter(0)
  y = f32[3,8,6] parameter(1)
  dot = f32[3,4,6] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, \
rhs_batch_dims={0}, rhs_contracting_dims={1}
  ROOT r = f32[3,4,6] tanh(dot)
"""
_HALO = """
  x = f32[2,9,9,4] parameter(0)
  k = f32[3,3,4,6] parameter(1)
  ROOT r = f32[2,5,5,6] convolution(x, k), \
window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
"""
_GROUPS = """
  x = f32[1,6,6,6] parameter(0)
  k = f32[3,3,2,12] parameter(1)
  ROOT r = f32[1,4,4,12] convolution(x, k), window={size=3x3}, \
dim_labels=b01f_01io->b01f, feature_group_count=3
"""
_ALL = [True, True]


def reshape(before, after):
    return f"""
  x = f32{before} parameter(0)
  doubled = f32{before} add(x, x)
  ROOT r = f32{after} reshape(doubled)
"""


CASES = {
    'a broadcast, and tiles that do not divide': Case(
        """
  x = f32[10,7] parameter(0)
  b = f32[7] parameter(1)
  wide = f32[10,7] broadcast(b), dimensions={1}
  ROOT r = f32[10,7] multiply(x, wide)
""",
        (4, 3),
        input=(4, 3),
    ),
    'a transpose': Case(
        'x = f32[4,6,5] parameter(0)\n'
        'ROOT r = f32[5,4,6] transpose(x), dimensions={2,0,1}',
        (2, 4, 3),
        input=(4, 3, 2),  # the dimensions as x has them
    ),
    'a slice with strides': Case(
        'x = f32[12,9] parameter(0)\n'
        'ROOT r = f32[4,7] slice(x), slice={[1:12:3], [2:9]}',
        (2, 3),
    ),
    'a reverse': Case(
        'x = f32[7,5] parameter(0)\n ROOT r = f32[7,5] reverse(x), dimensions={0}',
        (3, 2),
    ),
    'a concatenation, across its parts': Case(
        """
  a = f32[3,4] parameter(0)
  b = f32[5,4] parameter(1)
  ROOT r = f32[8,4] concatenate(a, b), dimensions={0}
""",
        (4, 2),
    ),
    'a pad where nothing is padded': Case(_PAD, (4, 9), tileable=([True, False], [])),
    'a pad along its edges': Case(_PAD, (6, 4), whole=('pad',)),
    'iota, convert, compare, select': Case(
        """
  x = f32[6,8] parameter(0)
  columns = s32[6,8] iota(), iota_dimension=1
  real = f32[6,8] convert(columns)
  less = pred[6,8] compare(x, real), direction=LT
  ROOT r = f32[6,8] select(less, x, real)
""",
        (4, 3),
    ),
    'no parameters': Case(
        'c = f32[6,8] iota(), iota_dimension=1\n ROOT r = f32[6,8] negate(c)',
        (4, 3),
        input=(),
    ),
    'a reshape that merges whole rows of 6': Case(reshape([4, 6, 5], [24, 5]), (6, 2)),
    'a reshape that splits, the first part tiled': Case(
        reshape([24, 5], [4, 6, 5]), (1, 6, 5)
    ),
    'a reshape of ones': Case(reshape([8, 1, 3], [8, 3, 1]), (3, 2, 1)),
    # With tiles of half the length, whole rows, it can be tiled.
    'a reshape across tiles': Case(
        _ACROSS, (4,), whole=('reshape',), tileable=([True], [])
    ),
    'a dot, its batch and free dimensions': Case(_DOT, (2, 3, 4), (8,)),
    'a dot, its contraction': Case(_DOT, (3, 4, 6), (2,)),
    'a dot, both': Case(_DOT, (1, 4, 3), (4,), input=(1, 4, 3)),  # of y, the larger
    'a convolution, its features': Case(
        *(_HALO, (1, 5, 5, 4), (3, 3, 4)), tileable=([True] * 4, [False, False, True])
    ),
    'a convolution, its reduction': Case(_HALO, (2, 5, 5, 6), (3, 3, 2)),
    # (2 - 1) * 2 + 3 rows, (3 - 1) * 2 + 3 columns
    'a convolution with a halo': Case(
        _HALO, (2, 2, 3, 6), (3, 3, 2), input=(2, 5, 7, 2)
    ),
    'a convolution of whole feature groups': Case(_GROUPS, (1, 2, 4, 4), (3, 3, 2)),
    'a convolution across feature groups': Case(
        *(_GROUPS, (1, 4, 4, 3), (3, 3, 2), (1, 6, 6, 6), ('convolution',))
    ),
    'a reduce-window with padding': Case(
        """
  x = f32[6,7] parameter(0)
  low = f32[] constant(-9)
  ROOT r = f32[6,4] reduce-window(x, low), \
window={size=1x3 stride=1x2 pad=0_0x1_1}, to_apply=maximum
""",
        (4, 3),
        (3,),
        input=(4, 7),  # (3 - 1) * 2 + 3 columns
    ),
    'a gather of rows': Case(
        """
  table = f32[9,4] parameter(0)
  rows = s32[6] parameter(1)
  ROOT r = f32[6,4] gather(table, rows), offset_dims={1}, \
collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
""",
        (4, 2),
    ),
}
for _opcode, _start in dict(add=0.5, multiply=2, maximum=2, minimum=0.25).items():
    _text = _REDUCE.format(_opcode, _start)
    CASES[f'a reduction by {_opcode}, its result'] = Case(
        _text, (2,), (8, 6), tileable=([True], _ALL)
    )
    CASES[f'a reduction by {_opcode}, its axes'] = Case(_text, (5,), (4, 6))
    CASES[f'a reduction by {_opcode}, both'] = Case(_text, (2,), (2, 3), (2, 2, 3))


@pytest.mark.parametrize('case', CASES.values(), ids=CASES)
def test_a_tiled_kernel_computes_the_same(case, run):
    plan = rewriting.Plan(measured_programs.parsed(case.text))
    tiled = rewriting.tile(plan, rewriting.Tiles(case.output, case.kernel))
    assert tiled.module is not plan.module
    np.testing.assert_allclose(
        run(tiled.module), run(plan.module), rtol=1e-4, atol=1e-5
    )
    assert tiled.whole == case.whole
    assert case.input in (None, tiled.input)
    assert case.tileable in (None, plan.tileable)


_REDUCERS = {
    'add': np.add,
    'multiply': np.multiply,
    'maximum': np.maximum,
    'minimum': np.minimum,
    'and': np.bitwise_and,
    'or': np.bitwise_or,
    'xor': np.bitwise_xor,
}
_DTYPES = {
    number: np.dtype(getattr(ml_dtypes, name, name))
    for number, name in building.NUMPY_TYPES.items()
    if neutral_elements.TABLE[number]
}


@pytest.mark.parametrize('number', _DTYPES)
def test_neutral_elements_change_no_value_of_their_type(number):
    dtype, elements = _DTYPES[number], neutral_elements.TABLE[number]
    if 'float' in dtype.name:
        values = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 2.5, -3], dtype)
        assert set(elements) == {'add', 'multiply', 'maximum', 'minimum'}
    else:
        values = np.array([0, 1], dtype)
        if dtype.kind != 'b':
            limits = np.iinfo(dtype)
            values = np.array([limits.min, limits.max, 0, 1], dtype)
        assert set(elements) == set(_REDUCERS)
    for opcode, element in elements.items():
        with np.errstate(invalid='ignore'):  # of NaN in bfloat16
            result = _REDUCERS[opcode](np.array(element, dtype), values)
        assert result.tobytes() == values.tobytes(), opcode


def test_neutral_elements_are_written_in_every_type():
    made = building.Module('program')
    entry = made.computation('entry')
    pairs = [
        (k, e) for k, table in neutral_elements.TABLE.items() for e in table.values()
    ]
    constants = [entry.constant(kind, element) for kind, element in pairs]
    entry.add('tuple', building.tuple_of([c.shape for c in constants]), constants)
    content = made.finish(entry).SerializeToString()
    outputs = backend_lib.Backend().compile(content).outputs([])
    for (kind, element), output in zip(pairs, outputs, strict=True):
        assert output.tobytes() == np.array(element, _DTYPES[kind]).tobytes()


@pytest.mark.parametrize('kind, start', [('s32', -2), ('u8', 252), ('pred', 1)])
def test_a_reduction_by_and_starts_from_its_own_value_once(kind, start, run):
    module = protos.HloModuleProto.FromString(
        xla.parse_text(f"""HloModule program
conjunction {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] and(a, b)
}}
ENTRY entry {{
  x = {kind}[4,6]{{1,0}} parameter(0)
  ones = {kind}[4,6]{{1,0}} not(x)
  start = {kind}[] constant({start})
  ROOT r = {kind}[4]{{0}} reduce(ones, start), dimensions={{1}}, to_apply=conjunction
}}""")
    )
    plan = rewriting.Plan(module)
    tiled = rewriting.tile(plan, rewriting.Tiles((4,), (2,)))
    np.testing.assert_array_equal(run(tiled.module), run(module))


def test_what_does_not_depend_on_the_tile_is_computed_once():
    plan = rewriting.Plan(
        measured_programs.parsed("""
  x = f32[8,6] parameter(0)
  b = f32[6] parameter(1)
  costly = f32[6] tanh(b)
  wide = f32[8,6] broadcast(costly), dimensions={1}
  ROOT r = f32[8,6] add(x, wide)
""")
    )
    tiled = rewriting.tile(plan, rewriting.Tiles((2, 6), ()))
    entry = cutting.entry_of(tiled.module)
    assert [i.opcode for i in entry.instructions].count('tanh') == 1
    inside = [i.opcode for c in tiled.module.computations[:-1] for i in c.instructions]
    assert 'tanh' not in inside and 'add' in inside


def test_the_untiled_kernel_is_the_kernel_itself():
    plan = rewriting.Plan(measured_programs.parsed(_REDUCE.format('add', 0)))
    assert plan.reduced == (8, 6)
    assert rewriting.tile(plan, plan.untiled).module is plan.module
