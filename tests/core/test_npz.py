"""Untrusted npz files: what is read, and each message for what is not."""

import contextlib
import errno
import io
import os
import pathlib
import zipfile

from hypothesis import example
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from baselines.core import npz
from tests.helpers import refusals

_SCHEMA = {
    'a': npz.Field('fiu', ('n', 'm'), np.float32),
    'b': npz.Field('iu', ('n', 2), np.int64, 0, 'm', 'not a column'),
    'pad': npz.Field('iu', (), np.int64, -1, 0, optional=True),
}
_MOST = 10_000
_A = np.arange(12, dtype=np.float32).reshape(3, 4)
_B = np.array([[0, 3], [1, 2], [2, 0]], np.int64)


def _written(folder, save=np.savez_compressed, **changes):
    path = str(folder / 'f.npz')
    arrays = {'a': _A, 'b': _B, **changes}
    save(path, **{key: value for key, value in arrays.items() if value is not None})
    return path


def _read(path):
    return npz.read_arrays(path, _SCHEMA, _MOST)


def _blocks(path, key='a', lengths=()):
    return list(npz.read_blocks(path, key, _SCHEMA[key], dict(lengths), _MOST))


def _message(path, read=_read):
    """The one line with which reading `path` fails, after the path."""
    message = refusals.read_message(lambda: read(path))
    assert message.startswith(f'{path}: ')
    return message[len(path) + 2 :]


@pytest.mark.parametrize('save', [np.savez, np.savez_compressed])
@pytest.mark.parametrize('integer', ['u1', 'i2', '<i4', '>i4', 'u8'])
def test_integers_of_any_width_and_arrays_in_any_order(tmp_path, save, integer):
    path = _written(
        tmp_path, save, a=np.asfortranarray(_A, np.float64), b=_B.astype(integer)
    )
    arrays = _read(path)
    assert set(arrays) == {'a', 'b'}
    assert arrays['a'].dtype == np.float32 and arrays['a'].flags.c_contiguous
    assert arrays['b'].dtype == np.int64
    np.testing.assert_array_equal(arrays['a'], _A)
    np.testing.assert_array_equal(arrays['b'], _B)
    for key, array in npz.read_all(path, _MOST).items():
        np.testing.assert_array_equal(array, {'a': _A, 'b': _B}[key])


@pytest.mark.parametrize(
    'changes, words',
    [
        ({'b': None}, ('b is missing',)),
        ({'a': np.zeros(4)}, ('a has shape (4,)', '[n, m]')),
        ({'b': np.zeros((3, 3), int)}, ('b has shape (3, 3)', 'axis 1')),
        ({'b': _B[:2]}, ('b has shape (2, 2)', 'axis 0', '3 as a has')),
        ({'a': np.full((3, 4), 'x')}, ('a holds <U1',)),
        ({'b': _B.astype(float)}, ('b holds float64',)),
        ({'b': _B + 1}, ('b has 4 in row 0', '0 to 3', 'not a column')),
        ({'b': _B - 1}, ('b has -1 in row 0',)),
        ({'b': np.full((3, 2), 2**64 - 1, np.uint64)}, ('b has 18446744073709551615',)),
        ({'pad': np.int64(1)}, ('pad has 1', '-1 to 0')),
        ({'a': np.where(_A == 5, np.nan, _A)}, ('a has 1 NaN',)),
        ({'a': np.full((3, 4), None)}, ('a holds pickled',)),
        ({'c': _A}, ("'c.npy'", 'a, b, pad')),
        ({'a': np.zeros((2000, 4))}, ('64,304', '10,000')),
    ],
)
def test_one_thing_wrong(tmp_path, changes, words):
    message = _message(_written(tmp_path, **changes))
    assert all(word in message for word in words)


def test_a_name_that_only_the_directory_has(tmp_path):
    # One bit; pad would be taken as absent, and so as 0.
    path = pathlib.Path(_written(tmp_path, pad=np.array(-1)))
    data = path.read_bytes()
    at = data.rindex(b'pad.npy')
    path.write_bytes(data[:at] + b'q' + data[at + 1 :])
    assert "'qad.npy'" in _message(str(path))


def test_a_member_that_is_there_twice(tmp_path):
    path = _written(tmp_path)
    with pytest.warns(UserWarning), zipfile.ZipFile(path, 'a') as archive:
        archive.writestr('a.npy', b'')
    assert _message(path) == "holds 'a.npy' twice"


def _with_member(folder, content, claimed=None):
    """A good file, in which a.npy is `content`; perhaps of another claimed size."""
    path = folder / 'f.npz'
    stream = io.BytesIO()
    np.save(stream, _B)
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr('a.npy', content)
        archive.writestr('b.npy', stream.getvalue())
    if claimed is not None:
        size = len(content).to_bytes(4, 'little')
        data = path.read_bytes()
        assert data.count(size) == 2
        path.write_bytes(data.replace(size, claimed.to_bytes(4, 'little')))
    return str(path)


