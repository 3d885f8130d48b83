"""Untrusted input: files changed in a few places, and values in the place of others.

contents(form, good)    bytes: a good file, changed in its bytes, or as its form allows
JSON                    any value
ARRAYS                  arrays of any type and shape, small
OBJECTS                 what Python may have in an array's place
"""

import gzip
import json
import re
from typing import Any

from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

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
_DEEP = st.sampled_from([b'[' * 100_000, b'{"a":' * 100_000])
_WORDS = [
    *('', '-1', '0', '1', '1_0', '0x1', '1e999', '-1e-999', 'nan', 'inf', '9' * 5000),
    *('[' * 3000, '{a = {}}', '2020-01-01', '"', "'''", '=', '#', '\x1b[2J', '\r'),
    *('--flagfile=x', '/dev/zero', 'é', '{1}', '(', ';', ','),
]
ARRAYS = arrays.arrays(
    st.sampled_from('? i1 u1 i4 i8 u8 f2 f4 f8 c8 U3 S2 M8[s]'.split()),
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7),
)
OBJECTS = (
    ARRAYS | st.none() | st.sampled_from([7, 'abc', [[1, 2], [3]], [None], {}, ()])
)

_PLACES = st.integers(0, 10**6)
_SIZES = st.sampled_from([0, 1, 1, 1, 2, 4, 100, 10**9])
# What comes in the place of bytes: others, these with a bit flipped, or these twice.
_PIECES = (
    st.binary(max_size=4) | st.integers(0, 7) | st.sampled_from([None, b'', bytes(99)])
)
_PATHS = st.lists(st.integers(0, 99), max_size=4)  # to a value in JSON


def contents(form: str, good: bytes) -> st.SearchStrategy[bytes]:
    """Returns changed bytes of a file of a form; see `formats.Format`."""

    def changed(change, content, *parts):
        edits = st.lists(st.tuples(*parts), min_size=1, max_size=3)
        return edits.map(lambda drawn: change(content, drawn))

    in_bytes = changed(_splice, good, _PLACES, _SIZES, _PIECES)
    if form == 'text':
        return in_bytes | changed(_reword, good, _PLACES, st.sampled_from(_WORDS))
    if form == 'json':
        return in_bytes | _DEEP | changed(_edit, good, _PATHS, JSON, st.booleans())
    if form == 'gzip':
        inner = changed(_edit, gzip.decompress(good), _PATHS, JSON, st.booleans())
        return in_bytes | inner.map(lambda content: gzip.compress(content, 1))
    return in_bytes


def _splice(content: bytes, edits: list[tuple[int, int, bytes | int | None]]) -> bytes:
    """Puts bytes in the place of others, which may be none, or all that follow."""
    for place, size, piece in edits:
        at = place % (len(content) + 1)
        old = content[at : at + size]
        if piece is None:
            piece = old * 2
        elif isinstance(piece, int):
            piece = bytes(byte ^ 1 << piece for byte in old[:1]) + old[1:]
        content = content[:at] + piece + content[at + size :]
    return content


def _reword(content: bytes, edits: list[tuple[int, str]]) -> bytes:
    """Puts words in the place of others of a text."""
    parts = re.split(r'([\w.+-]+)', content.decode())
    for place, word in edits:
        parts[2 * (place % (len(parts) // 2)) + 1] = word
    return ''.join(parts).encode()


def _edit(content: bytes, edits: list[tuple[list[int], Any, bool]]) -> bytes:
    """Puts values in the place of others of JSON at any depth, or leaves these out."""
    root = [json.loads(content)]
    for path, value, leaves_out in edits:
        container, key = root, 0
        for number in path:
            inner = container[key]
            if not isinstance(inner, (list, dict)) or not inner:
                break
            keys = [*inner] if isinstance(inner, dict) else range(len(inner))
            container, key = inner, keys[number % len(keys)]
        if leaves_out and container is not root:
            del container[key]
        else:
            container[key] = value
    return json.dumps(root[0]).encode()
