"""Scoring: in order, in bounded pieces, and never a number that is none."""

import numpy as np
import pytest
import tensorflow as tf

from baselines.data.tile import store as store_lib
from baselines.features import normalizer as normalizer_lib
from baselines.tiles import graphs as graphs_lib
from baselines.tiles import scoring
from tests.helpers import tile_records


class _Sums(tf.keras.Model):
    """Scores a configuration by nodes + 10 edges + 100 x its first feature.

    By default it does not say whether it joins early.
    """

    def __init__(self, joins_early=None):
        super().__init__()
        if joins_early is not None:
            self.joins_early = joins_early
        self.weight = tf.Variable(1.0)
        self.cells = []  # nodes x configurations of each item, as executed
        self.traces = 0

    def forward(self, graph, num_configs):
        self.traces += 1
        ops = graph.node_sets['op'].total_size
        edges = graph.edge_sets['feed'].total_size
        tf.py_function(
            lambda n, c: self.cells.append(int(n) * int(c)), [ops, num_configs], []
        )
        feature = graph.node_sets['config']['feats'][:, 0]
        kernel = tf.cast(ops + 10 * edges, tf.float32)
        return self.weight * tf.reshape(kernel + 100 * feature, [1, num_configs])


# Very different kernels: (name, nodes, edges, configurations).
_KERNELS = [
    ('a_two_nodes', 2, 1, 2),
    ('b_large', 300, 900, 5),
    ('c_many_configs', 3, 2, 700),
    ('d_no_edges', 4, 0, 9),
    ('e_single', 1, 0, 3),
]


@pytest.fixture(scope='module', name='graphs')
def _graphs():
    rng = np.random.default_rng(0)
    records = [
        tile_records.make_record(
            rng,
            name,
            nodes=nodes,
            configs=configs,
            node_features=3,
            config_features=2,
            edge_index=rng.integers(0, nodes, (edges, 2)).astype(np.int32),
        )
        for name, nodes, edges, configs in _KERNELS
    ]
    # The range of the first configuration feature, so that scaling is plain.
    for record in records:
        record.config_feat[:, 0] = np.arange(len(record.config_feat))
    store = store_lib.TileStore.from_records('here', records)
    return graphs_lib.TileGraphs(store, normalizer_lib.Normalizer.fit(store))


def _expected(kernel, configs=None):
    _, nodes, edges, count = _KERNELS[kernel]
    feature = np.arange(count)[slice(None) if configs is None else configs] / 699
    return nodes + 10 * edges + 100 * feature


def _assert_scores(scored, kernels, configs=None):
    scored = list(scored)
    assert len(scored) == len(kernels)
    for i, (kernel, scores) in enumerate(zip(kernels, scored)):
        assert scores.dtype == np.float32
        expected = _expected(kernel, configs[i] if configs else None)
        np.testing.assert_allclose(scores, expected, rtol=1e-5)


@pytest.fixture(scope='module', name='summing')
def _summing():
    """A model and its scorer, which is compiled once."""
    model = _Sums(joins_early=True)
    return model, scoring.TileScorer(model)


def test_groups_change_nothing_but_memory(graphs, summing, monkeypatch):
    model, scorer = summing
    for per_group in (1, 709, 10_000):
        monkeypatch.setattr(scoring, 'CONFIGS_PER_GROUP', per_group)
        _assert_scores(scorer.scores(graphs), range(5))
    for kernels in ([4, 1, 2, 0], [3], [1, 1], []):
        chosen = np.array(kernels, np.int64)
        _assert_scores(scorer.scores(graphs, chosen), kernels)
    assert model.traces == 1, 'compiled once for all shapes'


def test_what_joins_early_is_scored_in_small_slices(graphs, summing, monkeypatch):
    monkeypatch.setattr(graphs_lib, 'PAIRS_PER_ITEM', 100)
    model, scorer = summing
    model.cells.clear()
    _assert_scores(scorer.scores(graphs), range(5))
    # Of 300 nodes one configuration at a time is the least there is.
    cells = sorted(model.cells)
    assert cells[-5:] == [300] * 5 and cells[-6] <= 100
    assert sum(cells) == sum(n * c for _, n, _, c in _KERNELS)
    assert scoring.pairs_per_item(_Sums()) == 100, 'as a model that does not say'


def test_what_joins_late_is_scored_whole(graphs, monkeypatch):
    monkeypatch.setattr(graphs_lib, 'PAIRS_PER_ITEM', 100)
    model = _Sums(joins_early=False)
    _assert_scores(scoring.TileScorer(model).scores(graphs), range(5))
    assert sorted(model.cells) == sorted(n * c for _, n, _, c in _KERNELS)


