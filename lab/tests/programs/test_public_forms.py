"""Constructs of programs in public repositories, each in its smallest program."""

import textwrap

import pytest

from baselines.hlo import protos
from lab.tests.helpers import measured_programs
from tests.helpers import places
from tpugraphs_lab import kernel_table
from tpugraphs_lab import measure
from tpugraphs_lab.kernels import building
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import preparation
from tpugraphs_lab.kernels import trip_counts
from tpugraphs_lab.programs import hlo_text
from tpugraphs_lab.programs import reader
from tpugraphs_lab.programs import xla

_F32 = 'f32[256,512]'
_FOLDER = places.ROOT / 'lab/tests/data/programs'


def _read(text, **options):
    return reader.read_program(text.encode(), options=reader.Options(**options))


def _kernels(text):
    """Returns the opcodes of the kernels of a program, after XLA's passes."""
    optimised = preparation.optimise(_read(text), measure.optimise)
    kernels, _ = cutting.cut(optimised, 'p')
    entries = [cutting.entry_of(kernel.module).instructions for kernel in kernels]
    free = ('parameter', 'constant', 'broadcast')
    return sorted([i.opcode for i in e if i.opcode not in free] for e in entries)


def _hlo(body, before=''):
    return f'HloModule m\n{before}\nENTRY main {{\n{textwrap.dedent(body)}\n}}\n'


def _mlir(*lines, result=None):
    result = result or 'tensor<256x512xf32>'
    body = '\n'.join(lines)
    return (
        f'module @m {{ func.func public @main(%x: tensor<256x512xf32>) -> {result} {{\n'
        f'{body}\nreturn %r : {result} }} }}'
    )


@pytest.mark.parametrize(
    'name, kernels, cut_out',
    [
        # Operations that only say where data lie are removed.
        ('sdy_func_result.hlo', ['tanh exponential'], []),
        ('move_to_device.mlir', ['tanh exponential'], []),
        ('sdy_constant.mlir', ['multiply'], []),
        # These change the shape.
        (
            'spmd_full_to_shard.mlir',
            ['tanh'],
            ['SPMDFullToShardShape', 'SPMDShardToFullShape'],
        ),
        (
            'custom_call_in_function.hlo',
            ['add minimum', 'add multiply subtract', 'dot add'],
            ['my_kernel'],
        ),
        ('complex_constant.mlir', ['complex multiply real'], []),
        ('complex_parameter.hlo', ['real tanh'], []),
        ('fp8_parameter.hlo', ['convert tanh'], []),
        ('s4_parameter.hlo', ['convert tanh'], []),
        ('sort_tanh.hlo', ['tanh'], []),
    ],
)
def test_kernels_of_small_programs(name, kernels, cut_out):
    content = (_FOLDER / name).read_text()
    assert [' '.join(opcodes) for opcodes in _kernels(content)] == kernels
    counts = {f'custom call of {target!r}': 1 for target in cut_out}
    assert preparation.prepare(_read(content)).cut_out == counts


def test_ids_and_names_stay_apart_where_a_function_is_widened():
    program = _read((_FOLDER / 'bf16_dot_in_function.hlo').read_text())
    module = preparation.prepare(program).module
    computations = [*module.computations]
    instructions = [i for c in computations for i in c.instructions]
    # XLA takes the lower half of an id for the place in its computation.
    ids = [i.id for i in instructions] + [c.id for c in computations]
    assert len({number & 0xFFFFFFFF for number in ids}) == len(ids)
    assert len({i.name for i in instructions}) == len(instructions)
    assert xla.to_stablehlo(module.SerializeToString())  # XLA checks the rest


def test_a_composite_is_what_it_is_made_of():
    kind = 'tensor<256x512xf32>'
    content = _mlir(
        '%r = stablehlo.composite "my.gelu" %x {decomposition = @gelu, '
        f'composite_attributes = {{a = "b"}}, version = 1 : i32}} : ({kind}) -> {kind}'
    )
    gelu = f'%r = stablehlo.tanh %x : {kind}\nreturn %r : {kind}'
    gelu = f'func.func private @gelu(%x: {kind}) -> {kind} {{\n{gelu}\n}}'
    assert _kernels(content[:-1] + gelu + '}') == [['tanh']]
    if not xla.has_sdy():  # does not read such attributes
        return
    text = _hlo(
        f'p = {_F32} parameter(0)\nROOT r = {_F32} call(p), to_apply=gelu, '
        'is_composite=true, frontend_attributes={composite.attributes={},'
        'composite.name="my.gelu",composite.version="1"}',
        f'gelu {{\np = {_F32} parameter(0)\nROOT t = {_F32} tanh(p)\n}}',
    )
    assert _kernels(text) == [['tanh']]


