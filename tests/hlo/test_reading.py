"""Which message a file holds, and damaged files of every kind."""

import pytest

from baselines.hlo import forms
from baselines.hlo import protos
from baselines.hlo import reading
from tests.helpers import hlo_modules
from tests.helpers import processes
from tests.helpers import refusals

_TILE = hlo_modules.tile_file(hlo_modules.good_tile())
_LAYOUT = hlo_modules.good_layout().SerializeToString()


def _read(folder, data, kind=None):
    path = folder / 'raw.pb'
    path.write_bytes(data)
    return reading.read_tuning(str(path), kind)


@pytest.mark.parametrize(
    'data, kind, modules',
    [
        (_TILE, 'tile', 1),
        (hlo_modules.tile_file(*[hlo_modules.good_tile()] * 3), 'tile', 3),
        # Without a fingerprint, which would tell a module from a program.
        (
            hlo_modules.tuning(hlo_modules.chain(), [{}], 0).SerializeToString(),
            'layout',
            1,
        ),
        # Runs alone; field 1 is absent.
        (protos.ModuleTuningData(runs=[{}]).SerializeToString(), 'layout', 1),
    ],
)
def test_the_bytes_tell_the_kind(tmp_path, data, kind, modules):
    file = _read(tmp_path, data)
    assert (file.kind, len(file.modules)) == (kind, modules)
    assert _read(tmp_path, data, kind).kind == kind


def test_a_bare_module_is_told_by_what_is_in_it():
    module = hlo_modules.module(hlo_modules.computation(dict(id=1)), name='some.name')
    module.entry_computation_name = 'main'
    data = protos.ModuleTuningData(module=module).SerializeToString()
    assert forms.detect_kind(data) == 'layout'
    inner = protos.ModuleTuningData(module=module, fingerprint=1)
    assert forms.detect_kind(hlo_modules.tile_file(inner)) == 'tile'


def test_an_undecided_file_can_be_forced(tmp_path):
    # Nothing but a field 1 with nothing in it.
    assert forms.detect_kind(b'\n\0') is None
    assert _read(tmp_path, b'\n\0', 'tile').kind == 'tile'
    assert _read(tmp_path, b'\n\0', 'layout').kind == 'layout'
    # A module's name of 0xFF is no text, so that it cannot be a module.
    data = b'\n\x03\n\x01\xff'
    assert forms.detect_kind(data) is None
    with pytest.raises(ValueError, match='raw.pb'):
        _read(tmp_path, data)


@pytest.mark.parametrize(
    'data, kind, word',
    [
        (_TILE, 'layout', 'tile collection'),
        (_LAYOUT, 'tile', 'layout collection'),
        (_TILE[:-1], None, 'cut short'),
        (b'\x32\0', None, 'fields'),
        (b'\n' + b'\xff' * 20, None, 'Error'),
    ],
)
def test_errors_name_the_file(tmp_path, data, kind, word):
    path = tmp_path / 'raw.pb'
    refusals.assert_refused(lambda: _read(tmp_path, data, kind), f'{path}', word)


def test_what_is_no_file_or_too_large(tmp_path):
    with open(tmp_path / 'large.pb', 'wb') as stream:
        stream.truncate(1 << 31)  # sparse, takes no space
    for path in (str(tmp_path), str(tmp_path / 'large.pb')):
        refusals.assert_refused(lambda path=path: reading.read_tuning(path), path)


@pytest.mark.parametrize('data', [_TILE, _LAYOUT])
def test_true_files_take_little_memory(tmp_path, monkeypatch, data):
    monkeypatch.setattr(reading, 'FREE_MEMORY', 0)
    assert _read(tmp_path, data).modules


def _nested(content, *numbers):
    """Bytes of nested messages, by their field numbers."""
    for number in numbers:
        head, length = bytearray([8 * number + 2]), len(content)
        while length > 127:
            head.append(length & 127 | 128)
            length >>= 7
        content = bytes([*head, length]) + content
    return content


@pytest.mark.slow
@pytest.mark.parametrize(
    'content',
    [
        b'\x12\x00',  # empty instructions of a computation
        b'\x12\x03\x90\x0d\x01',  # with an unknown field, no longer empty
    ],
)
def test_small_messages_that_take_much_memory_are_refused_early(tmp_path, content):
    data = _nested(content * (18_000_000 // len(content)), 3, 1)
    kept = b'\x10\x05'  # the fingerprint that marks a ModuleTuningData
    path = tmp_path / 'raw.pb'
    path.write_bytes(data + kept)
    code = (
        'import re, sys, time\n'
        'from baselines.hlo import protos, reading\n'
        'protos; start = time.process_time()\n'
        'try: reading.read_tuning(sys.argv[1])\n'
        'except ValueError as error: print(error)\n'
        'print(time.process_time() - start)\n'
        'status = open("/proc/self/status").read()\n'
        'print(int(re.search(r"VmHWM:\\s*(\\d+)", status)[1]) >> 10)\n'
    )
    done = processes.python('-c', code, path)
    message, seconds, megabytes = done.stdout.splitlines()
    assert message.startswith(f'{path}: ') and ' 18,00' in message
    assert float(seconds) < 20 and int(megabytes) < 700


def _fields(descriptor, known):
    """Number, type and label of all fields of a message and of nested ones."""
    if descriptor.full_name not in known:
        known[descriptor.full_name] = {
            field.name: (field.number, field.type, field.label)
            for field in descriptor.fields
        }
        for field in descriptor.fields:
            if field.message_type:
                _fields(field.message_type, known)
    return known


@pytest.mark.slow
def test_the_descriptors_that_ship_are_those_of_the_installed_tensorflow():
    from tensorflow.compiler.xla.service import hlo_pb2

    ours = _fields(protos.HloModuleProto.DESCRIPTOR, {})
    theirs = _fields(hlo_pb2.HloModuleProto.DESCRIPTOR, {})
    # A field that only one version has is kept by the other as it is.
    assert len(set(ours) & set(theirs)) > 40
    for name in set(ours) & set(theirs):
        for field in set(ours[name]) & set(theirs[name]):
            assert ours[name][field] == theirs[name][field], (name, field)


def test_a_long_name_is_cut_and_ends_in_a_hash():
    assert reading.clean_name('a/b-' + 'c' * 96) == 'a_b_' + 'c' * 96
    first, second = (reading.clean_name('bert_' + 'x' * 225 + end) for end in 'ab')
    assert len(first) == len(second) == 100 and first != second
    assert first.startswith('bert_xxx') and first == reading.clean_name(first)


def test_many_comments_take_no_time():
    text = '// a comment\n' * 100_000 + 'module {}'
    assert forms.find_form(text.encode()) == forms.MLIR_TEXT
