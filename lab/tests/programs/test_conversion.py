"""Programs of other compilers and printers, and what they may do to the process."""

import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from lab.tests.helpers import program_forms
from tpugraphs_lab.measure.clock import backend as backend_lib
from tpugraphs_lab.programs import children
from tpugraphs_lab.programs import hlo_text
from tpugraphs_lab.programs import isolated
from tpugraphs_lab.programs import reader
from tpugraphs_lab.programs import stablehlo
from tpugraphs_lab.programs import xla


def _opcodes(text):
    module = reader.read_program(text.encode()).module
    return [i.opcode for c in module.computations for i in c.instructions]


def _outputs(text, *arrays):
    content = reader.read_program(text.encode()).module.SerializeToString()
    program = backend_lib.Backend().compile(content)
    return program.outputs(program.place(arrays))


def test_the_api_version_of_pytorch_is_read_and_quotes_are_kept():
    text = (
        'HloModule m\nENTRY e { p = f32[4] parameter(0)\n'
        'ROOT c = f32[4] custom-call(p), custom_call_target="AwsNeuronGelu", '
        'api_version=API_VERSION_UNSPECIFIED, '
        'metadata={op_name="API_VERSION_UNSPECIFIED constant({...})"} }'
    )
    assert _opcodes(text) == ['parameter', 'custom-call']
    quoted = '"API_VERSION_UNSPECIFIED constant({...})"'
    assert quoted in hlo_text.repaired(text)


def test_elided_constants_are_drawn_and_a_note_says_so(capsys):
    text = (
        'HloModule m\nENTRY e { c = f32[64,64] constant({...})\n'
        'i = s32[300] constant({...})\n b = bf16[3] constant({...})\n'
        'ROOT t = (f32[64,64], s32[300], bf16[3]) tuple(c, i, b) }'
    )
    floats, integers, narrow = _outputs(text)
    assert 'the values of 3 constants are not in the file, and are random' in (
        capsys.readouterr().err
    )
    # Of 4,096 values with a deviation of 1/8, and a mean of 0 +- 0.002.
    assert floats.std() == pytest.approx(1 / 8, rel=0.1)
    assert set(integers) == {0, 1}
    assert np.isfinite(narrow.astype(np.float32)).all() and len(set(narrow)) > 1
    np.testing.assert_array_equal(_outputs(text)[0], floats)  # the same seed


def test_large_constants_without_values_become_parameters(capsys):
    text = (
        'HloModule m\nENTRY e { p = f32[4,8192] parameter(0)\n'
        'c = f32[8192,8193] constant({...})\n b = f32[8193] constant({...})\n'
        'd = f32[4,8193] dot(p, c), lhs_contracting_dims={1}, '
        'rhs_contracting_dims={0}\n ROOT t = (f32[4,8193], f32[8193]) tuple(d, b) }'
    )
    module = reader.read_program(text.encode()).module
    assert '2 constants' in capsys.readouterr().err
    [entry] = module.computations
    parameters = [i for i in entry.instructions if i.opcode == 'parameter']
    assert sorted(i.parameter_number for i in parameters) == [0, 1, 2]
    assert xla.to_stablehlo(module.SerializeToString())  # XLA checks the rest


def test_attributes_and_tables_of_newer_printers_are_dropped(capsys):
    text = (
        'HloModule m\n\nFileNames\n1 "a.py"\n\nFileLocations\n'
        '1 {file_name_id=1 line=3}\n\n\n'
        'ENTRY e { p = f32[3] parameter(0)\n'
        'ROOT c = f32[3] tanh(p), of_the_future={{"a}"}, {1,2}}, '
        'metadata={op_name="x"} }'
    )
    assert _opcodes(text) == ['parameter', 'tanh']
    assert 'this XLA does not know them: of_the_future' in capsys.readouterr().err


