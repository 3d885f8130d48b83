"""What every layout model promises, and the GraphTensors it reads."""

import dataclasses

import numpy as np
import pytest

from baselines.layout import graphs
from baselines.layout import models
from tests.helpers import layout_programs
from tests.helpers.layout_programs import merge

_MODES = ('fullgraph', 'dropout', 'backpropdropout')


@pytest.fixture(scope='module')
def programs():
    return [
        layout_programs.random_program(seed, nodes=nodes, configurable=4)
        for seed, nodes in enumerate([30, 10, 50])
    ]


def test_graph_holds_the_programs_end_to_end(programs):
    chosen = np.array([[[0, 30], [4, 8], [50, 50]]])
    graph, labels = merge(programs, [3, 1], chosen)
    ops = graph.node_sets['op']
    np.testing.assert_array_equal(ops.sizes, [30, 10, 50])
    np.testing.assert_array_equal(
        ops['selected'], [True] * 30 + [False] * 4 + [True] * 4 + [False] * 52
    )
    np.testing.assert_array_equal(ops['op'], np.concatenate([p.op for p in programs]))
    np.testing.assert_array_equal(
        graph.node_sets['nconfig']['feats'][4:8],
        programs[1].vectors[programs[1].codes[[3, 1]].T],
    )
    np.testing.assert_array_equal(
        graph.edge_sets['config'].adjacency.target[8:], programs[2].config_ops + 40
    )
    feed = graph.edge_sets['feed'].adjacency
    ends = np.stack([feed.source, feed.target], 1)
    np.testing.assert_array_equal(ends[30:40], programs[1].edges + 30)
    packed = graphs.pack(programs, np.array([[0, 2], [2, 0]]), np.zeros((2, 2, 1), int))
    assert len(packed['vectors']) == 6  # each program's once
    np.testing.assert_allclose(
        labels, [p.runtimes[[3, 1]] / 1e7 for p in programs], rtol=1e-6
    )
    np.testing.assert_allclose(graph.node_sets['g']['kept_node_ratio'], [1, 0.4, 0])


def test_sampled_edges_lie_in_the_segment(programs):
    graph, _ = merge(programs, [0], np.array([[[0, 15], [4, 8], [0, 50]]]))
    inside = graph.node_sets['op']['selected'].numpy()
    for name, ends in ('feed', ['source', 'target']), ('config', ['target']):
        whole = graph.edge_sets[name].adjacency
        kept = np.all([inside[getattr(whole, end)] for end in ends], 0)
        sampled = graph.edge_sets[f'sampled_{name}']
        for end in ('source', 'target'):
            expected = getattr(whole, end).numpy()[kept]
            np.testing.assert_array_equal(getattr(sampled.adjacency, end), expected)
        assert sampled.sizes.numpy().sum() == kept.sum()


@pytest.mark.slow
@pytest.mark.parametrize('mode', _MODES[1:])
def test_batches_and_slices_score_like_their_parts(programs, mode):
    model = models.ResModel(3, 10, dropout=mode)
    chosen = np.array([[[0, 15], [4, 8], [10, 50]]])
    together = model(merge(programs, [2, 0, 1], chosen)[0])
    for j, program in enumerate(programs):
        alone = model(merge([program], [2, 0, 1], chosen[:, j : j + 1])[0])
        np.testing.assert_allclose(together[j], alone[0], rtol=1e-4, atol=1e-6)
        one = model.forward(merge([program], [0], chosen[:, j : j + 1])[0], 1)
        np.testing.assert_allclose(one[0, 0], alone[0, 1], rtol=1e-4, atol=1e-6)


def test_modes_agree_where_everything_is_selected(programs):
    model = models.ResModel(3, 10)
    graph, _ = merge(programs, [0, 1, 2])
    for mode in _MODES:
        layout_programs.assert_close(
            model.forward(graph, 3, dropout=mode, backprop=True), model(graph)
        )


def test_dropout_mode_sees_only_the_segment(programs):
    model = models.ResModel(2, 10, dropout='dropout')
    program = programs[2]
    inside = (program.edges < 20).all(1)
    at = program.config_ops < 20
    part = dataclasses.replace(
        program,
        edges=program.edges[inside],
        config_ops=program.config_ops[at],
        codes=program.codes[:, at],
    )
    scores = model(merge([program], [0, 1], np.array([[[0, 20]]]))[0])
    wanted = layout_programs.compute_scores(model, part)[:2]
    layout_programs.assert_close(scores[0], wanted)


@pytest.mark.parametrize(
    'name, value', [('adj_normalization', 'both'), ('dropout', 'no'), ('mlp_layers', 0)]
)
def test_unknown_options_are_named(name, value):
    with pytest.raises(ValueError, match=f'{name} .*{value!r}'):
        models.ResModel(3, 10, **{name: value})


def test_segments_are_drawn_evenly_and_repeatably():
    def draw(rng):
        return graphs.draw_segments(rng, np.array([10, 5, 8, 3]), 4).tolist()

    rng = np.random.default_rng(0)
    drawn = [draw(rng) for _ in range(900)]
    wanted = [
        [[0, 4], [4, 8], [8, 10]],  # as published
        [[0, 4], [4, 5]],
        [[0, 4], [4, 8]],
        [[0, 3]],
    ]
    for segments, counted in zip(wanted, zip(*drawn)):
        counts = [counted.count(segment) for segment in segments]
        assert sum(counts) == 900 and min(counts) > 0.8 * 900 / len(segments)
    assert draw(np.random.default_rng(0)) == drawn[0]
    whole = graphs.draw_segments(rng, np.array([10, 5]), -1)
    assert whole.tolist() == [[0, 10], [0, 5]]
