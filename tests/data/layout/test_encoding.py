"""Encoding configurations: nothing is lost, equal ones are found, codes fit."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from baselines.data.layout import encoding as layout_encoding


def _encode(features, block=None):
    encoder = layout_encoding.ConfigEncoder(*features.shape[:2])
    for start in range(0, len(features), block or len(features)):
        encoder.add(features[start : start + (block or len(features))])
    return encoder.finish()


def _vectors(*starts):
    """Vectors of -1 that begin with the numbers given."""
    vectors = np.full((len(starts), 18), -1, np.int8)
    for vector, start in zip(vectors, starts):
        vector[: len(start)] = start
    return vectors


def test_codes_by_hand():
    a, b, c = _vectors([0], [], [0, -1, 5])
    encoded = _encode(np.array([[a, b], [c, c], [a, b], [b, b], [c, c]]))
    # In lexical order: b, a, c.
    np.testing.assert_array_equal(encoded.vectors, [b, a, c])
    assert encoded.vectors.dtype == np.int8
    assert encoded.codes.tolist() == [[1, 0], [2, 2], [0, 0]]
    assert encoded.codes.dtype == np.uint8
    assert encoded.group.tolist() == [0, 1, 0, 2, 1]
    assert encoded.first.tolist() == [0, 1, 3]
    assert encoded.group.dtype == encoded.first.dtype == np.int32


@given(
    configs=st.integers(1, 40),
    nodes=st.integers(1, 5),
    vectors=st.integers(1, 12),
    block=st.integers(1, 40),
    dtype=st.sampled_from([np.int8, np.float32, np.int64, np.float64]),
    highest=st.sampled_from([5, 6, 127]),
    seed=st.integers(0, 2**32 - 1),
)
def test_everything_comes_back_whatever_the_blocks(
    configs, nodes, vectors, block, dtype, highest, seed
):
    rng = np.random.default_rng(seed)
    pool = rng.integers(-1, 6, (vectors, 18)).astype(dtype)
    pool[::2, 0] = highest
    features = pool[rng.integers(0, vectors, (configs, nodes))]
    encoded = _encode(features, block)
    np.testing.assert_array_equal(
        encoded.vectors[encoded.codes[encoded.group]], features
    )
    # Nothing is kept twice or in vain.
    for array in (encoded.vectors, encoded.codes):
        assert len(np.unique(array, axis=0)) == len(array)
    assert set(encoded.codes.ravel()) == set(range(len(encoded.vectors)))
    assert (np.diff(encoded.first) > 0).all()
    np.testing.assert_array_equal(
        encoded.group[encoded.first], np.arange(len(encoded.first))
    )
    # The same whatever the blocks.
    whole = _encode(features)
    for name in ('vectors', 'codes', 'group', 'first'):
        np.testing.assert_array_equal(getattr(encoded, name), getattr(whole, name))


@pytest.mark.parametrize(
    'count, dtype',
    [(256, np.uint8), (257, np.uint16), (65_536, np.uint16), (65_537, np.uint32)],
)
def test_codes_are_as_wide_as_they_must(count, dtype):
    # The numbers 0, 1, ... in base 7; last first, so that order matters.
    digits = np.arange(count)[::-1, None] // 7 ** np.arange(18)[::-1] % 7
    features = (digits - 1).astype(np.int8).reshape(count, 1, 18)
    encoded = _encode(features, block=100 if count < 1000 else 10_000)
    assert encoded.codes.dtype == dtype
    np.testing.assert_array_equal(encoded.codes[:, 0], np.arange(count)[::-1])
    np.testing.assert_array_equal(encoded.vectors[encoded.codes], features)
