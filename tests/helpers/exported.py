"""What an exported model takes of a graph, and its scores."""

import numpy as np
import tensorflow as tf


def make_inputs(record):
    """Returns the arrays of a graph that the signature takes, {name: array}."""
    names = ['node_feat', 'node_opcode', 'edge_index', 'config_feat']
    if not hasattr(record, 'config_feat'):
        names[3:] = ['node_config_ids', 'node_config_feat']
    kinds = {True: np.float32, False: np.int32}
    return {n: getattr(record, n).astype(kinds[n[-5:] == '_feat']) for n in names}


def load_function(folder):
    """Returns the function of an exported model: arrays by name -> float32 [n]."""
    score = tf.saved_model.load(str(folder)).signatures['serving_default']

    def scores(**arrays):
        tensors = {name: tf.constant(array) for name, array in arrays.items()}
        return score(**tensors)['scores']

    return scores