_SHARDED = """
module @jit_f attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<8x4xf32> {
      sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>,
      ttcore.argument_type = #ttcore.argument_type<input>}) -> tensor<8x4xf32> {
    %0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
    %1 = stablehlo.tanh %0 {other.mark = 3 : i32} : tensor<8x4xf32>
    return %1 : tensor<8x4xf32>
  }
}
"""
_MANUAL = """
module @m {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>]
        out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"}
        (%b: tensor<1x4xf32>) {
      %1 = stablehlo.tanh %b : tensor<1x4xf32>
      sdy.return %1 : tensor<1x4xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
"""


def test_shardings_and_attributes_of_other_dialects_are_dropped():
    assert _opcodes(_SHARDED) == ['parameter', 'tanh']


def test_a_manual_computation_is_part_of_the_program():
    if not xla.has_sdy():
        with pytest.raises(ValueError, match='manual_computation, which needs jaxlib'):
            _opcodes(_MANUAL)
        return
    [computation] = reader.read_program(_MANUAL.encode()).module.computations
    made = [(i.opcode, *i.shape.dimensions) for i in computation.instructions]
    whole, part = ('custom-call', 8, 4), ('custom-call', 1, 4)
    assert made == [('parameter', 8, 4), part, ('tanh', 1, 4), whole]


