"""Splits of several collections as one."""

import numpy as np
import pytest

from baselines.data.layout import joint
from baselines.data.layout import store as layout_store
from baselines.data.packed import splits
from baselines.features import normalizer as normalizer_lib
from baselines.layout import layout_table
from tests.helpers import layout_files
from tests.helpers import refusals

_XLA, _NLP = 'layout:xla:random', 'layout:nlp:random'
_RNG = np.random.default_rng(0)
_PROGRAMS = {
    _XLA: [
        layout_files.make_record(_RNG, name, nodes=nodes, configs=configs)
        for name, nodes, configs in [('a', 5, 10), ('b', 6, 11), ('c', 7, 12)]
    ],
    _NLP: [layout_files.make_record(_RNG, 'a', nodes=8, configs=13)],
}
_PARTS = {
    name: layout_store.LayoutStore.from_records(name, programs)
    for name, programs in _PROGRAMS.items()
}


@pytest.fixture(name='store', scope='module')
def _store():
    return joint.JointStore(_PARTS, [_XLA, _NLP])


def test_collections_take_turns(store):
    assert store.graph_ids == ['a', 'a', 'b', 'c']
    assert store.collection_of.tolist() == [0, 1, 0, 0]
    assert store.node_offsets.tolist() == [0, 5, 13, 19, 26]
    assert store.config_counts.tolist() == [10, 13, 11, 12]
    assert store.source == f'{_XLA}, {_NLP}'
    below = store.with_opcodes_below(1)
    assert all(not below.part('node_opcode', graph).any() for graph in range(4))


def test_flags_are_the_last_columns_of_all_nodes(store):
    assert store.flags == ['is_xla_random', 'is_nlp_random']
    for graph, flags in enumerate([(1, 0), (0, 1), (1, 0), (1, 0)]):
        features = store.part('node_feat', graph)
        assert features.shape[1] == 140 + 2
        np.testing.assert_array_equal(features[:, 140:], [flags] * len(features))
    assert (
        store.node_min[1, 140:].tolist() == store.node_max[1, 140:].tolist() == [0, 1]
    )
    # What a training scales: from 0 to 1, so both are kept as they are.
    fitted = normalizer_lib.Normalizer.fit(store)
    scaled = fitted.nodes(store.part('node_feat', 1))
    assert scaled[:, -2:].tolist() == [[0, 1]] * 8
    # The data have the published columns all the same.
    assert splits.Variant.from_store(store) == splits.Variant.from_store(_PARTS[_XLA])


def test_programs_are_those_of_the_parts(store):
    columns = ('config_runtime', 'config_group', 'node_config_ids', 'edge_index')
    places = [(_XLA, 0), (_NLP, 0), (_XLA, 1), (_XLA, 2)]
    for graph, (name, number) in enumerate(places):
        part = _PARTS[name]
        for column in columns:
            np.testing.assert_array_equal(
                store.part(column, graph), part.part(column, number)
            )
        np.testing.assert_array_equal(
            store.group_codes(graph), part.group_codes(number)
        )
        np.testing.assert_array_equal(store.vectors(graph), part.vectors(number))
    with pytest.raises(IndexError):
        store.part('config_runtime', 4)


def test_trees_see_the_flags_last(store):
    table = layout_table.LayoutTable(store)
    assert table.names == [*layout_table.NAMES, 'is_xla_random', 'is_nlp_random']
    rows = table.rows(np.array([0, 1]), np.array([0, 12]))
    assert rows[:, -2:].tolist() == [[1, 0], [0, 1]]
    alone = layout_table.LayoutTable(_PARTS[_NLP])
    assert alone.names == [*layout_table.NAMES]
    expected = alone.rows(np.array([0]), np.array([12]))[0]
    np.testing.assert_array_equal(rows[1, :-2], expected)


def test_parts_of_other_columns():
    wide = layout_files.make_record(_RNG, node_features=141)
    other = layout_store.LayoutStore.from_records('wide', [wide])
    parts = {_XLA: _PARTS[_XLA], _NLP: other}
    join = lambda: joint.JointStore(parts, [_XLA, _NLP])
    refusals.assert_refused(join, 'wide: ', '141', '140', _XLA)
