"""Trees scored by bits of leaves, against trees by hand and LightGBM."""

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
import pytest

from baselines.training import quick_scorer
from baselines.training import trees as trees_lib

lightgbm = pytest.importorskip('lightgbm')

# x0 <= 0.5 ? (x1 <= 2 ? 1 : 10) : (x0 <= 0.75 ? 100 : 1000), leaves in LightGBM's
# order: the left child of a new split keeps the number of the leaf that it splits.
_TREE = {
    'split_feature': ['0', '1', '0'],
    'threshold': ['0.5', '2', '0.75'],
    'decision_type': ['2', '2', '0'],
    'left_child': ['1', '-1', '-2'],
    'right_child': ['2', '-3', '-4'],
    'leaf_value': ['1', '100', '10', '1000'],
}
_LEAF = {**dict.fromkeys(_TREE, []), 'leaf_value': ['0.25']}


@pytest.mark.parametrize(
    'rows, expected',
    [
        ([[0.5, 2], [0.5, 2.5], [0.75, 2], [0.8, 9]], [1, 10, 100, 1000]),
        ([[0.5, 2], [0.5, 2.5]], [1, 10]),  # x0 is shared
        ([[0.6, 7], [0.9, 8]], [100, 1000]),  # x1 is asked by no row
        ([[0.9, 7], [0.9, 7]], [1000, 1000]),  # nothing varies
        ([[np.nan, -np.inf], [np.inf, np.nan]], [1, 1000]),  # NaN counts as 0
    ],
)
def test_a_tree_by_hand(rows, expected):
    scorer = quick_scorer.QuickScorer.of([_TREE, _LEAF, _TREE])
    found = scorer.predict(np.array(rows, np.float32))
    assert found.tolist() == [2 * value + 0.25 for value in expected]


@pytest.mark.parametrize('limit, most', [('_MOST', 7), ('_MOST_WORDS', 7 * 400)])
def test_rows_that_differ_in_everything_are_left_to_lightgbm(monkeypatch, limit, most):
    # A split by each of 200 columns, two leaves each: 200 lookups of 7 words for 200
    # trees, in 200 masks that clear something and as many that do not.
    tree = {key: words[:1] for key, words in _TREE.items()}
    tree.update(left_child=['-1'], right_child=['-2'], leaf_value=['1', '2'])
    trees = [{**tree, 'split_feature': [str(c)]} for c in range(200)]
    scorer, rows = quick_scorer.QuickScorer.of(trees), np.eye(200, dtype=np.float32)
    monkeypatch.setattr(quick_scorer, limit, most)
    assert scorer.predict(rows).tolist() == [201] * 200
    monkeypatch.setattr(quick_scorer, limit, most - 1)
    assert scorer.predict(rows) is None


def test_fields_do_not_cross_words():
    places = quick_scorer._fields(np.array([60, 4, 1, 63, 2, 62, 64]))
    assert places.tolist() == [0, 60, 64, 65, 128, 130, 192]


@pytest.mark.parametrize(
    'change',
    [
        {'leaf_value': ['0'] * 65},
        {'decision_type': ['2', '2', '8']},  # NaN goes one way
        {'decision_type': ['4', '2', '2']},  # and so does 0
    ],
)
def test_what_it_does_not_take(change):
    assert quick_scorer.QuickScorer.of([_TREE, {**_TREE, **change}]) is None


def _grown(rng, columns, splits):
    """A tree of so many splits, at leaves drawn at random, as LightGBM numbers it."""
    children = {'left_child': [], 'right_child': []}
    for split in range(splits):
        leaf = int(rng.integers(split + 1))
        for side in children.values():
            for parent, child in enumerate(side):
                side[parent] = split if child == ~leaf else child
        children['left_child'].append(~leaf)
        children['right_child'].append(~(split + 1))
    # Thresholds that rows meet exactly, and around LightGBM's zero.
    thresholds = rng.choice([-1, -1e-36, 0, 1e-36, 1e-35, 0.5, 1], splits)
    return {
        **{key: list(map(str, side)) for key, side in children.items()},
        'split_feature': rng.integers(columns, size=splits).astype(str).tolist(),
        'threshold': [repr(float(t)) for t in thresholds],
        'decision_type': rng.choice(['0', '2'], splits).tolist(),
        'leaf_value': [repr(v) for v in rng.normal(size=splits + 1).tolist()],
    }


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(0, 63), st.integers(1, 5))
def test_they_are_those_of_lightgbm(seed, trees, splits, columns):
    rng = np.random.default_rng(seed)
    grown = [_grown(rng, columns, int(rng.integers(splits + 1))) for _ in range(trees)]
    names = [f'c{i}' for i in range(columns)]
    text = trees_lib._Text.parse(trees_lib._Text(grown, names).write())
    values = [-np.inf, -1, -1e-36, 0, 1e-36, 2e-35, 0.5, 0.75, 1, 7, np.inf, np.nan]
    rows = rng.choice(values, (30, columns)).astype(np.float32)
    rows[:, rng.random(columns) < 0.5] = rows[0, 0]
    found = quick_scorer.QuickScorer.of(text.trees).predict(rows)
    expected = lightgbm.Booster(model_str=text.write()).predict(rows)
    # Each sum of n terms is off by (n - 1) roundings at most.
    total = sum(max(abs(float(v)) for v in tree['leaf_value']) for tree in grown)
    limit = 2 * trees * np.finfo(float).eps * total
    np.testing.assert_allclose(found, expected, rtol=0, atol=limit)
