"""Layout files: what is accepted, and each message for what is not.

Every rule holds for both ways of reading, at once and block by block.
"""

import dataclasses
import errno
import os
import pathlib
import zipfile

import numpy as np
import pytest

from baselines.data import npz
from baselines.data import npz_stream
from baselines.data.layout import records as layout_records
from baselines.data.layout import store as layout_store
from tests.helpers import layout_files
from tests.helpers import places

_REAL = places.SHARED / 'npz/layout/xla/random'


def _program():
    return layout_files.make_program(
        np.random.default_rng(0), 'graph', nodes=9, configurable=3, configs=7
    )


def _written(folder, save=np.savez_compressed, **changes):
    path = str(folder / 'graph.npz')
    save(path, **layout_files.arrays_of(_program(), **changes))
    return path


def _features(program):
    """All features of what `LayoutStore.read` returns."""
    configs = program.configs
    return configs.vectors[configs.codes[configs.group]]


def _assert_same(record, expected):
    for field in dataclasses.fields(expected):
        found, wanted = getattr(record, field.name), getattr(expected, field.name)
        if isinstance(wanted, np.ndarray):
            assert found.dtype == wanted.dtype, field.name
            np.testing.assert_array_equal(found, wanted, field.name)
        else:
            assert found == wanted


def _message(path):
    """The one line with which reading fails, whichever way, after the path."""
    messages = set()
    for read in (layout_records.read_layout, layout_store.LayoutStore.read):
        with pytest.raises(ValueError) as caught:
            read(path)
        messages.add(str(caught.value))
    (message,) = messages
    assert message.startswith(f'{path}: ') and '\n' not in message
    return message[len(path) + 2 :]


def _changed(key, place, value):
    array = np.array(getattr(_program(), key))
    array[place] = value
    return {key: array}


def test_round_trip(tmp_path):
    program = _program()
    path = str(tmp_path / 'graph.npz')
    program.write(path)
    _assert_same(layout_records.read_layout(path), program)
    with np.load(path) as arrays:
        assert {key: arrays[key].dtype.name for key in arrays.files} == {
            'node_feat': 'float32',
            'node_opcode': 'uint8',
            'edge_index': 'int64',
            'node_config_ids': 'int64',
            'node_config_feat': 'float32',
            'config_runtime': 'int64',
            'node_splits': 'int64',
        }
        assert arrays['node_splits'].shape == (1, 3)


@pytest.mark.parametrize(
    'dtype', [np.int8, np.int16, np.int64, np.float16, np.float64, '>f4', '>i4']
)
def test_features_of_any_number_type(tmp_path, dtype):
    expected = _program().node_config_feat
    path = _written(tmp_path, node_config_feat=expected.astype(dtype))
    _assert_same(layout_records.read_layout(path), _program())
    np.testing.assert_array_equal(
        _features(layout_store.LayoutStore.read(path)), expected
    )


def test_unsigned_features_where_none_is_absent(tmp_path):
    features = np.random.default_rng(0).integers(0, 6, (7, 3, 18), np.uint8)
    path = _written(tmp_path, node_config_feat=features)
    np.testing.assert_array_equal(
        _features(layout_store.LayoutStore.read(path)), features
    )


def test_other_forms_of_the_same(tmp_path):
    program = _program()
    for save in (np.savez, np.savez_compressed):
        path = _written(
            tmp_path,
            save,
            node_splits=program.node_splits[0].astype(np.int32),
            config_runtime=program.config_runtime.astype(np.int32),
            node_config_ids=program.node_config_ids.astype(np.uint16),
            node_config_feat=np.asfortranarray(program.node_config_feat),
            config_runtime_normalizers=np.ones(7, np.int64),
        )
        _assert_same(layout_records.read_layout(path), program)
        encoded = layout_store.LayoutStore.read(path)
        np.testing.assert_array_equal(_features(encoded), program.node_config_feat)
        _assert_same(
            encoded,
            dataclasses.replace(
                program, node_config_feat=np.zeros((0, 3, 18), np.float32)
            ),
        )