def test_functions_of_mlir_are_chosen_by_name(tmp_path):
    content = (_FOLDER / 'two_functions.mlir').read_text()
    path = tmp_path / 'net.mlir'
    path.write_text(content)
    with pytest.raises(ValueError, match="'main'; choose one by FILE:NAME: train, inf"):
        reader.read_program(str(path))
    with pytest.raises(ValueError, match="no function 'x'; choose .*: train, infer"):
        reader.read_program(f'{path}:x')
    program = reader.read_program(f'{path}:infer')
    assert program.name == 'net_infer'
    opcodes = {i.opcode for c in program.module.computations for i in c.instructions}
    assert 'exponential' in opcodes and 'tanh' not in opcodes
    assert reader.find_sources([f'{path}:infer']) == [f'{path}:infer']
    assert not reader.tuning_kind(f'{path}:infer')
    path.write_text(content.replace('public @train', 'private @train'))
    assert reader.read_program(str(path)).module.computations  # the only public one
    with pytest.raises(ValueError, match='HLO text, .*leave out :main'):
        reader.read_program(f'{_FOLDER}/sort_only.hlo:main')


def test_text_without_a_header_is_named_after_its_file():
    program = reader.read_program(str(_FOLDER / 'headerless.hlo'))
    assert program.module.name == 'headerless'


def test_groups_that_the_oldest_release_does_not_read():
    # 2 x 3 devices, numbered along the first dimension: 0 3 / 1 4 / 2 5.
    text = 'x), replica_groups=[3,2]<=[2,3]T(1,0), dimensions={0}'
    assert 'replica_groups={{0,3},{1,4},{2,5}}, dim' in hlo_text.repaired(text)
    assert hlo_text.repaired('replica_groups=[3]<=[2]') == 'replica_groups=[3]<=[2]'


@pytest.mark.skipif(xla.has_sdy(), reason='this jaxlib is new')
def test_what_only_a_newer_release_reads_is_said():
    with pytest.raises(ValueError, match="square' is unknown; jaxlib 0.*, of Python 3"):
        _read(_mlir('%r = chlo.square %x : tensor<256x512xf32>'))


def test_an_attribute_is_dropped_where_it_is_refused(capsys):
    text = _hlo(
        'p = f32[8,4] parameter(0)\nt = f32[8,4] tanh(p), dimensions={0}\n'
        'u = f32[8,4] tanh(t), dimensions={1}\n'
        'ROOT r = f32[4,8] transpose(u), dimensions={1,0}'
    )
    [computation] = _read(text).module.computations
    assert list(computation.instructions[-1].dimensions) == [1, 0]
    assert 'this XLA does not know them: dimensions\n' in capsys.readouterr().err


def test_a_module_with_bitcasts_is_optimised_already():
    text = _hlo('p = f32[8,4] parameter(0)\nROOT b = f32[32] bitcast(p)')
    assert preparation.is_optimised(_read(text).module)


_LOOP = """
body {
  s = (s32[], f32[8,4], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  y = f32[8,4] get-tuple-element(s), index=1
  n = s32[] get-tuple-element(s), index=2
  two = s32[] constant(2)
  j = s32[] add(i, two)
  z = f32[8,4] tanh(y)
  ROOT t = (s32[], f32[8,4], s32[]) tuple(j, z, n)
}

condition {
  s = (s32[], f32[8,4], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=2
  ROOT c = pred[] compare(i, n), direction=LT
}
"""


def _runs(first, start='i = s32[] constant(0)'):
    start = start if not first else f'i = s32[] constant({first})'
    text = _hlo(
        f'p = f32[8,4] parameter(0)\n{start}\n'
        'n = s32[] parameter(1)\nm = s32[] constant(8)\n'
        f't = (s32[], f32[8,4], s32[]) tuple(i, p, {"n" if first else "m"})\n'
        'w = (s32[], f32[8,4], s32[]) while(t), condition=condition, body=body\n'
        'ROOT r = f32[8,4] get-tuple-element(w), index=1',
        _LOOP,
    )
    module = _read(text).module
    runs, unknown = trip_counts.count_runs(module)
    names = {c.id: c.name for c in module.computations}
    return {names[number]: count for number, count in runs.items()}, unknown


