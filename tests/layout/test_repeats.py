"""Equal cells of different nodes: found, merged, and scored the same."""

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from baselines import registry
from baselines.layout import graphs
from baselines.layout import models
from baselines.layout import pruned
from baselines.layout import pruning
from baselines.layout import repeats
from tests.helpers import layout_programs

# Two blocks 0 -> 2 and 1 -> 3; 0 and 1 are configurable, all hear themselves.
_ROWS, _COLS = [2, 3, 0, 1, 2, 3], [0, 1, 0, 1, 2, 3]
_CODES = np.array([[5, 5], [5, 6], [6, 5]])


def _cells(values, base=(0, 0, 2, 2)):
    """Merged cells of the two blocks; nodes with equal `base` are alike."""
    matrix = pruning.Entries(
        np.array(_ROWS), np.array(_COLS), np.array(values, np.float32)
    )
    structure = pruning.Structure.build([matrix], [2, 4])
    base = np.array(base, np.float32)[:, None]
    likeness = repeats.Likeness.build([base, base], structure.entries)
    states = structure.states(_CODES)
    assert len(structure.cells(_CODES, states)['layers'][1]['node']) == 8
    return structure.cells(_CODES, states, likeness)


def test_equal_states_of_equal_blocks_are_one_cell():
    cells = _cells([2, 2, 1, 1, 1, 1])
    np.testing.assert_array_equal(cells['codes'], [5, 6])
    layer = cells['layers'][1]
    # Those of nodes 0 (5, 6) and 2 (5, 6) stand for those of 1 and 3.
    np.testing.assert_array_equal(layer['node'], [0, 0, 2, 2])
    np.testing.assert_array_equal(layer['first'], [0, 1])
    np.testing.assert_array_equal(layer['previous'], [0, 1])
    [messages] = layer['messages']
    assert sorted(zip(messages.rows, messages.cols, messages.values)) == [
        (0, 0, 1),
        (1, 1, 1),
        (2, 0, 2),
        (3, 1, 2),
    ]
    pool = cells['pool']
    np.testing.assert_array_equal(pool['cell'], [0, 1, 0, 1, 2, 3, 2, 3])
    assert pool['first_cells'] == 4


@pytest.mark.parametrize(
    'values, base, left',
    [
        ([2, 2, 1, 1, 1, 1], (0, 0, 2, 3), [2, 6]),  # 2 and 3 differ themselves
        ([2, 3, 1, 1, 1, 1], (0, 0, 2, 2), [2, 6]),  # .. or hear with other weight
        ([2, 2, 1, 1, 1, 1], (0, 1, 2, 2), [4, 8]),  # 0 and 1 differ, and so all
        ([2, 2, 1, 4, 1, 1], (0, 0, 2, 2), [2, 6]),  # 1 hears itself differently
        ([2, 2, 1, 1, 1, 1], (2, 2, 2, 2), [2, 4]),  # configurable or not differs
    ],
)
def test_what_differs_stays(values, base, left):
    layers = _cells(values, base)['layers']
    assert [len(layer['node']) for layer in layers] == left


def test_the_same_weight_of_another_matrix_is_another_message():
    """Node 2 hears 0 by the first matrix, node 3 hears 1 by the second."""

    def matrix(rows, cols):
        return pruning.Entries(
            np.array(rows), np.array(cols), np.ones(len(rows), np.float32)
        )

    for second, left in (
        (matrix([3, 0, 1], [1, 0, 1]), 6),
        (matrix([0, 1], [0, 1]), 4),
    ):
        first = matrix([2], [0]) if left == 6 else matrix([2, 3], [0, 1])
        structure = pruning.Structure.build([first, second], [2, 4])
        base = np.zeros((4, 1), np.float32)
        likeness = repeats.Likeness.build([base, base], structure.entries)
        cells = structure.cells(_CODES, structure.states(_CODES), likeness)
        assert len(cells['layers'][1]['node']) == left


