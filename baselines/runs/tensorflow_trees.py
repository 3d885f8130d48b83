"""Trees over raw columns as TensorFlow operations, for an exported tile model.

A SavedModel can hold neither a run's computed columns nor LightGBM, but trees over
columns that TensorFlow computes from a kernel's raw arrays.  These columns are

    config_<c>   the configuration's own 24 columns
    share_<c>    the same, over the largest among the kernel's configurations
    most_<c>     that largest one
    mean_<c>     mean over the kernel's nodes of sign(x) log(1 + |x|) of column c
    max_<c>      its maximum
    count_<o>    how many nodes have opcode o; nodes: how many there are
"""

from typing import Any, Callable, List, Mapping

import numpy as np
import tensorflow as tf

from baselines.hlo import schema
from baselines.runs import trees as trees_lib

_OPCODES = 128


def column_names(node_columns: int, config_columns: int) -> List[str]:
    """Returns the names of the columns that `columns` computes.

    Args:
        node_columns: width of node_feat.
        config_columns: width of config_feat.
    """
    of_nodes = range(node_columns)
    published = len(schema.TILE.names)
    further = map(str, range(published, config_columns))
    of_configs = [*schema.TILE.names, *further][:config_columns]
    return [
        *(f'{how}_{c}' for how in ('config', 'share', 'most') for c in of_configs),
        *(f'{how}_{c}' for how in ('mean', 'max') for c in of_nodes),
        *(f'count_{o}' for o in range(_OPCODES)),
        'nodes',
    ]


def columns(inputs: Mapping[str, Any]) -> tf.Tensor:
    """Computes the columns of a kernel's configurations.

    Args:
        inputs: node_feat float32 [n, F], node_opcode int32 [n], config_feat float32
            [c, K].

    Returns:
        float32 [c, columns].
    """
    configs, raw = inputs['config_feat'], inputs['node_feat']
    most = tf.reduce_max(configs, axis=0)
    logs = tf.sign(raw) * tf.math.log1p(tf.abs(raw))
    opcodes = tf.minimum(inputs['node_opcode'], _OPCODES - 1)
    of_kernel = tf.concat(
        [
            most,
            tf.reduce_mean(logs, axis=0),
            tf.reduce_max(logs, axis=0),
            tf.math.bincount(opcodes, minlength=_OPCODES, dtype=tf.float32),
            [tf.cast(tf.shape(raw)[0], tf.float32)],
        ],
        axis=0,
    )
    shares = configs / tf.maximum(most, 1.0)
    repeated = tf.repeat(of_kernel[tf.newaxis], tf.shape(configs)[0], axis=0)
    return tf.concat([configs, shares, repeated], axis=1)


def forest(trees: trees_lib.Trees) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function of TensorFlow that predicts as the trees do.

    It takes float32 [rows, all columns], where the trees' names count columns, and
    returns float32 [rows].
    """
    parts = trees.as_arrays()
    # A tree of one leaf is there already; others begin at their first split.
    starts = np.array([0 if len(one.threshold) else -1 for one in parts], np.int32)
    splits, leaves = (
        np.cumsum([0, *(len(values) for values in arrays)][:-1])
        for arrays in ([p.threshold for p in parts], [p.value for p in parts])
    )
    column, threshold, left, right, value = (
        tf.constant(np.concatenate([getattr(one, name) for one in parts]))
        for name in ('column', 'threshold', 'left', 'right', 'value')
    )
    first_split, first_leaf = (
        tf.constant(splits, tf.int32),
        tf.constant(leaves, tf.int32),
    )

    def step(node: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
        at = tf.maximum(node, 0) + first_split  # of leaves: the first split, unused
        at = tf.minimum(at, len(column) - 1)
        seen = tf.gather(table, tf.gather(column, at), axis=1, batch_dims=1)
        goes_left = tf.cast(seen, tf.float64) <= tf.gather(threshold, at)
        child = tf.where(goes_left, tf.gather(left, at), tf.gather(right, at))
        return tf.where(node < 0, node, child)

    def predict(table: tf.Tensor) -> tf.Tensor:
        node = tf.repeat(starts[np.newaxis], tf.shape(table)[0], axis=0)
        if len(column):
            (node,) = tf.while_loop(
                lambda node: tf.reduce_any(node >= 0),
                lambda node: (step(node, table),),
                (node,),
            )
        # A leaf is written as -1 - its number.
        of_leaves = tf.gather(value, -1 - node + first_leaf)
        return tf.cast(tf.reduce_sum(of_leaves, axis=1), tf.float32)

    return predict