def test_chosen_configurations(graphs, summing):
    configs = [np.array(c) for c in ([1], [4, 3, 2, 1], [699, 0, 5, 5])]
    score = summing[1].chosen(graphs, configs)
    for _ in range(2):  # after each epoch
        _assert_scores(score(), range(3), configs)


def test_a_score_that_is_not_finite_names_the_kernel(graphs, summing):
    model, scorer = summing
    before = next(scorer.scores(graphs))
    for value in (np.nan, np.inf):
        model.weight.assign(value)
        for name, scored in (
            ('b_large', scorer.scores(graphs, np.array([1, 0]))),
            ('a_two_nodes', scorer.chosen(graphs, [np.array([1]), np.array([2])])()),
        ):
            with pytest.raises(ValueError, match=f' {name} '):
                list(scored)
    # Weights are read at each call: training goes on between two validations.
    model.weight.assign(2.0)
    np.testing.assert_allclose(next(scorer.scores(graphs)), 2 * before)
    model.weight.assign(1.0)


@pytest.mark.slow
def test_forward_may_need_a_python_number(graphs, monkeypatch):
    """Code for the published tree may repeat a list `num_configs` times."""

    class Repeating(_Sums):
        def forward(self, graph, num_configs):
            ones = tf.stack([tf.ones([])] * num_configs)
            return ones * super().forward(graph, num_configs)

    monkeypatch.setattr(graphs_lib, 'PAIRS_PER_ITEM', 100)
    model = Repeating(joins_early=False)
    scorer = scoring.TileScorer(model)
    _assert_scores(scorer.scores(graphs), range(5))
    chosen = [np.array([1, 0])]
    _assert_scores(scorer.chosen(graphs, chosen)(), [0], chosen)


@pytest.mark.slow
@pytest.mark.parametrize('normalised, parallel', [(False, True), (True, False)])
def test_what_is_not_safe_side_by_side_runs_alone(
    graphs, monkeypatch, normalised, parallel
):
    """LayerNormalization in parallel iterations crashes TensorFlow 2.15.1."""

    class Model(_Sums):
        def __init__(self):
            super().__init__()
            self.norm = tf.keras.layers.LayerNormalization()

        def forward(self, graph, num_configs):
            feats = graph.node_sets['op']['feats']
            centred = self.norm(feats) if normalised else feats
            return super().forward(graph, num_configs) + 0 * tf.reduce_sum(centred)

    used, loop = [], tf.while_loop

    def recorded(*args, parallel_iterations, **kwargs):
        used.append(parallel_iterations)
        return loop(*args, parallel_iterations=parallel_iterations, **kwargs)

    monkeypatch.setattr(tf, 'while_loop', recorded)
    _assert_scores(scoring.TileScorer(Model()).scores(graphs), range(5))
    assert (used[-1] > 1) == parallel


class _Comparing(_Sums):
    """Adds the mean feature of the list to every score."""

    scores_depend_on_list = True

    def forward(self, graph, num_configs):
        scores = super().forward(graph, num_configs)
        return scores + tf.reduce_mean(graph.node_sets['config']['feats'][:, 0])


@pytest.mark.slow
def test_long_lists_are_cut_several_ways_and_averaged(graphs):
    model = _Comparing()
    [scores] = scoring.TileScorer(model).scores(graphs, np.array([2]))
    cuts = scoring.cut_into_lists(700)
    assert sorted(map(len, cuts)) == [116] * 8 + [117] * 16  # 4 times 6 lists
    assert sorted(model.cells) == sorted(3 * len(cut) for cut in cuts)
    expected = np.zeros(700)
    for cut in cuts:
        expected[cut] += (_expected(2)[cut] + cut.mean() / 699) / 4
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    # The same again, and a list that fits is scored whole.
    again, whole = scoring.TileScorer(model).scores(graphs, np.array([2, 3]))
    np.testing.assert_array_equal(again, scores)
    mean = np.arange(_KERNELS[3][3]).mean() / 699
    np.testing.assert_allclose(whole, _expected(3) + mean, rtol=1e-5)


def test_every_cut_holds_everything():
    for count in (1, 128):
        [whole] = scoring.cut_into_lists(count)
        np.testing.assert_array_equal(whole, np.arange(count))
    cuts = scoring.cut_into_lists(129)
    assert [len(cut) for cut in cuts] == [65, 64] * 4
    for i in range(0, 8, 2):
        np.testing.assert_array_equal(
            np.sort(np.concatenate(cuts[i : i + 2])), np.arange(129)
        )
    assert (cuts[0] != cuts[2]).any(), 'another way each time'
