"""Columns before they are scaled: logarithms and sizes modulo 128, by hand."""

import json

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
import numpy as np
import pytest

from baselines.features import expansion
from baselines.features import normalizer
from tests.helpers import hlo_kernels
from tests.helpers import tile_records

Expansion = expansion.Expansion


class _Summaries:
    """What fitting reads of a split."""

    source = 'here'

    def __init__(self, nodes, configs):
        for part, values in (('node', nodes), ('config', configs)):
            values = np.array(values, np.float32)
            setattr(self, f'{part}_min', values.min(axis=0, keepdims=True))
            setattr(self, f'{part}_max', values.max(axis=0, keepdims=True))


def test_signlog():
    e = np.e - 1
    np.testing.assert_allclose(
        expansion.signlog(np.array([-e, -0.0, 0, e, np.e**3 - 1])), [-1, 0, 0, 1, 3]
    )


def test_signlog_comes_before_the_range():
    # log(1 + x) of 0, 1, 7 is 0, ln 2, 3 ln 2: scaled 0, 1/3, 1.
    nodes = [[0], [1], [7]]
    fitted = normalizer.Normalizer.fit(
        _Summaries(nodes, nodes), expansion=Expansion(True, False)
    )
    np.testing.assert_allclose(fitted.nodes(nodes), [[0], [1 / 3], [1]], rtol=1e-6)
    np.testing.assert_allclose(fitted.configs(nodes), [[0], [1 / 7], [1]], rtol=1e-6)
    # Negative values, of padding.
    nodes = [[-7], [-1], [0], [7]]
    fitted = normalizer.Normalizer.fit(
        _Summaries(nodes, nodes), expansion=Expansion(True, True)
    )
    for scaled in (fitted.nodes(nodes), fitted.configs(nodes)):
        np.testing.assert_allclose(scaled, [[0], [1 / 3], [1 / 2], [1]], rtol=1e-6)


def test_sizes_modulo_128_come_after_all_columns():
    # Column 1 is a size: 3 = 0 x 128 + 3, 200 = 1 x 128 + 72, 512 = 4 x 128.
    nodes = [[5, 3], [9, 200], [5, 512]]
    fitted = normalizer.Normalizer.fit(
        _Summaries(nodes, nodes), expansion=Expansion(node_sizes=(1,))
    )
    np.testing.assert_allclose(
        fitted.nodes(nodes),
        np.array([[0, 0, 3 / 127, 0], [1, 197 / 509, 72 / 127, 1 / 4], [0, 1, 0, 1]]),
        rtol=1e-6,
    )
    assert fitted.num_node_features == 4
    assert fitted.configs(nodes).shape == (3, 2)


def test_the_quotient_becomes_a_logarithm_too_and_the_remainder_does_not():
    # 7 x 128 + 127, and 1 x 128.
    nodes = [[0], [1023], [128]]
    fitted = normalizer.Normalizer.fit(
        _Summaries(nodes, nodes),
        expansion=Expansion(node_signlog=True, node_sizes=(0,)),
    )
    np.testing.assert_allclose(
        fitted.nodes(nodes),
        [[0, 0, 0], [1, 1, 1], [np.log(129) / np.log(1024), 0, 1 / 3]],
        rtol=1e-6,
    )


def test_what_is_absent_has_no_remainder():
    # -1 stands for an absent entry in raw files extracted with --pad=-1.
    nodes = [[-1], [127]]
    fitted = normalizer.Normalizer.fit(
        _Summaries(nodes, nodes), expansion=Expansion(node_sizes=(0,))
    )
    # Both are 0 x 128: the quotient is constant and left out.
    np.testing.assert_array_equal(fitted.nodes(nodes), [[0, 0], [1, 1]])


def test_a_constant_size_is_left_out_in_all_forms():
    nodes = [[200, 1], [200, 2]]
    fitted = normalizer.Normalizer.fit(
        _Summaries(nodes, nodes), expansion=Expansion(node_sizes=(0,))
    )
    assert fitted.node_used.tolist() == [False, True, False, False]
    np.testing.assert_array_equal(fitted.nodes(nodes), [[0], [1]])