def test_large_arrays_in_fortran_order_say_what_to_do(tmp_path, monkeypatch):
    path = _written(
        tmp_path, node_config_feat=np.asfortranarray(_program().node_config_feat)
    )
    monkeypatch.setattr(npz_stream, '_FORTRAN_BYTES', 1000)
    with pytest.raises(
        ValueError,
        match='graph.npz: node_config_feat is in '
        'Fortran order and, with 1,512 bytes, too large for that; '
        'save it again with numpy.ascontiguousarray',
    ):
        layout_store.LayoutStore.read(path)


@pytest.mark.parametrize(
    'changes, message',
    [
        (
            {'node_config_ids': np.array([1, 9, 2])},
            'node_config_ids has 9 in row 1, allowed is 0 to 8: a node outside',
        ),
        (
            {'node_config_ids': np.array([1, -1, 2])},
            'node_config_ids has -1 in row 1, allowed is 0 to 8: a node outside',
        ),
        (
            {'node_config_ids': np.array([4, 1, 4])},
            'node_config_ids has node 4 2 times; a node is configured once',
        ),
        (
            {
                'node_config_ids': np.zeros(0, np.int64),
                'node_config_feat': np.zeros((7, 0, 18), np.float32),
            },
            'node_config_ids is empty: without a configurable node there is nothing',
        ),
        (
            {'node_config_ids': np.array([4, 1])},
            'node_config_feat has shape (7, 3, 18), expected (7, 2, 18): '
            'config_runtime has 7 entries, node_config_ids 2, and a layout 18 columns',
        ),
        (
            {'config_runtime': np.arange(1, 7)},
            'node_config_feat has shape (7, 3, 18), expected (6, 3, 18)',
        ),
        (
            {'node_config_feat': np.zeros((7, 3, 24), np.float32)},
            'node_config_feat has shape (7, 3, 24), expected (7, 3, 18)',
        ),
        (
            {'node_config_feat': np.zeros((21, 18), np.float32)},
            'node_config_feat has shape (21, 18), expected (7, 3, 18)',
        ),
        (
            {'node_config_feat': np.float32(3)},
            'node_config_feat has shape (), expected (7, 3, 18)',
        ),
        (
            {'node_config_feat': np.full((7, 3, 18), 'a')},
            'node_config_feat holds <U1, expected numbers',
        ),
        ({'node_config_feat': None}, 'the array node_config_feat is missing (there'),
        ({'node_feat': None}, 'the array node_feat is missing (there'),
        (
            _changed('node_config_feat', (5, 2, 17), 200),
            'node_config_feat has 200.0 in configuration 5, configurable node 2, '
            'column 17; allowed are whole numbers from -1 to 127',
        ),
        (
            _changed('node_config_feat', (0, 1, 3), -2),
            'node_config_feat has -2.0 in configuration 0, configurable node 1, column '
            '3; allowed',
        ),
        (
            _changed('node_config_feat', (6, 0, 0), 2.5),
            'node_config_feat has 2.5 in configuration 6, configurable node 0, column '
            '0; allowed',
        ),
        (
            {'node_config_feat': np.full((7, 3, 18), 300, np.int16)},
            'node_config_feat has 300 in configuration 0, configurable node 0',
        ),
        (
            {'node_config_feat': np.full((7, 3, 18), 2**63, np.uint64)},
            'node_config_feat has 9223372036854775808 in configuration 0',
        ),
        (
            {
                'config_runtime': np.array([5]),
                'node_config_feat': np.zeros((1, 3, 18), np.float32),
            },
            'config_runtime has only 1 configuration: there is nothing to rank',
        ),
        (
            {
                'config_runtime': np.zeros(0, np.int64),
                'node_config_feat': np.zeros((0, 3, 18), np.float32),
            },
            'config_runtime has no configuration: there is nothing to rank',
        ),
        (
            {'config_runtime': np.array([1, 0, 1, 1, 0, 1, 1])},
            'config_runtime is 0 for 2 of 7 configurations; either all are',
        ),
        (_changed('config_runtime', 3, -5), 'config_runtime has -5 in row 3'),
        ({'config_runtime': np.ones(7)}, 'config_runtime holds float64, expected'),
        (
            {'node_splits': np.array([[0, 5, 3, 9]])},
            'node_splits is [0, 5, 3, 9], expected ascending numbers from 0 to 9',
        ),
        ({'node_splits': np.array([0, 5, 12])}, 'node_splits is [0, 5, 12], exp'),
        ({'node_splits': np.array([0, 5])}, 'node_splits is [0, 5], expected'),
        ({'node_splits': np.array([[-1, 9]])}, 'node_splits is [-1, 9], expected'),
        ({'node_splits': np.zeros((1, 0), np.int64)}, 'node_splits is [], expected'),
        (
            {'node_splits': np.array([0, *range(5, -6, -1), 9])},
            'node_splits is [0, 5, 4, 3, 2, 1, 0, -1, -2, -3, ...], expected',
        ),
        (
            {'node_splits': np.array([[0, 9], [0, 9]])},
            'node_splits has shape (2, 2), expected [s] or [1, s]',
        ),
        ({'node_splits': np.array([[0.0, 9.0]])}, 'node_splits holds float64'),
        ({'edge_index': np.array([[1, 9]])}, 'edge_index has 9 in row 0, allowed'),
        ({'node_opcode': np.zeros(8, np.uint8)}, 'node_opcode has shape (8,), but'),
        ({'node_feat': np.zeros((9, 0), np.float32)}, 'node_feat has no columns'),
        (
            {
                'node_feat': np.zeros((0, 140), np.float32),
                'node_opcode': np.zeros(0, np.uint8),
                'edge_index': np.zeros((0, 2), np.int64),
                'node_config_ids': np.zeros(0, np.int64),
            },
            'node_feat has no rows: the graph is empty',
        ),
        (
            _changed('node_feat', (2, 3), np.nan),
            'node_feat has 1 NaN or infinite values, the first in row 2, column 3',
        ),
    ],
)
def test_bad_input(tmp_path, changes, message):
    assert _message(_written(tmp_path, **changes)).startswith(message)


