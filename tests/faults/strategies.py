"""Untrusted input, one strategy per form of file.

contents(target)    bytes: the good file of a format, changed byte by byte, or as its
                    form allows: values of JSON, words of a text
JSON                any value
ARRAYS              arrays of any type and shape, small
"""

import gzip
import json
import re
from typing import Any

from hypothesis import strategies as st
import numpy as np

_WAYS = ('flip', 'set', 'insert', 'delete', 'cut', 'repeat', 'zero')

_Change = tuple[int, int, str]  # a place, a number and what is done there

_CHANGES = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 255), st.sampled_from(_WAYS)),
    min_size=1,
    max_size=4,
)

_NUMBERS = [-1, 0, 1, 2**31, 2**63, 10**400, -(10**20), 0.5, float('nan'), float('inf')]
_TEXTS = [
    *('', 'x', '\x1b[2J', '../x', '/dev/zero', '9999-12-31T23:59:59-14:00', '\n', 'é')
]
JSON = st.recursive(
    st.none() | st.booleans() | st.sampled_from(_NUMBERS) | st.sampled_from(_TEXTS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(_TEXTS), inner, max_size=3)
    ),
    max_leaves=4,
)
_EDITS = st.lists(
    st.tuples(st.integers(0, 10**6), JSON, st.booleans()), min_size=1, max_size=3
)

_DEEP = st.sampled_from([b'[' * 100_000, b'{"a":' * 100_000])

_WORDS = [
    *('', '-1', '0', '1', '1_0', '0x1', '1e999', '-1e-999', 'nan', 'inf', '9' * 5000),
    *('[' * 3000, '{a = {}}', '2020-01-01', '"', "'''", '=', '#', '\x1b[2J', '\r'),
    *('--flagfile=x', '/dev/zero', 'é', '{1}', '(', ';', ','),
]
_WORD_EDITS = st.lists(
    st.tuples(st.integers(0, 10**6), st.sampled_from(_WORDS)), min_size=1, max_size=3
)

_VALUES = [-(2**63), -(2**31), -1, 0, 1, 5, 2**31 - 1, 2**63 - 1]
_TYPES = '? i1 u1 i4 i8 u8 f2 f4 f8 c8 U3 S2 M8[s]'.split()


def _array(kind: str, shape: list[int], values: list[int], offset: float) -> Any:
    array = np.resize(np.array(values or [0]), shape)
    with np.errstate(all='ignore'):
        return (array + offset if kind[0] in 'fc' else array).astype(kind)


ARRAYS = st.builds(
    _array,
    st.sampled_from(_TYPES),
    st.lists(st.integers(0, 7), max_size=3),
    st.lists(st.sampled_from(_VALUES), max_size=4),
    st.sampled_from([0.0, 0.5, float('nan'), float('inf')]),
)
# What Python may have in an array's place.
OBJECTS = (
    ARRAYS | st.none() | st.sampled_from([7, 'abc', [[1, 2], [3]], [None], {}, ()])
)


def contents(target: Any) -> st.SearchStrategy:
    """Returns changed bytes of a format; see `formats.Target`."""
    good = target.good
    in_bytes = _CHANGES.map(lambda c: _mutated(good, c))
    if target.form == 'json':
        return in_bytes | _DEEP | _EDITS.map(lambda e: _edited(good, e))
    if target.form == 'gzip':
        content = gzip.decompress(good)
        packed = _EDITS.map(lambda e: gzip.compress(_edited(content, e), 1, mtime=0))
        return in_bytes | packed
    if target.form == 'text':
        return in_bytes | _WORD_EDITS.map(lambda e: _reworded(good, e))
    return in_bytes


def _edited(content: bytes, edits: list[tuple[int, Any, bool]]) -> bytes:
    """Puts values in the place of others of JSON, or leaves these out."""
    root = [json.loads(content)]
    for place, value, leaves_out in edits:
        spots = list(_spots(root))
        container, key = spots[place % len(spots)]
        if leaves_out and container is not root:
            del container[key]
        else:
            container[key] = value
    return json.dumps(root[0]).encode()


def _spots(container: Any) -> Any:
    keys = range(len(container)) if isinstance(container, list) else list(container)
    for key in keys:
        yield container, key
        if isinstance(container[key], (list, dict)):
            yield from _spots(container[key])


def _reworded(content: bytes, edits: list[tuple[int, str]]) -> bytes:
    """Puts words in the place of others of a text."""
    parts = re.split(r'([\w.+-]+)', content.decode())
    for place, word in edits:
        parts[2 * (place % (len(parts) // 2)) + 1] = word
    return ''.join(parts).encode()


def _mutated(data: bytes, changes: list[_Change]) -> bytes:
    """Changes bytes one after the other."""
    content = bytearray(data)
    for place, value, how in changes:
        at = place % (len(content) + 1)
        if how == 'flip' and at < len(content):
            content[at] ^= 1 << value % 8
        elif how == 'set' and at < len(content):
            content[at] = value
        elif how == 'insert':
            content.insert(at, value)
        elif how == 'delete':
            del content[at : at + 1 + value % 4]
        elif how == 'cut':
            del content[at:]
        elif how == 'repeat':
            content[at:at] = content[at : at + value]
        elif how == 'zero':
            content[at : at + value] = bytes(len(content[at : at + value]))
    return bytes(content)
