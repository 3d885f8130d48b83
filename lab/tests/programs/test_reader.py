"""What is no program is said in one line."""

import pytest

from baselines.hlo import forms
from baselines.hlo import protos
from lab.tests.helpers import measured_programs
from lab.tests.helpers import program_forms
from tests.helpers import hlo_modules
from tpugraphs_lab.programs import reader


@pytest.mark.parametrize('form', forms.PROTOS)
def test_a_message_is_told_by_its_content(form, tmp_path):
    source = program_forms.write(form, tmp_path)
    program = reader.read_program(source)
    assert (program.form, program.name) == (form, 'program')
    assert program.module == program_forms.module()
    with open(source, 'rb') as stream:
        assert reader.read_program(stream.read(), name='a b').name == 'a_b'


def test_any_class_of_a_message_will_do():
    from tensorflow.compiler.xla.service import hlo_pb2

    content = program_forms.module().SerializeToString()
    theirs = hlo_pb2.HloModuleProto.FromString(content)
    assert reader.read_program(theirs).module == program_forms.module()


@pytest.mark.parametrize(
    'content, message',
    [
        (b'', 'it is empty'),
        (b'\x1f\x8b123', 'it is compressed by gzip: unpack it first'),
        (b'PK\x03\x04', 'it is a zip archive such as .npz'),
        (b'import jax\nprint(1)', "it is text that begins with 'import jax'"),
        (b'\x00\x01\x02', r'it is no such protobuf, or cut short \('),
    ],
)
def test_an_unknown_form_says_what_it_is_and_what_is_accepted(content, message):
    with pytest.raises(ValueError, match=f'bytes: {message}') as caught:
        reader.read_program(content)
    assert str(caught.value).endswith(f'; accepted are {forms.ACCEPTED}')


def test_one_program_is_wanted(tmp_path):
    file = hlo_modules.tile_file(*[hlo_modules.good_tile()] * 3)
    with pytest.raises(ValueError, match='holds 3 modules, where one program is wante'):
        reader.read_program(file)
    two = protos.HloModuleProto()
    two.CopyFrom(program_forms.fused())
    two.entry_computation_id = 99
    with pytest.raises(ValueError, match='none of its 2 computations is the entry co'):
        reader.read_program(two)
    with pytest.raises(ValueError, match='a folder without a SavedModel'):
        reader.read_program(str(tmp_path))
    with pytest.raises(ValueError, match='a program is a path, a message, .*not int'):
        reader.read_program(3)


@pytest.mark.parametrize(
    'damage, message',
    [
        (lambda i: i.operand_ids.append(77), r'an operand of %dot.* is not there'),
        (lambda i: i.called_computation_ids.append(77), 'calls a computation that is '),
        (lambda i: setattr(i, 'id', 78), 'has no root'),
    ],
)
def test_what_is_used_has_to_be_there(damage, message):
    module = program_forms.module()
    damage(module.computations[0].instructions[-1])
    with pytest.raises(ValueError, match=message):
        reader.read_program(module)


@pytest.mark.slow  # starts a process for each
@pytest.mark.parametrize(
    'text, message',
    [
        (
            program_forms.HLO.replace('tanh(', 'tanhh('),
            r'the HLO text cannot be read: was parsing 7:\d+: error: .*tanhh: '
            r'%turned = f32\[64,128\]',
        ),
        (
            program_forms.STABLEHLO.replace('.tanh', '.none'),
            'the MLIR text cannot be read: .*stablehlo.none',
        ),
    ],
)
def test_text_that_does_not_parse_has_the_line_of_xla(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        reader.read_program(text.encode())
    assert '\n' not in str(caught.value)


def test_sources_are_files_functions_and_saved_models(tmp_path):
    path = measured_programs.write(tmp_path / 'a.pb', program_forms.module())
    (tmp_path / 'saved').mkdir()
    (tmp_path / 'saved' / 'saved_model.pb').write_bytes(b'')
    saved = f'{tmp_path}/saved'
    assert reader.find_sources([path, 'f.py:g', saved, f'{saved}:s', path]) == [
        path, 'f.py:g', saved, f'{saved}:s'
    ]  # fmt: skip
    with pytest.raises(ValueError, match='nowhere: no such file'):
        reader.find_sources([str(tmp_path / 'nowhere')])