@pytest.mark.parametrize('value, shown', [(np.nan, 'nan'), (np.inf, 'inf')])
def test_features_that_are_not_numbers(tmp_path, value, shown):
    path = _written(tmp_path, **_changed('node_config_feat', (4, 2, 1), value))
    assert _message(path).startswith(
        f'node_config_feat has {shown} in configuration 4, configurable node 2, '
        'column 1; allowed'
    )


def test_the_configuration_is_named_in_later_blocks_too(tmp_path, monkeypatch):
    # 3 * 18 * 4 bytes per configuration: two of them per block.
    monkeypatch.setattr(npz_stream, '_BLOCK_BYTES', 500)
    path = _written(tmp_path, **_changed('node_config_feat', (5, 0, 2), 200))
    assert 'has 200.0 in configuration 5, configurable node 0' in _message(path)


def test_pickled_objects_are_never_loaded(tmp_path):
    path = _written(tmp_path, node_config_feat=np.full((7, 3, 18), None))
    assert _message(path).startswith(
        'node_config_feat holds pickled Python objects, which are never'
    )


@pytest.mark.parametrize('at_once', [0, 1 << 30])
@pytest.mark.parametrize('share', [0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_files(tmp_path, monkeypatch, share, at_once):
    monkeypatch.setattr(npz, '_AT_ONCE', at_once)
    path = _written(tmp_path)
    os.truncate(path, int(share * os.path.getsize(path)))
    assert _message(path).startswith('not a complete npz file')


def _with_member(path, content):
    """Replaces the bytes of node_config_feat.npy."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members['node_config_feat.npy'] = content(members['node_config_feat.npy'])
    with zipfile.ZipFile(path, 'w') as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def test_a_failing_disk_is_not_a_damaged_file(tmp_path, monkeypatch):
    path = _written(tmp_path)

    def failing(self, size=-1):
        if 'config_feat' not in self.name:
            return read(self, size)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    read = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, 'read', failing)
    with pytest.raises(OSError, match='Errno 5.*graph.npz'):
        layout_store.LayoutStore.read(path)


@pytest.mark.parametrize(
    'content, message',
    [
        (
            lambda data: data[:-8],
            'node_config_feat claims shape (7, 3, 18) of float32, but holds 1,504 b',
        ),
        (
            lambda data: data + b'rest',
            'node_config_feat claims shape (7, 3, 18) of float32, but holds 1,516 b',
        ),
        (
            lambda data: data.replace(b'(7, 3, 18)', b'(7, 9, 98)'),
            'node_config_feat claims shape (7, 9, 98) of float32, but holds',
        ),
        (lambda data: b'no header', 'not a complete npz file'),
    ],
)
def test_members_that_are_not_what_they_claim(tmp_path, content, message):
    path = _written(tmp_path)
    _with_member(path, content)
    assert _message(path).startswith(message)


def test_a_damaged_byte_is_noticed_by_its_checksum(tmp_path):
    path = _written(tmp_path, np.savez)
    data = bytearray(pathlib.Path(path).read_bytes())
    start = data.index(_program().node_config_feat.tobytes())
    # 1.0 and 2.0 differ in other bits; this makes a valid value of another.
    place = data.index(np.float32(1).tobytes(), start)
    data[place : place + 4] = np.float32(2).tobytes()
    pathlib.Path(path).write_bytes(data)
    assert 'Bad CRC-32' in _message(path)


def test_sizes_are_checked_before_memory_is_taken(tmp_path, monkeypatch):
    path = _written(tmp_path)
    monkeypatch.setattr(layout_records, 'MAX_FILE_BYTES', 100)
    assert 'bytes are more than the 100 that such' in _message(path)
    # A file may be small and its array large.
    monkeypatch.setattr(layout_records, 'MAX_FILE_BYTES', 100_000)
    path = _written(tmp_path, node_config_feat=np.zeros((700, 3, 18)))
    assert _message(path) == (
        'node_config_feat claims 302,528 bytes, more than the 100,000 that such '
        'a file may have'
    )
    # Neither is it taken for what other arrays claim.
    monkeypatch.undo()
    path = _written(
        tmp_path, config_runtime=np.ones(10**7, np.int8), node_config_ids=np.arange(9)
    )
    assert _message(path).startswith('node_config_feat has shape (7, 3, 18), ex')


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'node_config_ids': np.array([4, 1, 4])}, 'node_config_ids has node 4 2'),
        (
            _changed('node_config_feat', (5, 2, 17), 200),
            'node_config_feat has 200.0 in',
        ),
        ({'config_runtime': np.array([5])}, 'node_config_feat has shape'),
        ({'node_splits': np.array([[0, 4]])}, r'node_splits is \[0, 4\], expected'),
    ],
)
def test_bad_records_are_not_written(tmp_path, changes, message):
    path = str(tmp_path / 'graph.npz')
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(_program(), **changes).write(path)
    assert not os.path.exists(path)


@pytest.mark.skipif(not _REAL.is_dir(), reason=f'{_REAL} is not there')
@pytest.mark.parametrize(
    'split, configs', [('train', 72), ('valid', 40), ('test', 112)]
)
def test_real_program(split, configs):
    path = str(_REAL / split / 'main_10904.npz')
    record = layout_records.read_layout(path)
    assert record.node_config_feat.shape == (configs, 62, 18)
    assert record.num_nodes == 3163 and len(record.edge_index) == 5112
    assert (record.config_runtime == 0).all() == (split == 'test')
    np.testing.assert_array_equal(
        _features(layout_store.LayoutStore.read(path)), record.node_config_feat
    )
