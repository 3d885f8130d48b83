"""Constructs of programs in public repositories, each in its smallest program."""

import textwrap

import pytest

from baselines.hlo import protos
from lab.tests.helpers import measured_programs
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


_LAYER = """
layer {
  x = bf16[16,32] parameter(0)
  w = bf16[32,32] parameter(1)
  a = bf16[16,32] tanh(x)
  b = bf16[16,32] add(a, x)
  dot = bf16[16,32] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT convert.7 = bf16[16,32] add(dot, x)
}
"""


def test_ids_and_names_stay_apart_where_a_function_is_widened():
    program = _read(
        _hlo(
            'p = bf16[16,32] parameter(0)\nq = bf16[32,32] parameter(1)\n'
            'ROOT r = bf16[16,32] call(p, q), to_apply=layer',
            _LAYER,
        )
    )
    module = preparation.prepare(program).module
    computations = [*module.computations]
    instructions = [i for c in computations for i in c.instructions]
    # XLA takes the lower half of an id for the place in its computation.
    ids = [i.id for i in instructions] + [c.id for c in computations]
    assert len({number & 0xFFFFFFFF for number in ids}) == len(ids)
    assert len({i.name for i in instructions}) == len(instructions)
    assert xla.to_stablehlo(module.SerializeToString())  # XLA checks the rest


def test_what_says_where_data_lie_is_no_operation():
    calls = ['Sharding', 'annotate_device_placement', 'xla.sdy.FuncResultSharding']
    lines, last = [f't = {_F32} tanh(p)'], 't'
    for number, target in enumerate(calls):
        lines.append(
            f'c{number} = {_F32} custom-call({last}), custom_call_target="{target}", '
            'custom_call_has_side_effect=true'
        )
        last = f'c{number}'
    lines = [f'p = {_F32} parameter(0)', *lines, f'ROOT r = {_F32} exponential({last})']
    text = _hlo('\n'.join(lines))
    assert _kernels(text) == [['tanh', 'exponential']]
    assert kernel_table.describe(_read(text))['cut_out'] == {}


def test_a_sharding_that_changes_the_shape_is_cut_out():
    text = _hlo(
        f'p = {_F32} parameter(0)\n'
        'c = f32[32,512] custom-call(p), custom_call_target="SPMDFullToShardShape"\n'
        'ROOT r = f32[32,512] tanh(c)'
    )
    assert _kernels(text) == [['tanh']]
    assert preparation.prepare(_read(text)).cut_out == {
        "custom call of 'SPMDFullToShardShape'": 1
    }


def test_constants_of_shardings_and_complex_ones():
    content = _mlir(
        '%c = sdy.constant dense<2.0> : tensor<256x512xf32>',
        '%r = stablehlo.multiply %x, %c : tensor<256x512xf32>',
    )
    opcodes = [i.opcode for i in _read(content).module.computations[0].instructions]
    assert opcodes.count('constant') == 1
    kind = 'tensor<256x512xcomplex<f32>>'
    content = _mlir(
        f'%c = stablehlo.constant dense<(0.0,1.0)> : {kind}',
        f'%z = stablehlo.complex %x, %x : {kind}',
        f'%r = stablehlo.multiply %z, %c : {kind}',
        result=kind,
    )
    assert [opcodes[-1] for opcodes in _kernels(content)] == ['multiply']


@pytest.mark.parametrize('kind', ['c64', 'f8e4m3fn', 's4'])
def test_arrays_of_newer_types_are_in_kernels(kind):
    convert = 'real' if kind == 'c64' else 'convert'
    text = _hlo(
        f'p = {kind}[256,512] parameter(0)\ny = {_F32} {convert}(p)\n'
        f'ROOT r = {_F32} tanh(y)'
    )
    assert kernel_table.describe(_read(text))['parameters'] == [f'{kind}[256,512]']
    assert _kernels(text)[-1][-1] == 'tanh'


_TWO = """
module @net {{
  func.func {}@train(%x: tensor<4xf32>) -> tensor<4xf32> {{
    %0 = call @infer(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }}
  func.func public @infer(%x: tensor<4xf32>) -> tensor<4xf32> {{
    %0 = stablehlo.exponential %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }}
}}
"""


