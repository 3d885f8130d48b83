"""Distinct states of nodes: who depends on whom, and equal scores."""

import dataclasses

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf

from baselines.layout import graphs
from baselines.layout import models
from baselines.layout import pruning
from baselines.layout import scoring
from tests.helpers import layout_programs
from tests.helpers import places


def _matrix(rows, cols):
    values = np.arange(1, len(rows) + 1, dtype=np.float32)
    return pruning.Entries(np.array(rows), np.array(cols), values)


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
    last = structure.states(codes)[2]
    joint = structure.group[2][2]
    np.testing.assert_array_equal(last.counts, [3, 2, 4])
    np.testing.assert_array_equal(last.of_config[joint], [0, 1, 2, 3, 0, 1, 2, 3, 0])
    for state, example in enumerate(last.example[last.start[joint] :]):
        assert last.of_config[joint][example] == state


def test_states_do_not_depend_on_how_large_codes_are():
    structure = pruning.Structure.build([_PATH], [2, 4, 4])
    codes = np.array([[5, 7], [5, 9], [6, 7], [8, 9]] * 2 + [[5, 7]])
    small, large = structure.states(codes), structure.states(1000 * codes)
    for one, other in zip(small, large):
        np.testing.assert_array_equal(one.of_config, other.of_config)
        np.testing.assert_array_equal(one.start, other.start)


def test_nodes_with_too_many_states_get_one_for_each_configuration():
    structure = pruning.Structure.build([_PATH], [2, 4, 4])
    codes = np.array([[0, 0], [1, 1], [0, 1], [1, 1]])
    last = structure.states(codes)[2]
    np.testing.assert_array_equal(last.counts, [2, 2, 4])
    np.testing.assert_array_equal(last.of_config[2], [0, 1, 2, 3])


def test_cells_exchange_messages_in_their_states():
    structure = pruning.Structure.build([_PATH], [2, 4])
    codes = np.array([[3, 4], [3, 5], [3, 6]])
    states = structure.states(codes)
    assert structure.num_cells(states) == (8, 8)
    cells = structure.cells(codes, states)
    # Layer 0: node 0 with code 3; node 1 with 4, 5, 6.
    np.testing.assert_array_equal(cells['codes'], [3, 4, 5, 6])
    layer = cells['layers'][1]
    np.testing.assert_array_equal(layer['node'], [0, 1, 1, 1, 2, 3, 3, 3])
    np.testing.assert_array_equal(layer['first'], [0, 1, 2, 3])
    [messages] = layer['messages']
    passed = sorted(zip(messages.rows, messages.cols, messages.values))
    assert passed == [
        (0, 0, 7),
        (1, 1, 8),
        (2, 2, 8),
        (3, 3, 8),  # self loops of 0 and 1
        (4, 0, 2),  # 2 hears 0, which has one state
        (5, 1, 5),
        (6, 2, 5),
        (7, 3, 5),  # 3 hears 1 in the same state
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    'options, plain',
    [
        ({'num_gnns': 1, 'mlp_layers': 1}, {'num_gnns': 1, 'mlp_layers': 1}),
        (
            {'num_gnns': 3, 'adj_normalization': 'asym', 'hidden_dim': 8},
            {'num_gnns': 3, 'directions': 2},
        ),
        ({'num_gnns': 0, 'mlp_layers': 3}, {'num_gnns': 0, 'mlp_layers': 3}),
    ],
)
def test_scores_are_those_of_the_plain_formula(options, plain):
    model = models.ResModel(4, 10, **options)
    scorer = scoring.LayoutScorer(model)
    for seed, shape in enumerate(
        [
            {},
            {'configurable': 1},
            {'configs': 1},
            {'vectors': 1},
            {'configurable': 40, 'configs': 100},
            {'edges': 0},
            {'nodes': 1, 'configurable': 1},
            {'edges': 400, 'vectors': 30},
            {'nodes': 300, 'edges': 300, 'configurable': 20},
        ]
    ):
        program = layout_programs.random_program(seed, **shape)
        scores = scorer.score(program)
        wanted = layout_programs.plain_scores(model, program, **plain)
        layout_programs.assert_close(scores, wanted)


@pytest.fixture(scope='module')
def whole():
    """A model and its scorer, which is compiled once for all programs."""
    model = models.ResModel(4, 10)
    return model, scoring.LayoutScorer(model)


@pytest.mark.slow
def test_program_without_configurable_nodes_scores_the_same_everywhere(whole):
    program = layout_programs.random_program(0, configurable=0)
    model, scorer = whole
    scores = scorer.score(program)
    assert scores.shape == (30,)
    layout_programs.assert_close(scores, layout_programs.plain_scores(model, program))


@pytest.mark.slow
@hypothesis.settings(max_examples=30)
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
    wanted = layout_programs.plain_scores(model, program)
    layout_programs.assert_close(scores, wanted)


@pytest.mark.slow
def test_scores_do_not_depend_on_the_memory_budget(whole):
    program = layout_programs.random_program(1, nodes=200, configs=100)
    model, scorer = whole
    wanted = scorer.score(program)
    pieces = scoring.LayoutScorer(model, memory_budget=200_000).score(program)
    single = scoring.LayoutScorer(model, memory_budget=1).score(program)
    layout_programs.assert_close(pieces, wanted)
    layout_programs.assert_close(single, wanted)


@pytest.mark.slow
def test_equal_configurations_are_scored_once(whole):
    program = layout_programs.random_program(2, configs=4)
    program = dataclasses.replace(
        program, group=np.array([3, 0, 0, 1, 2]), runtimes=np.ones(5)
    )
    model, scorer = whole
    for each in scorer, scoring.LayoutScorer(_Other(model)):
        scores = each.score(program)
        wanted = layout_programs.plain_scores(model, program)[program.group]
        layout_programs.assert_close(scores, wanted)


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
    wanted = -layout_programs.plain_scores(model, program, **small)
    layout_programs.assert_close(scores, wanted)


@pytest.mark.slow
def test_scores_that_are_not_finite_are_an_error(whole):
    program = layout_programs.random_program(4)
    program = dataclasses.replace(program, feats=program.feats * np.inf)
    with pytest.raises(ValueError, match='gives random_4 a score that is not'):
        whole[1].score(program)


_REAL = places.SHARED / 'npz/layout/xla/random/test/main_10904.npz'


@pytest.mark.slow
@pytest.mark.skipif(not _REAL.exists(), reason=f'{_REAL} is missing')
def test_real_program_scores_as_by_the_plain_formula():
    arrays = np.load(_REAL)
    vectors, codes = layout_programs.encode_configs(arrays['node_config_feat'])
    low, high = arrays['node_feat'].min(0), arrays['node_feat'].max(0)
    feats = (arrays['node_feat'] - low) / np.where(high > low, high - low, 1)
    program = graphs.Program(
        graph_id='main_10904',
        op=arrays['node_opcode'].astype(np.int32),
        feats=feats.astype(np.float32),
        edges=arrays['edge_index'].astype(np.int32),
        config_ops=arrays['node_config_ids'].astype(np.int32),
        vectors=(vectors + 1) / np.float32(6),
        codes=codes[:8],
        group=np.arange(8),
        runtimes=arrays['config_runtime'][:8],
    )
    model = models.ResModel(8, 120)
    scores = scoring.LayoutScorer(model).score(program)
    wanted = layout_programs.plain_scores(model, program)
    layout_programs.assert_close(scores, wanted)
