"""Programs to collect from where users have none of their own yet.

program = load('convnet_batch_4')

A program is a function of TensorFlow, of `array` and of sizes: `array(*dims)` is one
more of its inputs, float32 or with `integers=True` int32.
"""

from typing import Any, Callable, Dict, Tuple

from tpugraphs.measure import programs as programs_lib
from tpugraphs.measure.builtin import dense
from tpugraphs.measure.builtin import images
from tpugraphs.measure.builtin import numeric
from tpugraphs.programs import reader


def table() -> Dict[str, Tuple[Callable[..., Any], Dict[str, int]]]:
    """Returns name -> (function of a program, its sizes)."""
    return {**images.TABLE, **dense.TABLE, **numeric.TABLE}


def load(name: str) -> reader.Program:
    """Returns the built-in program of a name in the table."""
    import tensorflow as tf

    function, sizes = table()[name]
    signature = []

    def listed(*dims, integers=False):
        signature.append(tf.TensorSpec(dims, tf.int32 if integers else tf.float32))
        return tf.zeros(dims, signature[-1].dtype)

    # What it asks for is known when it has run; then that can be handed in.
    with tf.Graph().as_default():
        function(tf, listed, **sizes)

    @tf.function(input_signature=signature)
    def traced(*arrays):
        given = iter(arrays)
        return function(tf, lambda *dims, integers=False: next(given), **sizes)

    return programs_lib.load(traced, name=name)
