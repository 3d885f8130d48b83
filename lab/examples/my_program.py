"""A program to measure: tpugraphs lab collect lab/examples/my_program.py:step out

A tf.function with an input signature of fixed sizes.  Of its three results XLA
makes three kernels on a CPU; the first two have much faster tiles than XLA's own.
"""

import tensorflow as tf


@tf.function(
    input_signature=[
        tf.TensorSpec([64, 128, 192]),
        tf.TensorSpec([768, 1024]),
        tf.TensorSpec([1024, 768]),
        tf.TensorSpec([256, 384]),
        tf.TensorSpec([384, 256]),
    ]
)
def step(x, a, b, c, d):
    """A sum over the major axis, a transposed product, and a layer."""
    squares = tf.reduce_sum(x * x, axis=0)
    turned = tf.transpose(a) * b
    layer = tf.nn.relu(tf.matmul(c, d))
    return squares, turned, layer
