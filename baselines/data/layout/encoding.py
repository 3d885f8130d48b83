"""Configurations of a program as codes into a dictionary, without duplicates.

Float32 features take 72 bytes per configuration and configurable node.  Few of
these vectors in a program are distinct, so a code of one byte (sometimes two)
identifies each; and configurations with equal codes are repeated measurements of
the same thing, so their codes are stored once.
"""

import dataclasses
import hashlib

import numpy as np

from baselines.data.layout import records as layout_records
from baselines.hlo import schema

# Almost all dimension numbers are from -1 to 5, digits in base 7; vectors with others,
# of arrays of rank 7 and more, are kept in a list.
_USUAL = schema.RANK - 1
_BASE = _USUAL - layout_records.LOWEST + 1
_BEYOND = _BASE ** len(schema.LAYOUT)
_CODE_TYPES = (np.dtype('<u1'), np.dtype('<u2'), np.dtype('<u4'))
# Rows that are moved at a time.
_CHUNK = 1024
# Rows that are multiplied at a time, on one core and in its cache.
_PRODUCT = 4096


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class EncodedConfigs:
    """The configurations of one program.

    `vectors[codes[group]]` are the features.
    """

    vectors: np.ndarray  # int8 [d, 18], the distinct vectors in lexical order
    # uint8, uint16 or uint32 [u, k], the distinct configurations in the order in which
    # they first appear
    codes: np.ndarray
    group: np.ndarray  # int32 [c], which of them each configuration is
    first: np.ndarray  # int32 [u], where each of them first appears


class ConfigEncoder:
    """Encodes configurations block by block, and keeps only the codes."""

    def __init__(self, configs: int, nodes: int):
        """Allocates codes: `configs` configurations of `nodes` configurable nodes."""
        self._added = 0
        # The key of a vector is its number in base 7, below 2**51; with larger digits,
        # _BEYOND plus its number in a list.  Keys are sorted; the last one is no
        # vector's.
        self._keys = np.array([np.iinfo(np.int64).max])
        self._beyond: dict[bytes, int] = {}
        # The codes of keys, given in the order in which blocks brought them.
        self._code_of = np.array([0])
        self._vectors = np.empty((0, len(schema.LAYOUT)), np.int8)
        self._codes: np.ndarray = np.empty((configs, nodes), _CODE_TYPES[0])

    def add(self, features: np.ndarray) -> None:
        """Encodes the next configurations.

        Args:
            features: [configurations, k, 18] of any number type, checked to be
                whole numbers from -1 to 127.
        """
        keys = self._compute_keys(features)
        places = np.searchsorted(self._keys, keys)
        # The last key is above all of them, so every place is inside.
        are_new = self._keys[places] != keys
        if are_new.any():
            self._add_vectors(keys[are_new], features[are_new])
            places = np.searchsorted(self._keys, keys)
        rows = slice(self._added, self._added + len(features))
        self._codes[rows] = self._code_of[places]
        self._added = rows.stop

    def finish(self) -> EncodedConfigs:
        """Returns the configurations added; call it once, at the end."""
        codes, vectors = self._codes, self._vectors
        group, first = _group_rows(codes)
        lexical = np.lexsort(vectors.T[::-1])  # its last key counts first
        ranks = np.empty(len(vectors), codes.dtype)
        ranks[lexical] = np.arange(len(ranks))
        for start in range(0, len(first), _CHUNK):
            rows = first[start : start + _CHUNK]
            # In place: row i comes from row first[i] >= i, in ascending order.
            codes[start : start + len(rows)] = ranks[codes[rows]]
        return EncodedConfigs(vectors[lexical], codes[: len(first)], group, first)

    def _compute_keys(self, features: np.ndarray) -> np.ndarray:
        """Returns int64 [configurations, k], equal where the vectors are equal."""
        if not features.size or features.max() <= _USUAL:
            return _pack_digits(features)
        keys = _pack_digits(np.minimum(features, _USUAL))
        beyond = (features > _USUAL).any(axis=-1)
        keys[beyond] = [
            _BEYOND + self._beyond.setdefault(vector.tobytes(), len(self._beyond))
            for vector in features[beyond].astype(np.int8)
        ]
        return keys

    def _add_vectors(self, keys: np.ndarray, vectors: np.ndarray) -> None:
        """Gives codes to vectors [n, 18] and their keys; widens codes if necessary."""
        keys, first = np.unique(keys, return_index=True)
        new_codes = len(self._vectors) + np.arange(len(keys))
        at = np.searchsorted(self._keys, keys)
        self._keys = np.insert(self._keys, at, keys)
        self._code_of = np.insert(self._code_of, at, new_codes)
        self._vectors = np.append(self._vectors, vectors[first].astype(np.int8), axis=0)
        dtype = next(
            kind for kind in _CODE_TYPES if len(self._vectors) <= np.iinfo(kind).max + 1
        )
        if dtype != self._codes.dtype:
            wider = np.empty(self._codes.shape, dtype)
            wider[: self._added] = self._codes[: self._added]
            self._codes = wider


def _group_rows(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns each row's group of equal rows, and where each group begins: int32."""
    numbers: dict[bytes, int] = {}
    first: list[int] = []
    group = np.empty(len(codes), np.int32)
    for row, content in enumerate(codes):
        # A digest, not the row itself: a program may have gigabytes of codes.
        digest = hashlib.blake2b(content.data, digest_size=16).digest()
        group[row] = numbers.setdefault(digest, len(first))
        if group[row] == len(first):
            first.append(row)
    return group, np.array(first, np.int32)


def _pack_digits(features: np.ndarray) -> np.ndarray:
    """Returns vectors of numbers from -1 to 5 in base 7: [c, k, 18] -> int64 [c, k].

    Six digits are below 2**24, so a float32 product is exact and fast; all
    eighteen are below 2**53, so a float64 one is.
    """
    columns = len(schema.LAYOUT)
    rows = features.reshape(-1, columns).astype(np.float32, copy=False)  # [c * k, 18]
    # [18, 3]: six digits for each of the three parts, the first one highest.
    weights = np.zeros((columns, columns // 6), np.float32)
    for column in range(columns):
        weights[column, column // 6] = _BASE ** (5 - column % 6)
    parts = np.empty((len(rows), columns // 6), np.float32)
    for start in range(0, len(rows), _PRODUCT):
        chunk = slice(start, start + _PRODUCT)
        np.matmul(rows[chunk], weights, out=parts[chunk])
    high, middle, low = parts.T.astype(np.float64)
    keys = (high * _BASE**6 + middle) * _BASE**6 + low
    # Digits are values less the lowest one, -1: a constant for all 18 at once.
    keys += -layout_records.LOWEST * (_BASE**columns - 1) // (_BASE - 1)
    return keys.astype(np.int64).reshape(features.shape[:2])
