"""Records: what is accepted, what comes out, and each message for what is not."""

import dataclasses
import io
import pathlib
import re
import zipfile

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from baselines.data import npz
from baselines.data.tile import records
from tests.helpers import places
from tests.helpers import tile_records

_REAL = places.SHARED / 'npz/tile/xla'
_ARRAYS = (
    'node_feat',
    'node_opcode',
    'edge_index',
    'config_feat',
    'config_runtime',
    'config_runtime_normalizers',
)


def _raw(**changes):
    """A valid kernel of 3 nodes and 4 configurations, as a file holds it."""
    arrays = {
        'node_feat': np.arange(3 * 140, dtype=np.float32).reshape(3, 140),
        'node_opcode': np.array([2, 63, 24], np.uint8),
        'edge_index': np.array([[1, 0], [2, 1]], np.int64),
        'config_feat': np.arange(4 * 24, dtype=np.float32).reshape(4, 24),
        'config_runtime': np.array([7, 5, 6, 5], np.int64),
        'config_runtime_normalizers': np.array([5, 5, 5, 5], np.int64),
    }
    arrays.update(changes)
    return {key: value for key, value in arrays.items() if value is not None}


def _written(folder, **changes):
    path = folder / 'kernel.npz'
    np.savez_compressed(path, **_raw(**changes))
    return str(path)


def _message(path):
    """The one line with which reading `path` fails, which starts with `path`."""
    with pytest.raises(ValueError) as caught:
        records.read_tile(path)
    message = str(caught.value)
    assert message.startswith(f'{path}: ') and '\n' not in message
    return message[len(path) + 2 :]


def test_published_dtypes(tmp_path):
    record = records.read_tile(_written(tmp_path))
    assert record.graph_id == 'kernel'
    assert {key: getattr(record, key).dtype.name for key in _ARRAYS} == {
        'node_feat': 'float32',
        'node_opcode': 'int32',
        'edge_index': 'int32',
        'config_feat': 'float32',
        'config_runtime': 'int64',
        'config_runtime_normalizers': 'int64',
    }
    for key, value in _raw().items():
        np.testing.assert_array_equal(getattr(record, key), value)
    assert (record.num_nodes, record.num_configs, record.pad) == (3, 4, 0)
    assert record.feature_names is record.config_feature_names is None


@pytest.mark.parametrize('integer', ['u1', 'i2', 'u4', '<i4', '>i4', 'u8'])
def test_any_integer_width(tmp_path, integer):
    path = _written(
        tmp_path,
        **{
            key: _raw()[key].astype(integer)
            for key in _ARRAYS
            if not key.endswith('feat')
        },
    )
    record = records.read_tile(path)
    np.testing.assert_array_equal(record.edge_index, [[1, 0], [2, 1]])
    np.testing.assert_array_equal(record.config_runtime, [7, 5, 6, 5])
    assert record.edge_index.dtype == np.int32


def test_uncompressed_fortran_order_and_float64(tmp_path):
    path = tmp_path / 'kernel.npz'
    np.savez(
        path,
        **_raw(
            node_feat=np.asfortranarray(_raw()['node_feat'].astype(np.float64)),
            edge_index=np.asfortranarray(_raw()['edge_index']),
        ),
    )
    record = records.read_tile(str(path))
    np.testing.assert_array_equal(record.node_feat, _raw()['node_feat'])
    np.testing.assert_array_equal(record.edge_index, [[1, 0], [2, 1]])
    assert record.node_feat.flags.c_contiguous
    assert record.edge_index.flags.c_contiguous


def test_optional_keys(tmp_path):
    record = records.read_tile(
        _written(
            tmp_path,
            pad=np.int64(-1),
            feature_names=np.array([f'n{i}' for i in range(140)]),
            config_feature_names=np.array([f'k{i}' for i in range(24)]),
        )
    )
    assert record.pad == -1
    assert record.feature_names[139] == 'n139'
    assert record.config_feature_names == tuple(f'k{i}' for i in range(24))


