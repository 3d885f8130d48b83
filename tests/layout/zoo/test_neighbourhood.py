"""The part of a program that `NeighbourhoodModel` reads, layouts, and options."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from baselines.core import registry
from baselines.hlo import schema
from baselines.layout.zoo import neighbourhood
from tests.helpers import layout_programs


def _chain():
    """Nodes 0 to 5, each reads the one before; number 3 is configurable."""
    edges = np.array([[i + 1, i] for i in range(5)], np.int32)
    made = layout_programs.random_program(0, nodes=6, configurable=1)
    return dataclasses.replace(made, edges=edges, config_ops=np.array([3], np.int32))


def test_programs_are_pruned_to_configurable_nodes_and_neighbours():
    graph, _ = layout_programs.merge([_chain(), _chain()], [0])
    part = neighbourhood.cut_out(graph, tf.constant([3, 9]))
    assert part.nodes.numpy().tolist() == [2, 3, 4, 8, 9, 10]
    assert part.program.numpy().tolist() == [0, 0, 0, 1, 1, 1]
    assert part.sizes.numpy().ravel().tolist() == [3, 3]
    # Renumbered, 1 reads 0 and 2 reads 1.
    edges = np.stack([part.consumer.numpy(), part.producer.numpy()], 1)
    assert np.sort(edges, 0).tolist() == [[1, 0], [2, 1], [4, 3], [5, 4]]


def test_places_beyond_the_rank_hold_no_layout():
    feats = np.zeros([1, len(schema.NODE)], np.float32)
    feats[0, schema.DIMENSIONS] = [7, 5, 0, 0, 0, 0]
    feats[0, schema.MINOR_TO_MAJOR] = [1, 0, 0, 0, 0, 0]
    layouts = neighbourhood.Unscaled(None).read_own_layouts(tf.constant(feats))
    assert layouts.numpy().tolist() == [[1, 0, -1, -1, -1, -1]]


def test_columns_are_unscaled():
    """Column 0 of configurations is kept, 1 is constant, and there is no other."""
    scaling = dict(config_used=[True, False], config_min=[-1, 4], config_max=[3, 4])
    [layouts] = neighbourhood.Unscaled(scaling).layouts(tf.constant([[0.5]])).numpy()
    assert layouts.tolist() == [1, 4, *[-1] * 16]
    values = np.arange(18, dtype=np.float32)[np.newaxis]
    [layouts] = neighbourhood.Unscaled(None).layouts(tf.constant(values)).numpy()
    assert layouts.tolist() == list(range(18))
    places = neighbourhood.encode_places(tf.constant([5.0, 6.0, 127.0, -1.0, 0.25]))
    near = [0.75, 0.25, 0, 0, 0, 0]
    assert places.numpy().tolist() == [[0, 0, 0, 0, 0, 1], *[[0] * 6] * 3, near]


@pytest.mark.parametrize(
    'name, option, value',
    [
        ('GCN', 'num_gnns', 0),
        ('ChebNet', 'order', 0),
        ('TGraph', 'feature_dropout', 1),
        ('GAT', 'heads', 5),
    ],
)
def test_options(name, option, value):
    with pytest.raises(ValueError, match=f'{option} .*{value}'):
        registry.find_models('layout')[name](4, 10, **{option: value})