def test_sizes_are_shapes_windows_slices_and_bounds():
    node = [*range(21, 27), *range(37, 43), 121, 122]
    bounds = [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20, 21]
    of = Expansion.of_tiles('minmax', True)
    assert (list(of.node_sizes), list(of.config_sizes)) == (node, bounds)
    assert not (of.node_signlog or of.config_signlog)
    # Digits of a layout are neither sizes nor amounts.
    of = Expansion.of_layouts('signlog', True)
    assert (list(of.node_sizes), of.config_sizes) == (node, ())
    assert of.node_signlog and not of.config_signlog
    assert Expansion.of_tiles('signlog', False) == Expansion(True, True)


def test_published_columns_are_those_of_always():
    for of in (Expansion.of_tiles, Expansion.of_layouts):
        assert of('minmax', False).is_published
    store = hlo_kernels.store(*tile_records.make_records(3))
    plain = normalizer.Normalizer.fit(store)
    fitted = normalizer.Normalizer.fit(
        store, expansion=Expansion.of_tiles('minmax', False)
    )
    assert fitted.to_json() == plain.to_json()
    assert set(plain.to_json()) == {
        f'{part}_{what}'
        for part in ('node', 'config')
        for what in ('used', 'min', 'max')
    }
    # Raw columns beside the others keep their bits.
    more = normalizer.Normalizer.fit(
        store, expansion=Expansion.of_tiles('minmax', True)
    )
    assert (
        fitted.nodes(store.node_feat).tobytes()
        == more.nodes(store.node_feat)[:, : fitted.num_node_features].tobytes()
    )


_VALUES = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 8), st.integers(2, 6)),
    elements=st.floats(-1e6, 1e6, width=32),
)


@given(values=_VALUES, signlog=st.booleans(), size=st.integers(0, 1))
def test_any_matrix_stays_in_the_unit_range_and_survives_json(values, signlog, size):
    values = np.round(values)
    fitted = normalizer.Normalizer.fit(
        _Summaries(values, values),
        expansion=Expansion(signlog, not signlog, (size,), (0, 1)),
    )
    loaded = normalizer.Normalizer.from_json(json.loads(json.dumps(fitted.to_json())))
    assert loaded.expansion == fitted.expansion
    for scale in ('nodes', 'configs'):
        scaled = getattr(fitted, scale)(values)
        assert scaled.dtype == np.float32
        assert ((scaled >= 0) & (scaled <= 1)).all()
        assert getattr(loaded, scale)(values).tobytes() == scaled.tobytes()
    # Nothing is lost: 128 quotients and a remainder are the size.
    columns = Expansion(node_sizes=(size,)).columns('node', values)
    np.testing.assert_array_equal(
        columns[:, -1] * 128 + columns[:, -2], np.maximum(values[:, size], 0)
    )
    np.testing.assert_array_equal(columns[:, :-2], values)
    assert (columns[:, -2] < 128).all()


def test_columns_that_are_not_there():
    store = hlo_kernels.store(*tile_records.make_records(2, node_features=113))
    with pytest.raises(
        ValueError,
        match=(
            '^here: node_feat has 113 columns; --mod128 reads the published '
            'ones, up to column 122'
        ),
    ):
        normalizer.Normalizer.fit(store, expansion=Expansion.of_tiles('minmax', True))
    fitted = normalizer.Normalizer.fit(
        _Summaries([[1, 2], [3, 4]], [[0], [1]]), expansion=Expansion(node_sizes=(1,))
    )
    with pytest.raises(
        ValueError, match=('node_feat has 4 columns, but the model was trained on 2')
    ):
        fitted.nodes(np.zeros((1, 4)))


@pytest.mark.parametrize(
    'change, words',
    [
        ('text', 'expansion should be an object'),
        ({'node_signlog': 1}, 'node_signlog should be true or false'),
        ({'node_sizes': [1, 0]}, 'node_sizes should be a list of columns, ascending'),
        ({'node_sizes': [-1]}, 'node_sizes should be a list of columns'),
        ({'node_sizes': [True]}, 'node_sizes should be a list of columns'),
        ({'config_sizes': 3}, 'config_sizes should be a list of columns'),
        ({'node_sizes': [0, 1]}, 'node_used has 2 entries, too few for its expansion'),
    ],
)
def test_bad_json(change, words):
    fitted = normalizer.Normalizer.fit(_Summaries([[1, 2], [3, 4]], [[0], [1]]))
    with pytest.raises(ValueError, match=f'^normalizer: {words}'):
        normalizer.Normalizer.from_json({**fitted.to_json(), 'expansion': change})