def _repeated(seed, blocks, nodes=8, configurable=3, configs=20, vectors=3):
    """A random program `blocks` times, all read by a last node."""
    one = layout_programs.random_program(seed, nodes, configurable, 1, vectors)
    rng = np.random.default_rng(seed)
    size = blocks * nodes
    ends = np.arange(blocks) * nodes
    return graphs.Program(
        graph_id='blocks',
        op=np.append(np.tile(one.op, blocks), 9).astype(np.int32),
        feats=np.concatenate([np.tile(one.feats, (blocks, 1)), one.feats[:1]]),
        edges=np.concatenate(
            [one.edges + end for end in ends]
            + [np.stack([np.full(blocks, size), ends], 1)]
        ).astype(np.int32),
        config_ops=np.concatenate([one.config_ops + end for end in ends]).astype(
            np.int32
        ),
        vectors=one.vectors,
        codes=rng.integers(0, vectors, (configs, blocks * configurable)),
        group=np.arange(configs),
        runtimes=np.ones(configs),
    )


@pytest.mark.parametrize(
    'options, plain',
    [
        ({}, {}),
        (
            {'num_gnns': 3, 'adj_normalization': 'asym', 'hidden_dim': 8},
            {'num_gnns': 3, 'directions': 2},
        ),
        ({'num_gnns': 0}, {'num_gnns': 0}),
    ],
)
def test_merged_scores_are_those_of_the_plain_formula(options, plain):
    model = models.ResModel(4, 10, **options)
    scorer = pruned.PrunedScorer(model, merge=True)
    for program in (
        _repeated(0, 1),
        _repeated(1, 6),
        _repeated(2, 12, configs=100),
        _repeated(3, 4, configurable=8),
        _repeated(4, 5, vectors=1),
        layout_programs.random_program(5),
        _repeated(6, 2, configurable=0),
    ):
        layout_programs.assert_close(
            scorer.score(program), layout_programs.plain_scores(model, program, **plain)
        )


def test_blocks_are_computed_once():
    """16 blocks that hang together by one node: half of the cells or fewer."""
    program = _repeated(1, 16, configs=50)
    plan = pruned.PrunedScorer(models.ResModel(4, 10), merge=True)._plan(program)
    states = plan.structure.states(program.codes)
    whole, merged = (
        plan.structure.cells(program.codes, states, likeness)['layers']
        for likeness in (None, plan.likeness)
    )
    # At most one for each of 3 nodes in 3 layouts.
    assert len(merged[0]['node']) <= 9 < len(whole[0]['node'])
    assert len(merged[1]['node']) < len(whole[1]['node']) / 4


@pytest.fixture(scope='module')
def scorers():
    model = models.ResModel(4, 10)
    return [pruned.PrunedScorer(model, merge=merge) for merge in (False, True)]


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(
    st.integers(0, 10**6),
    st.integers(1, 8),
    st.integers(1, 12),
    st.floats(0, 1),
    st.integers(1, 60),
    st.integers(1, 6),
)
def test_merging_changes_no_score(
    scorers, seed, blocks, nodes, share, configs, vectors
):
    program = _repeated(seed, blocks, nodes, int(share * nodes), configs, vectors)
    plain, merged = (scorer.score(program) for scorer in scorers)
    layout_programs.assert_close(merged, plain)


def test_the_share_of_nodes_that_repeat():
    base = np.array([1, 2, 1, 1, 2], np.float32)[:, None]
    likeness = repeats.Likeness.build([base], [])
    assert likeness.repeated(5) == pytest.approx(3 / 5)
    assert likeness.repeated(2) == 0


@pytest.mark.parametrize(
    'width, blocks, merges', [(32, 4, False), (128, 4, True), (128, 1, False)]
)
def test_wide_models_merge_programs_that_repeat(width, blocks, merges):
    """Of 4 blocks 3 repeat the first."""
    scorer = pruned.PrunedScorer(models.ResModel(4, 10, hidden_dim=width))
    plan = scorer._plan(_repeated(0, blocks))
    assert (plan.likeness is not None) == merges


@pytest.mark.parametrize(
    'name',
    [
        name
        for name, kind in registry.layout_models().items()
        if hasattr(kind, 'variable_sums')
        and not getattr(kind, 'scores_depend_on_list', False)
    ],
)
def test_merging_changes_no_score_of_any_model(name):
    """Models take what they like from nodes, in any layer."""
    model = registry.layout_models()[name](4, 10)
    for program in (_repeated(1, 6), _repeated(2, 12, configs=100)):
        plain, merged = (
            pruned.PrunedScorer(model, merge=merge).score(program)
            for merge in (False, True)
        )
        layout_programs.assert_close(merged, plain)