def test_a_test_file_and_a_graph_without_edges_are_fine(tmp_path):
    record = records.read_tile(
        _written(
            tmp_path,
            config_runtime=np.zeros(4, np.int64),
            edge_index=np.zeros((0, 2), np.int64),
        )
    )
    assert not record.config_runtime.any()
    assert record.edge_index.shape == (0, 2)


def test_unknown_keys_are_refused(tmp_path):
    path = _written(tmp_path, extra=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="holds 'extra.npy', which such a file does"):
        records.read_tile(path)


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'edge_index': None}, 'the array edge_index is missing (there: config_feat'),
        (
            {'node_feat': np.zeros(140, np.float32)},
            'node_feat has shape (140,), expected 2 axes [n, F]',
        ),
        (
            {'edge_index': np.zeros((2, 3), np.int64)},
            'edge_index has shape (2, 3), but axis 1 should have 2 entries',
        ),
        (
            {'node_opcode': np.ones(4, np.uint8)},
            'node_opcode has shape (4,), but axis 0 should have 3 entries as node_feat '
            'has',
        ),
        (
            {'config_runtime': np.ones(3, np.int64)},
            'config_runtime has shape (3,), but axis 0 should have 4 entries as '
            'config_feat has',
        ),
        (
            {'config_runtime_normalizers': np.ones(5, np.int64)},
            'config_runtime_normalizers has shape (5,), but',
        ),
        (
            {'feature_names': np.array(['one', 'two'])},
            'feature_names has shape (2,), but axis 0 should have 140 entries',
        ),
        (
            {'config_runtime': np.ones(4, np.float64)},
            'config_runtime holds float64, expected integers',
        ),
        ({'node_feat': np.full((3, 140), 'x')}, 'node_feat holds <U1, expected floats'),
        (
            {'edge_index': np.array([[1, 0], [3, 1]])},
            'edge_index has 3 in row 1, allowed is 0 to 2: an edge outside the graph',
        ),
        (
            {'edge_index': np.array([[-1, 0], [2, 1]])},
            'edge_index has -1 in row 0, allowed is 0 to 2: an edge outside the graph',
        ),
        (
            {'edge_index': np.array([[0, 0], [2**32, 1]])},
            'edge_index has 4294967296 in row 1',
        ),
        (
            {'node_opcode': np.array([1, 2, 65536])},
            'node_opcode has 65536 in row 2, allowed is 0 to 65535: not an opcode',
        ),
        ({'node_opcode': np.array([1, -2, 3])}, 'node_opcode has -2 in row 1'),
        ({'config_runtime': np.array([5, -4, 6, 7])}, 'config_runtime has -4 in row 1'),
        (
            {'config_runtime': np.array([5, 4, 2**64 - 1, 7], np.uint64)},
            'config_runtime has 18446744073709551615 in row 2',
        ),
        (
            {'config_runtime': np.array([5, 0, 6, 0])},
            'config_runtime is 0 for 2 of 4 configurations; either all are (not '
            'published) or none',
        ),
        (
            {'config_runtime_normalizers': np.array([5, 5, 0, 5])},
            'config_runtime_normalizers has 0 in row 2, allowed is 1 to ',
        ),
        ({'pad': np.int64(1)}, 'pad has 1 in row 0, allowed is -1 to 0: '),
        ({'pad': np.zeros(3, np.int64)}, 'pad has shape (3,), expected 0 axes []'),
        (
            {
                'node_feat': np.zeros((0, 140), np.float32),
                'node_opcode': np.zeros(0, np.uint8),
                'edge_index': np.zeros((0, 2), np.int64),
            },
            'node_feat has no rows: the graph is empty',
        ),
        ({'node_feat': np.zeros((3, 0), np.float32)}, 'node_feat has no columns'),
        ({'config_feat': np.zeros((4, 0), np.float32)}, 'config_feat has no columns'),
    ],
)
def test_one_thing_wrong(tmp_path, changes, message):
    assert _message(_written(tmp_path, **changes)).startswith(message)


