"""Imports TensorFlow for the first call that needs it."""

import sys


def start_tensorflow() -> None:
    """Imports TensorFlow, if nobody has yet, and keeps its hints to itself.

    Raises:
        ValueError: it was imported with a Keras that TF-GNN cannot use.
    """
    from baselines import command_line

    if 'tensorflow' not in sys.modules:
        command_line.start_tensorflow()
    import tensorflow as tf

    tf.get_logger().setLevel('ERROR')  # hints to authors, whoever imported it
    if tf.keras.Model.__module__.startswith('keras.src.models'):  # of Keras 3
        raise ValueError(
            'TensorFlow was imported before tpugraphs, with Keras 3, and TF-GNN needs '
            'Keras 2: import tpugraphs first'
        )
