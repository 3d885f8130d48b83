"""Distinct states of nodes: who depends on whom, and equal scores."""

import dataclasses

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf

from baselines.layout import models
from baselines.layout import pruning
from baselines.layout import scoring
from tests.helpers import layout_programs


def _matrix(rows, cols):
    values = np.arange(1, len(rows) + 1, dtype=np.float32)
    return pruning.SparseMatrix(np.array(rows), np.array(cols), values)


# A path 0 - 2 - 3 - 1 with self loops, whose ends 0 and 1 are configurable.
_PATH = _matrix([0, 2, 2, 3, 3, 1, 0, 1, 2, 3], [2, 0, 3, 2, 1, 3, 0, 1, 2, 3])


def test_nodes_depend_on_configurable_nodes_within_as_many_hops():
    structure = pruning.Structure.build([_PATH], [2, 4, 4])
    sets = [
        [structure.depends_on[layer][g].tolist() for g in structure.group[layer]]
        for layer in range(3)
    ]
    assert sets == [[[0], [1]], [[0], [1], [0], [1]], [[0], [1], [0, 1], [0, 1]]]


def test_states_are_the_distinct_joint_codes():
    structure = pruning.Structure.build([_PATH], [2, 4, 4])
    # Nine configurations; 3 x 2 pairs of codes, of which 4 occur.
    codes = np.array([[5, 7], [5, 9], [6, 7], [8, 9]] * 2 + [[5, 7]])
    last = structure.find_states(codes)[2]
    joint = structure.group[2][2]
    np.testing.assert_array_equal(last.counts, [3, 2, 4])
    np.testing.assert_array_equal(last.of_config[joint], [0, 1, 2, 3, 0, 1, 2, 3, 0])
    for state, example in enumerate(last.example[last.start[joint] :]):
        assert last.of_config[joint][example] == state


@pytest.mark.slow
@pytest.mark.parametrize(
    'options, directions',
    [
        ({'num_gnns': 3, 'mlp_layers': 1, 'adj_normalization': 'asym'}, 2),
        ({'num_gnns': 0, 'mlp_layers': 3}, 1),
    ],
)
def test_scores_are_those_of_the_plain_formula(options, directions):
    model = models.ResModel(4, 10, **options)
    scorer = scoring.LayoutScorer(model)
    plain = {key: options[key] for key in ('num_gnns', 'mlp_layers')}
    shapes = [
        {},
        {'configs': 1},
        {'vectors': 1},
        {'configurable': 40, 'configs': 100},
        {'nodes': 1, 'configurable': 1},
        {'nodes': 300, 'edges': 300, 'configurable': 20},
    ]
    for seed, shape in enumerate(shapes):
        program = layout_programs.random_program(seed, **shape)
        scores = scorer.score(program)
        wanted = layout_programs.compute_scores(model, program, directions, **plain)
        layout_programs.assert_close(scores, wanted)


@pytest.fixture(scope='module')
def whole():
    """A model and its scorer, which is compiled once for all programs."""
    model = models.ResModel(4, 10)
    return model, scoring.LayoutScorer(model)


@pytest.mark.slow
@hypothesis.given(
    st.integers(0, 10**6),
    st.integers(1, 60),
    st.floats(0, 1),
    st.integers(0, 150),
    st.integers(1, 60),
    st.integers(1, 20),
)
def test_scores_of_any_program_are_those_of_the_plain_formula(
    whole, seed, nodes, share, edges, configs, vectors
):
    model, scorer = whole
    program = layout_programs.random_program(
        seed, nodes, int(share * nodes), configs, vectors, edges
    )
    scores = scorer.score(program)
    wanted = layout_programs.compute_scores(model, program)
    layout_programs.assert_close(scores, wanted)


@pytest.mark.slow
def test_equal_configurations_are_scored_once(whole):
    program = layout_programs.random_program(2, configs=4)
    program = dataclasses.replace(
        program, group=np.array([3, 0, 0, 1, 2]), runtimes=np.ones(5)
    )
    model, scorer = whole
    wanted = layout_programs.compute_scores(model, program)[program.group]
    for one in scorer, scoring.LayoutScorer(_Other(model)):
        layout_programs.assert_close(one.score(program), wanted)
    program = dataclasses.replace(program, feats=program.feats * np.inf)
    with pytest.raises(ValueError, match=' random_2 '):
        scorer.score(program)


class _Other(tf.keras.Model):
    """A model that shows only `forward`."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, graph, num_configs):
        return self.model.forward(graph, num_configs)


@pytest.mark.slow
def test_a_model_that_replaces_forward_is_scored_with_it():
    class Negated(models.ResModel):
        def forward(self, *args, **kwargs):
            return -super().forward(*args, **kwargs)

    class Wider(models.ResModel):
        pass

    assert scoring.shows_parts(Wider(4, 10))
    assert not scoring.shows_parts(Negated(4, 10))
    small = {'num_gnns': 1, 'mlp_layers': 1}
    model = Negated(4, 10, **small)
    program = layout_programs.random_program(3, configs=70)
    scores = scoring.LayoutScorer(model).score(program)
    wanted = -layout_programs.compute_scores(model, program, **small)
    layout_programs.assert_close(scores, wanted)