def _header(shape, descr='<f4'):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {'descr': descr, 'fortran_order': False, 'shape': shape}
    )
    return stream.getvalue()


@pytest.mark.parametrize('read', [_read, _blocks])
def test_sizes_are_compared_before_memory_is_taken(tmp_path, read):
    path = _with_member(tmp_path, _header((10**12, 4)) + b'1234')
    assert '(1000000000000, 4)' in _message(path, read)
    array = _header((1000, 2)) + bytes(8000)
    path = _with_member(tmp_path, array, claimed=1 << 31)
    assert '2,147,48' in _message(path, read)
    # No more is unpacked than the directory says.
    path = _with_member(tmp_path, array, claimed=1000)
    assert _message(path, read)
    with open(path, 'wb') as stream:
        stream.truncate(_MOST + 1)
    assert '10,001 ' in _message(path, read)


_LENGTHS = st.sampled_from([0, 1, 3, 24, -1, -4, 2**31, 10**30, True, False, 'a', 2.0])
_DESCRS = st.sampled_from(
    [
        *('<f4', '>i8', '|u1', '|b1', '|S0', '<U3', '<M8[s]', '|V7', '|O', '<c16', 'x'),
        *([('a', '<f4')], [('a', '|O')], ('<f4', (2,)), [], 4, None, [('a', '<f4', 3)]),
    ]
)
_HEADERS = st.builds(
    lambda descr, order, shape: repr(
        {'descr': descr, 'fortran_order': order, 'shape': shape}
    ),
    _DESCRS,
    st.sampled_from([True, False, None, 1]),
    st.lists(_LENGTHS, max_size=3).map(tuple) | _LENGTHS,
) | st.sampled_from(
    ['', '{', '(' * 9000, '{"shape": ()}', '\x00', '-' * 5000, '1' * 9999]
)


@example("{'descr': '<f4', 'fortran_order': False, 'shape': (True, 96)}", b'\1\0', 384)
@given(
    header=_HEADERS,
    version=st.sampled_from([b'\1\0', b'\2\0', b'\3\0', b'\0\0']),
    size=st.sampled_from([0, 1, 4, 8, 24, 96, 384]),
)
def test_headers_cost_one_line(tmp_path_factory, header, version, size):
    length = len(header).to_bytes(2 if version == b'\1\0' else 4, 'little')
    content = b'\x93NUMPY' + version + length + header.encode('latin1') + bytes(size)
    path = _with_member(tmp_path_factory.getbasetemp(), content)
    for read in (_read, _blocks, lambda path: npz.read_all(path, _MOST)):
        with contextlib.suppress(ValueError):
            read(path)


def test_a_failing_disk_is_not_a_damaged_file(tmp_path, monkeypatch):
    def failing(self, size=-1):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    path = _written(tmp_path, np.savez)
    monkeypatch.setattr(zipfile.ZipExtFile, 'read', failing)
    with pytest.raises(OSError, match=r'Errno 5.*f\.npz'):
        _read(path)


@pytest.mark.parametrize('save', [np.savez, np.savez_compressed])
def test_blocks_of_rows(tmp_path, monkeypatch, save):
    monkeypatch.setattr(npz, 'BLOCK_BYTES', 40)  # of 16 bytes to a row
    blocks = _blocks(_written(tmp_path, save, a=_A.astype('>f4')))
    assert [len(block) for block in blocks] == [2, 1]
    np.testing.assert_array_equal(np.concatenate(blocks), _A)


@pytest.mark.parametrize(
    'array, word',
    [
        (None, 'a is missing'),
        (np.full((3, 4), 'x'), '<U1'),
        (_A[:2], '(2, 4)'),
        (np.asfortranarray(_A), 'Fortran'),
    ],
)
def test_blocks_of_another_array(tmp_path, array, word):
    path = _written(tmp_path, a=array)
    assert word in _message(path, lambda path: _blocks(path, lengths={'n': (3, 'k')}))


def test_arrays_are_written_whole_or_not_at_all(tmp_path):
    def blocks():
        yield _A[:2]
        raise KeyError

    path = str(tmp_path / 'f.npz')
    rows = npz.StreamedField('a', (3, 4), np.dtype(np.float32), [_A[:2], _A[2:]])
    npz.write_arrays(path, {'b': _B}, rows)
    np.testing.assert_array_equal(_read(path)['a'], _A)
    with pytest.raises(KeyError):
        npz.write_arrays(path, {'b': _B + 1}, rows._replace(blocks=blocks()))
    np.testing.assert_array_equal(_read(path)['b'], _B)
    assert os.listdir(tmp_path) == ['f.npz']