@pytest.mark.parametrize(
    'count, words', [(1, 'only 1 configuration'), (0, 'no configuration')]
)
def test_nothing_to_rank(tmp_path, count, words):
    path = _written(
        tmp_path,
        **{key: _raw()[key][:count] for key in _ARRAYS if key.startswith('config')},
    )
    assert _message(path) == f'config_feat has {words}: there is nothing to rank'


@pytest.mark.parametrize('key', ['node_feat', 'config_feat'])
def test_features_that_are_not_finite(tmp_path, key):
    features = _raw()[key]
    features[1, 7], features[2, 3] = np.nan, -np.inf
    assert _message(_written(tmp_path, **{key: features})) == (
        f'{key} has 2 NaN or infinite values, the first in row 1, column 7'
    )


def test_float64_beyond_float32_is_not_finite(tmp_path):
    features = np.zeros((3, 140))
    features[0, 2] = 1e300
    assert 'node_feat has 1 NaN or infinite' in _message(
        _written(tmp_path, node_feat=features)
    )


@pytest.mark.parametrize('key', ['config_feat', 'feature_names'])
def test_pickled_arrays_are_refused(tmp_path, key):
    path = _written(tmp_path, **{key: np.array([['a'], [1]], dtype=object)})
    assert _message(path) == (
        f'{key} holds pickled Python objects, which are never loaded; save it '
        'as a plain array'
    )


def test_truncated_anywhere(tmp_path):
    path = pathlib.Path(_written(tmp_path))
    whole = path.read_bytes()
    for size in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:size])
        assert 'not a complete npz file' in _message(str(path))


def test_not_an_npz(tmp_path):
    path = tmp_path / 'kernel.npz'
    for content in (b'', b'ID,TopConfigs\n', b'\x93NUMPY\x01\x00'):
        path.write_bytes(content)
        assert 'not a complete npz file' in _message(str(path))


@given(data=st.data())
def test_a_flipped_byte_never_escapes_as_another_error(tmp_path_factory, data):
    path = pathlib.Path(_written(tmp_path_factory.mktemp('flip')))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    try:
        record = records.read_tile(str(path))
    except ValueError as error:
        assert str(error).startswith(f'{path}: ') and '\n' not in str(error)
    else:
        # Bytes that carry no data, such as times, may be anything.
        for key, value in _raw().items():
            np.testing.assert_array_equal(getattr(record, key), value)


def _with_member(folder, key, content):
    """A valid file, in which one member is `content`."""
    path = folder / 'kernel.npz'
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as archive:
        for name, array in _raw().items():
            stream = io.BytesIO()
            np.save(stream, array)
            archive.writestr(
                f'{name}.npy', content if name == key else stream.getvalue()
            )
    return str(path)


def _header(shape, descr='<f4'):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {'descr': descr, 'fortran_order': False, 'shape': shape}
    )
    return stream.getvalue()


def test_a_header_that_claims_more_than_there_is(tmp_path):
    path = _with_member(tmp_path, 'config_feat', _header((10**12, 24)) + b'1234')
    assert _message(path) == (
        'config_feat claims shape (1000000000000, 24) of float32, but holds 4 bytes'
    )


@pytest.mark.parametrize(
    'header',
    [
        _header((-4, -24)),
        _header((10**30, 24)),
        _header(('a', 24)),
        _header((4, 24), 'x'),
        b'no header',
        b'\x93NUMPY\x03\x00',
    ],
)
def test_a_header_that_makes_no_sense(tmp_path, header):
    path = _with_member(tmp_path, 'config_feat', header + bytes(4 * 24 * 4))
    assert 'config_feat' in _message(path) or 'npz' in _message(path)