def test_functions_of_mlir_are_chosen_by_name(tmp_path):
    path = tmp_path / 'net.mlir'
    path.write_text(_TWO.format(''))
    with pytest.raises(ValueError, match="'main'; choose one by FILE:NAME: train, inf"):
        reader.read_program(str(path))
    with pytest.raises(ValueError, match="no function 'x'; choose .*: train, infer"):
        reader.read_program(f'{path}:x')
    program = reader.read_program(f'{path}:infer')
    assert program.name == 'net_infer'
    opcodes = {i.opcode for c in program.module.computations for i in c.instructions}
    assert 'exponential' in opcodes and 'call' not in opcodes
    assert reader.find_sources([f'{path}:infer']) == [f'{path}:infer']
    assert not reader.tuning_kind(f'{path}:infer')
    path.write_text(_TWO.format('private '))  # the only public one is taken
    assert reader.read_program(str(path)).module.computations
    path = tmp_path / 'module.hlo'
    path.write_text(_hlo('ROOT p = f32[4] parameter(0)'))
    with pytest.raises(ValueError, match='HLO text, which has one program: leave out'):
        reader.read_program(f'{path}:main')


_HEADERLESS = 'f1 {\n  ROOT p = f32[4] parameter(0)\n}\n\nENTRY e {\n  ROOT q = f32[4] '


def test_text_without_a_header_is_named_after_its_file(tmp_path):
    path = tmp_path / 'my-dump.txt'
    path.write_text('// a comment\n' + _HEADERLESS + 'parameter(0)\n}\n')
    assert reader.read_program(str(path)).module.name == 'my_dump'


@pytest.mark.parametrize('text', [_HEADERLESS, _mlir('%r = stablehlo.')[:-30]])
def test_text_that_is_cut_off_is_said_to_be(text):
    with pytest.raises(ValueError, match='it ends in the middle: brackets are open'):
        _read(text)


def test_vhlo_without_a_version_is_named():
    with pytest.raises(ValueError, match='is VHLO without the version .* jax.export'):
        reader.read_program(b'ML\xefR\rMLIR24\0' + b'\x01\x02builtin\0vhlo\0func_v1\0')


def test_groups_and_locations_that_the_oldest_release_does_not_read():
    # 2 x 3 devices, numbered along the first dimension: 0 3 / 1 4 / 2 5.
    text = 'x), replica_groups=[3,2]<=[2,3]T(1,0), dimensions={0}'
    assert 'replica_groups={{0,3},{1,4},{2,5}}, dim' in hlo_text.repaired(text)
    assert hlo_text.repaired('replica_groups=[3]<=[2]') == 'replica_groups=[3]<=[2]'
    content = _mlir(
        '%r = stablehlo.tanh %x : tensor<256x512xf32> loc("f.py":3:4 to :9)'
    )
    assert _read(content).module.computations


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


def _runs(first):
    text = _hlo(
        f'p = f32[8,4] parameter(0)\ni = s32[] constant({first})\n'
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


def test_zeros_of_a_dilated_convolution_are_not_multiplied(monkeypatch):
    text = _hlo(
        'g = f32[4,28,28,128] parameter(0)\nw = f32[3,3,64,128] parameter(1)\n'
        'ROOT d = f32[4,56,56,64] convolution(g, w), window={size=3x3 '
        'pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f'
    )
    # As many as the convolution has whose gradient it is: 28 x 28 places of 3 x 3.
    assert _table(_read(text).module, monkeypatch)['multiply_adds'] == (
        4 * 28 * 28 * 128 * 3 * 3 * 64
    )


def test_the_neighbours_of_names_stay_distinct():
    module = protos.HloModuleProto()
    module.CopyFrom(measured_programs.pointwise(8))
    first, *_, last = module.computations[0].instructions
    first.name = last.name = 'x'
    building.renumber(module)
    assert first.name == 'x' and last.name == f'x.{last.id}'
