"""Edges and segments: order, repeats, calls, and what is refused."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from baselines.hlo import graph
from tests.helpers import hlo_modules
from tests.helpers import hlo_rows
from tests.helpers import refusals
from tests.helpers.hlo_modules import computation

_IDS = st.integers(-50, 50).map(lambda number: number << 57)  # over all of int64


def _edges(module):
    return graph.extract_graph(module).edge_index


def test_control_predecessors_and_callee_parameters_are_no_edges():
    call = dict(operand_ids=[3], called_computation_ids=[1])
    module = hlo_modules.module(
        computation(dict(id=1, opcode='parameter'), dict(id=2, operand_ids=[1]), id=1),
        computation(dict(id=3), dict(id=4, control_predecessor_ids=[2], **call), id=2),
    )
    assert _edges(module).tolist() == [[1, 0], [3, 1], [3, 2]]


def test_a_repeated_id_means_its_last_position():
    module = hlo_modules.module(
        computation(dict(id=1), dict(id=1), dict(id=2, operand_ids=[1]))
    )
    assert _edges(module).tolist() == [[2, 1]]


@pytest.mark.parametrize(
    'instruction, word',
    [
        (dict(operand_ids=[5]), 'node 1'),
        (dict(operand_ids=[1, 77]), ' 77 '),
        (dict(called_computation_ids=[3]), ' 44'),
    ],
)
def test_errors_name_computation_and_instruction(instruction, word):
    module = hlo_modules.module(
        computation(dict(id=1), id=1),
        computation(dict(name='bad\n', id=5, **instruction), name='main', id=2),
        computation(id=3, root_id=44),
    )
    place = "computation 'main', instruction 'bad\\n': "
    refusals.assert_refused(lambda: graph.extract_graph(module), place, word)


@given(st.data())
def test_any_valid_module_gives_the_edges_of_the_rules(data):
    some = lambda values: data.draw(st.lists(st.sampled_from(values), max_size=4))
    ids = data.draw(st.lists(_IDS, min_size=2, max_size=12, unique=True))
    computations, used = [], []
    for number, start in enumerate(range(0, len(ids), 3)):
        instructions = []
        for id_ in ids[start : start + 3]:
            uses = dict(operand_ids=some(used) if used else [])
            if number:
                uses['called_computation_ids'] = sorted({*some(range(number))})
            instructions.append(dict(id=id_, **uses))
            used.append(id_)
        computations.append(computation(*instructions, id=number))
    module = hlo_modules.module(*computations)
    found = _edges(module)
    assert found.tolist() == [list(e) for e in hlo_rows.list_edges(module)]


@pytest.mark.parametrize(
    'names, sizes, expected',
    [
        ([], [], [0]),
        (['a', 'second', 'b', 'my_cluster_1'], [1, 2, 3, 4], [0, 3, 10]),
        (['While', 'COND', 'Cluster'], [1, 1, 1], [0, 3]),
        (['cond', 'cond', 'x'], [2, 0, 1], [0, 2, 2, 3]),
    ],
)
def test_segments_end_at_marked_computations(names, sizes, expected):
    splits = graph.find_splits(names, sizes)
    assert splits.dtype == np.int64
    assert splits.tolist() == expected