def _with_claimed_size(folder, claimed):
    """A valid file but for the size its zip directory gives config_feat."""
    array = io.BytesIO()
    np.save(array, np.zeros((100_000, 24), np.float32))
    path = pathlib.Path(_with_member(folder, 'config_feat', array.getvalue()))
    size = len(array.getvalue()).to_bytes(4, 'little')
    content = path.read_bytes()
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, claimed.to_bytes(4, 'little')))
    return str(path)


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    claimed = (1 << 31) - sum(
        array.nbytes + 128 for key, array in _raw().items() if key != 'config_feat'
    )
    assert _message(_with_claimed_size(tmp_path, claimed)) == (
        'its arrays claim 2,147,483,648 bytes, more than the 1,073,741,824 that '
        'such a file may have'
    )


def test_no_more_is_unpacked_than_the_directory_says(tmp_path):
    assert 'not a complete npz file' in _message(_with_claimed_size(tmp_path, 1000))


def test_too_large_a_file(tmp_path):
    path = tmp_path / 'kernel.npz'
    with open(path, 'wb') as stream:
        stream.truncate((1 << 30) + 1)
    assert _message(str(path)).startswith('1,073,741,825 bytes are more than')


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match='gone.npz'):
        records.read_tile(str(tmp_path / 'gone.npz'))
    (tmp_path / 'folder.npz').mkdir()
    with pytest.raises(ValueError, match='folder.npz: not a regular file'):
        records.read_tile(str(tmp_path / 'folder.npz'))


def test_written_files_have_the_published_schema(tmp_path):
    record = tile_records.make_record(np.random.default_rng(0))
    path = tmp_path / 'new' / 'kernel_0.npz'
    record.write(str(path))
    with np.load(path, allow_pickle=False) as arrays:
        assert {key: arrays[key].dtype.str for key in arrays.files} == {
            'node_feat': '<f4',
            'node_opcode': '|u1',
            'edge_index': '<i8',
            'config_feat': '<f4',
            'config_runtime': '<i8',
            'config_runtime_normalizers': '<i8',
        }
    assert [entry.name for entry in path.parent.iterdir()] == ['kernel_0.npz']


@pytest.mark.parametrize(
    'changes',
    [
        {},
        {'pad': -1},
        {'node_opcode': np.array([1, 300, 2, 2, 65535], np.int32)},
        {
            'feature_names': tuple(f'n{i}' for i in range(140)),
            'config_feature_names': tuple(f'größe {i}' for i in range(24)),
        },
    ],
)
def test_round_trip(tmp_path, changes):
    record = tile_records.make_record(np.random.default_rng(3), **changes)
    path = str(tmp_path / 'kernel_0.npz')
    record.write(path)
    read = records.read_tile(path)
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(read, field.name), value)
            assert getattr(read, field.name).dtype == value.dtype
        else:
            assert getattr(read, field.name) == value


def test_an_invalid_record_is_not_written(tmp_path):
    path = tmp_path / 'kernel_0.npz'
    record = tile_records.make_record(
        np.random.default_rng(0), edge_index=np.array([[5, 0]], np.int32)
    )
    with pytest.raises(ValueError, match=re.escape(f'{path}: edge_index has 5')):
        record.write(str(path))
    assert not list(tmp_path.iterdir())


def test_every_field_of_a_record_has_a_schema():
    fields = {field.name for field in dataclasses.fields(records.TileRecord)}
    assert fields == {'graph_id', *records.TILE_SCHEMA}
    assert all(isinstance(field, npz.Field) for field in records.TILE_SCHEMA.values())


@pytest.mark.skipif(not _REAL.is_dir(), reason=f'{_REAL} is not there')
def test_real_kernels_read_and_round_trip(tmp_path):
    paths = sorted(_REAL.glob('*/*.npz'))
    assert len(paths) == 20
    for path in paths:
        record = records.read_tile(str(path))
        copy = tmp_path / path.name
        record.write(str(copy))
        with np.load(path) as original, np.load(copy) as written:
            assert sorted(original.files) == sorted(written.files)
            for key in original.files:
                assert original[key].dtype == written[key].dtype
                np.testing.assert_array_equal(original[key], written[key])
