"""Programs with operations that cannot run here: those are cut out, the rest stays."""

import pytest

from baselines.hlo import protos
from lab.tests.helpers import lab_commands
from tpugraphs_lab import measure
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import preparation
from tpugraphs_lab.kernels import removal
from tpugraphs_lab.programs import reader
from tpugraphs_lab.programs import xla

# x -> exponential -> what is cut out -> tanh: two kernels, which stay.
_AROUND = """
HloModule program

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

less {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT s = pred[] compare(a, b), direction=GT
}}

ENTRY main {{
  p = f32[128,96]{{1,0}} parameter(0)
  x = f32[128,96]{{1,0}} exponential(p)
  start = token[] after-all()
  {}
  ROOT z = f32[128,96]{{1,0}} tanh(y)
}}
"""
_SAME = 'f32[128,96]{1,0}'
_GROUPS = 'channel_id=7, replica_groups={{0,1}}, use_global_device_ids=true'
_OTHERS = _GROUPS.replace('7', '8')  # a channel is one operation's


def program(lines):
    content = xla.parse_text(_AROUND.format(lines))
    module = protos.HloModuleProto.FromString(content)
    return preparation.prepare(reader.Program('program', module, source='mine.hlo'))


def kernels(prepared):
    """Returns the opcodes of the program's kernels."""
    cut, _ = cutting.cut(preparation.optimise(prepared, measure.optimise), 'program')
    instructions = [i for k in cut for i in cutting.entry_of(k.module).instructions]
    return sorted(i.opcode for i in instructions if i.opcode != 'parameter')


def custom_call(target, more=''):
    return f'y = {_SAME} custom-call(x), custom_call_target="{target}"{more}'


@pytest.mark.parametrize(
    'lines, cut_out',
    [
        (custom_call('AwsNeuronGelu'), "1 custom call of 'AwsNeuronGelu'"),
        (
            't = (f32[128,4]{1,0}, s32[128,4]{1,0}) custom-call(x), '
            'custom_call_target="TopK", called_computations={less}\n'
            'v = f32[128,4]{1,0} get-tuple-element(t), index=0\n'
            'zero = f32[] constant(0)\n'
            f'y = {_SAME} pad(v, zero), padding=0_0x0_92',
            "1 custom call of 'TopK'",
        ),
        (
            f't = ({_SAME}, f32[96]{{0}}, s32[]) custom-call(x), '
            'custom_call_target="cusolver_syevj"\n'
            f'y = {_SAME} get-tuple-element(t), index=0',
            "1 custom call of 'cusolver_syevj'",
        ),
        (
            f'r = f32[64,96]{{1,0}} reduce-scatter(x), {_GROUPS}, dimensions={{0}}, '
            'to_apply=add\n'
            f'y = {_SAME} all-gather(r), {_OTHERS}, dimensions={{0}}',
            '1 all-gather, 1 reduce-scatter',
        ),
        (
            f's = {_SAME} all-reduce-start(x), {_GROUPS}, to_apply=add\n'
            f'y = {_SAME} all-reduce-done(s)',
            '1 all-reduce',
        ),
        (
            f'o = token[] outfeed(x, start), outfeed_shape={_SAME}\n'
            f'i = ({_SAME}, token[]) infeed(o)\n'
            f'y = {_SAME} get-tuple-element(i), index=0',
            '1 infeed, 1 outfeed',
        ),
        (
            'c = c64[128,49]{1,0} custom-call(x), custom_call_target="fft"\n'
            'q = f8e4m3fn[128,96]{1,0} custom-call(c), custom_call_target="fft"\n'
            f'y = {_SAME} custom-call(q), custom_call_target="inverse"',
            "2 custom calls of 'fft', 1 custom call of 'inverse'",
        ),
        (
            f's = ({_SAME}, {_SAME}, u32[]) copy-start(x)\ny = {_SAME} copy-done(s)',
            '1 copy',
        ),
        (
            f's = ({_SAME}, u32[], token[]) send(x, start), channel_id=1\n'
            'd = token[] send-done(s), channel_id=1\n'
            f'r = ({_SAME}, u32[], token[]) recv(d), channel_id=2\n'
            f'e = ({_SAME}, token[]) recv-done(r), channel_id=2\n'
            f'y = {_SAME} get-tuple-element(e), index=0',
            '1 recv, 1 send',
        ),
    ],
)
def test_what_is_around_it_stays(lines, cut_out):
    prepared = program(lines)
    assert removal.describe(prepared.cut_out) == cut_out
    assert {'exponential', 'tanh'} <= set(kernels(prepared))


def test_annotations_stay():
    prepared = program(custom_call('Sharding', ', sharding={replicated}'))
    assert not prepared.cut_out
    # Nothing lies between the two operations, so they are one kernel.
    assert kernels(prepared) == ['exponential', 'tanh']


def test_it_is_cut_out_of_the_bodies_of_loops():
    text = _AROUND.format(f'y = {_SAME} while(x), condition=always, body=step')
    text = text.replace(
        'ENTRY',
        f"""step {{
  p = {_SAME} parameter(0)
  e = {_SAME} cosine(p)
  c = {_SAME} custom-call(e), custom_call_target="mine"
  ROOT s = {_SAME} sine(c)
}}

always {{
  p = {_SAME} parameter(0)
  ROOT t = pred[] constant(true)
}}

ENTRY""",
    )
    module = protos.HloModuleProto.FromString(xla.parse_text(text))
    prepared = preparation.prepare(reader.Program('program', module))
    assert kernels(prepared) == ['cosine', 'exponential', 'sine', 'tanh']


def write(tmp_path):
    path = tmp_path / 'mine.hlo'
    path.write_text(_AROUND.format(custom_call('AwsNeuronGelu')))
    return str(path)


def test_show_lists_the_others(tmp_path, capsys):
    assert lab_commands.run('show', [write(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "cut out         1 custom call of 'AwsNeuronGelu'" in printed
    assert 'kernels         2, as' in printed


def test_collect_measures_the_others(tmp_path, capsys):
    words = ['--configs', '2', '--passes', '2', '--split', 'none']
    path, out = write(tmp_path), str(tmp_path / 'out')
    assert lab_commands.run('collect', [path, out, *words]) == 0
    captured = capsys.readouterr()
    assert "cut out: 1 custom call of 'AwsNeuronGelu'" in captured.err
    assert '2 kernels with' in captured.out