_GROUPED = """
module @m attributes {mhlo.num_partitions = 6 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=3]>
  func.func public @main(%a: tensor<4xf32>) -> tensor<8xf32> {
    %0 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh,
        axes = [#stablehlo.axis_ref<name = "x">]>,
      use_global_device_ids}> : (tensor<4xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""


def test_groups_of_devices_by_axes_of_a_mesh_become_numbers():
    try:
        _, module = stablehlo.parse(_GROUPED.encode())
    except Exception as error:
        if 'unknown StableHLO attribute' not in str(error):
            raise
        pytest.skip('this jaxlib is older than such groups')
    # Devices 0 1 2 / 3 4 5, and groups along x.
    assert b'\x00\x03' in module and b'\x01\x04' in module and b'\x02\x05' in module


def _resource(blob):
    return (
        'module { func.func public @main() -> tensor<3xf32> {\n'
        ' %c = stablehlo.constant dense_resource<w> : tensor<3xf32>\n'
        f' return %c : tensor<3xf32> }} }}\n{blob}'
    )


def test_resources_of_bools_have_a_byte_for_each():
    blob = '{-#\n dialect_resources: { builtin: { w: "0x01000000010001" } }\n#-}'
    [result] = _outputs(_resource(blob).replace('xf32', 'xi1'))
    np.testing.assert_array_equal(result, [True, False, True])


def test_resources_are_read_where_the_file_has_them(capsys):
    # An alignment of 4, then 1, 2 and 3 as float32, the least byte first.
    blob = '0x04000000' + '0000803F' + '00000040' + '00004040'
    section = f'{{-#\n dialect_resources: {{ builtin: {{ \n w: "{blob}" }} }}\n#-}}'
    [result] = _outputs(_resource(section))
    np.testing.assert_array_equal(result, [1, 2, 3])
    assert not capsys.readouterr().err
    [drawn] = _outputs(_resource(''))
    assert len(set(drawn)) == 3
    assert 'the values of 1 constant are not in the file' in capsys.readouterr().err


@pytest.mark.parametrize(
    'text, message',
    [
        (
            'module { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n'
            ' %0 = enzyme.batch %a : tensor<2xf32>\n return %0 : tensor<2xf32> } }',
            r"operations of the dialect 'enzyme' \(enzyme.batch\), which only its",
        ),
        (
            'module { func.func @main(%a: !torch.vtensor<[2],f32>) -> '
            '!torch.vtensor<[2],f32> {\n %0 = torch.aten.tanh %a : '
            '!torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>\n'
            ' return %0 : !torch.vtensor<[2],f32> } }',
            r"operations of the dialect 'torch' \(torch.aten.tanh\), which only its",
        ),
        (
            'HloModule m\nENTRY e { p = f32[3] parameter(0)\n'
            ' ROOT c = f32[4] tanh(q) }',
            r'read: was parsing 3:\d+: error: ',
        ),
        (
            'HloModule m\nf { ROOT c = f32[500000000] constant({...}) }\n'
            'ENTRY e { ROOT c = f32[500000000] call(), to_apply=f }',
            '1.9 GiB, and 0.25 GiB',
        ),
        (
            f'HloModule m\nENTRY e {{ p = {"(" * 3000}f32[]{")" * 3000} parameter(0)\n'
            ' ROOT c = f32[] constant(1) }',
            'too deeply nested',
        ),
    ],
)
def test_what_cannot_be_read_is_one_line(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        reader.read_program(text.encode())
    assert '\n' not in str(caught.value)


def _user_file(folder, content):
    path = folder / 'mine.py'
    path.write_text(f'{content}\nexample_args = ()\n')
    return f'{path}:f'


@pytest.mark.parametrize(
    'content, message',
    [
        ('import os; os._exit(0)', 'mine.py: ended the process with exit code 0'),
        ('import os; os.abort()', r'mine.py: ended the process \(SIGABRT'),
        ('raise GeneratorExit', 'mine.py: GeneratorExit$'),
        ('raise KeyboardInterrupt', 'mine.py: KeyboardInterrupt$'),
        ('import asyncio; raise asyncio.CancelledError', 'mine.py: CancelledError$'),
        ('raise BaseException("so")', 'mine.py: BaseException: so$'),
        ('print("text"); x = 3', r'mine.py:f: no such function; there: none'),
    ],
)
def test_a_user_file_cannot_end_the_command(tmp_path, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        reader.read_program(_user_file(tmp_path, content))
    assert '\n' not in str(caught.value)


@pytest.mark.slow
def test_a_damaged_saved_model_is_loaded_apart(tmp_path, caplog):
    source = program_forms.write('SavedModel', tmp_path)
    folder = pathlib.Path(source.partition(':')[0])
    (folder / 'fingerprint.pb').write_bytes(b'\n')
    assert reader.read_program(source).module.computations  # TensorFlow goes on
    assert not caplog.records  # its traceback is not seen


@pytest.mark.parametrize(
    'content, memory, seconds, message',
    [
        ('while True: pass', 1 << 30, 1, 'took over . s'),
        ('x = bytes(1 << 30)', 1 << 28, 30, 'took over 0 GiB of memory'),
    ],
)
def test_a_child_has_limits(tmp_path, content, memory, seconds, message):
    path = _user_file(tmp_path, content).partition(':')[0]
    with pytest.raises(ValueError, match=message):
        isolated.call('runpy.run_path', [path], b'', memory, seconds)


_TRACES = """
import sys
from baselines.hlo import protos
from tpugraphs_lab.programs import functions
for name in sys.argv[2:]:
    try:
        _, content = functions.trace_file(sys.argv[1], name, '', b'')
    except ValueError as error:
        print(error)
    else:
        module = protos.HloModuleProto.FromString(content)
        print(*{i.opcode for c in module.computations for i in c.instructions})
"""


@pytest.mark.slow  # JAX and TensorFlow are imported
def test_a_plain_function_is_traced_by_whichever_can(tmp_path):
    pytest.importorskip('jax')
    path = tmp_path / 'plain.py'
    path.write_text(
        'import jax.numpy as jnp\nimport numpy as np\nimport tensorflow as tf\n'
        'def of_jax(x): return jnp.tanh(x)\n'
        'def of_tensorflow(x): return tf.tanh(x)\n'
        'def of_neither(x): return open(x)\n'
        'example_args = (np.zeros(4, np.float32),)\n'
    )
    names = ['of_jax', 'of_tensorflow', 'of_neither']
    done = subprocess.run(
        [sys.executable, '-c', _TRACES, str(path), *names],
        env=children.make_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    *traced, error = done.stdout.splitlines()
    assert len(traced) == 2
    for opcodes in traced:
        assert {'parameter', 'tanh'} <= set(opcodes.split())
    message = 'of_neither: cannot be traced by TensorFlow: .*TypeError.*; nor by JAX: T'
    assert re.search(message, error)