def test_trips_of_loops_are_counted_as_far_as_they_are_known():
    # From 0 on, by 2, below 8: four rounds.
    assert _runs(0) == ({'main': 1, 'body': 4, 'condition': 4}, 0)
    assert _runs(1) == ({'main': 1, 'body': 1, 'condition': 1}, 1)
    # The same at the end of a long chain.
    chain = ['z = s32[] constant(0)', 'i0 = s32[] add(z, z)']
    chain += [f'i{n + 1} = s32[] add(i{n}, z)' for n in range(2000)]
    chain.append('i = s32[] copy(i2000)')
    assert _runs(0, '\n'.join(chain)) == _runs(0)


def _table(module, monkeypatch):
    monkeypatch.setattr(preparation, 'is_optimised', lambda unused_module: True)
    return kernel_table.describe(reader.read_program(module))


def test_a_row_is_of_equal_kernels(monkeypatch):
    text = _hlo(
        'p = f32[8,4] parameter(0)\nq = f32[8,4] parameter(1)\n'
        'a = f32[8,4] tanh(p)\nb = f32[8,4] cosine(q)\nc = f32[8,4] tanh(q)\n'
        's = f32[8,4] add(a, a)\nd = f32[8,4] add(a, b)\n'
        'ROOT t = (f32[8,4], f32[8,4], f32[8,4]) tuple(c, s, d)'
    )
    rows = _table(_read(text).module, monkeypatch)['kernels']
    # The sums differ: one is of the same array twice.
    names = {row['name'][0] for row in rows}
    assert {'b', 's', 'd'} < names and len(names) == 4
    assert sorted(row['times'] for row in rows) == [1, 1, 1, 2]


def test_what_has_no_tiles_says_so_and_what_is_cut_out_is_no_kernel(monkeypatch):
    text = _hlo(
        'p = f32[8,4] parameter(0)\n'
        's = f32[8,4] sort(p), dimensions={1}, to_apply=less\n'
        'ROOT c = f32[8,4] custom-call(s), custom_call_target="mine"',
        'less {\na = f32[] parameter(0)\nb = f32[] parameter(1)\n'
        'ROOT c = pred[] compare(a, b), direction=LT\n}',
    )
    described = _table(_read(text).module, monkeypatch)
    [row] = described['kernels']
    assert (row['name'][0], row['reason']) == ('s', 'sort has no tiles')
    assert 'sort has no tiles' in kernel_table.lines(described)[-1]
    assert described['cut_out'] == {"custom call of 'mine'": 1}


@pytest.mark.parametrize(
    'shapes, window, count',
    [
        # In each dimension 28, 28 and 27 outputs of taps 0, 1 and 2 are no zeros.
        (
            ('4,28,28,128', '3,3,128,64', '4,56,56,64'),
            '3x3 pad=1_2x1_2 lhs_dilate=2x2}',
            4 * 128 * 64 * (28 + 28 + 27) ** 2,
        ),
        # Each of 4 x 4 pixels meets each of 3 x 3 taps once: 144, of 8 x 16 features.
        (('1,4,4,8', '3,3,8,16', '1,42,42,16'), '3x3 pad=20_20x20_20}', 18_432),
        # Taps at 0 and 3 of outputs 0, 2, 4: one of the last is behind the input of 6.
        (
            ('1,6,1,1', '2,1,1,1', '1,3,1,1'),
            '2x1 stride=2x1 pad=0_2x0_0 rhs_dilate=3x1}',
            5,
        ),
        # 12 features of 2 in their group; 3 x 8 - 2 and 5 x 8 - 6 taps.
        (
            ('2,8,8,6', '3,5,2,12', '2,8,8,12'),
            '3x5 pad=1_1x2_2}, feature_group_count=3',
            2 * 12 * 2 * 22 * 34,
        ),
    ],
)
def test_taps_on_padding_and_zeros_are_not_counted(shapes, window, count, monkeypatch):
    x, kernel, y = (f'f32[{shape}]' for shape in shapes)
    text = _hlo(
        f'x = {x} parameter(0)\nw = {kernel} parameter(1)\nROOT y = {y} '
        f'convolution(x, w), dim_labels=b01f_01io->b01f, window={{size={window}'
    )
    program = _read(text)
    assert _table(program.module, monkeypatch)['multiply_adds'] == count


def test_the_neighbours_of_names_stay_distinct():
    module = protos.HloModuleProto()
    module.CopyFrom(measured_programs.pointwise(8))
    first, *_, last = module.computations[0].instructions
    first.name = last.name = 'x'
    building.renumber(module)
    assert first.name == 'x' and last.name == f'x.{last.id}'
