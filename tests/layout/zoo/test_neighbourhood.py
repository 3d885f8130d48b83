"""The part of a program that `NeighbourhoodModel` reads, and layouts by number."""

import dataclasses

import numpy as np
import tensorflow as tf

from baselines.hlo import schema
from baselines.layout import graphs
from baselines.layout.zoo import arrays
from baselines.layout.zoo import neighbourhood
from baselines.layout.zoo import tgraph
from tests.helpers import layout_programs


def _graph(*programs):
    packed = graphs.LayoutGraphs(programs).items(
        np.arange(len(programs))[np.newaxis], np.zeros([1, len(programs), 1], np.int64)
    )
    tensors = {key: tf.convert_to_tensor(x) for key, x in packed.items()}
    return graphs.unpack(tensors, 0, len(programs))[0]


def _chain():
    """Nodes 0 to 5, each reads the one before; number 3 is configurable."""
    edges = np.array([[i + 1, i] for i in range(5)], np.int32)
    made = layout_programs.random_program(0, nodes=6, configurable=1)
    return dataclasses.replace(made, edges=edges, config_ops=np.array([3], np.int32))


def test_programs_are_pruned_to_configurable_nodes_and_neighbours():
    part = neighbourhood.cut_out(_graph(_chain(), _chain()), tf.constant([3, 9]))
    assert part.nodes.numpy().tolist() == [2, 3, 4, 8, 9, 10]
    assert part.program.numpy().tolist() == [0, 0, 0, 1, 1, 1]
    assert part.sizes.numpy().ravel().tolist() == [3, 3]
    # Numbered anew, 1 reads 0 and 2 reads 1.
    edges = np.stack([part.consumer.numpy(), part.producer.numpy()], 1)
    assert np.sort(edges, 0).tolist() == [[1, 0], [2, 1], [4, 3], [5, 4]]


def test_means_over_repeated_edges():
    matrix = tgraph._mean_over(tf.constant([0, 0, 0]), tf.constant([1, 1, 2]), 3)
    x = tf.constant([[[0.0]], [[3.0]], [[6.0]]])
    assert neighbourhood.propagate(matrix, x).numpy().ravel().tolist() == [4, 0, 0]


def test_places_beyond_the_rank_hold_no_layout():
    feats = np.zeros([1, len(schema.NODE)], np.float32)
    feats[0, schema.DIMENSIONS] = [7, 5, 0, 0, 0, 0]
    feats[0, schema.MINOR_TO_MAJOR] = [1, 0, 0, 0, 0, 0]
    found = arrays.Unscaled(None).own_layout(tf.constant(feats))
    assert found.numpy().tolist() == [[1, 0, -1, -1, -1, -1]]


def test_all_of_a_configuration_is_read():
    values = np.arange(18, dtype=np.float32)[np.newaxis]
    found = arrays.Unscaled(None).layouts(tf.constant(values))
    assert found.numpy().ravel().tolist() == list(range(18))
    fastest = arrays.Unscaled(None).fastest(tf.constant(values))
    assert fastest.numpy().tolist() == [[[0, 1], [6, 7], [12, 13]]]
