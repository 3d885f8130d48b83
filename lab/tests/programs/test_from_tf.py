"""Functions of TensorFlow as HLO."""

import numpy as np
import pytest
import tensorflow as tf

from baselines.hlo import graph
from baselines.hlo import schema
from tpugraphs_lab.programs import tensorflow_functions


def test_arguments_by_name_and_arrays():
    @tf.function
    def power(x, times=1):
        for _ in range(times):
            x = tf.sin(x)
        return x

    arguments = np.zeros([3], np.float32)
    module = tensorflow_functions.module_from_tf(power, arguments, times=3)
    found = graph.extract_graph(module)
    assert (found.node_opcode == schema.OPCODE_NUMBERS['sine']).sum() == 3


@pytest.mark.parametrize(
    'fn, args, stage, message',
    [
        (lambda x: x, [1.0], 'hlo_text', "stage is 'hlo_text'; there are hlo and "),
        (lambda x: tf.strings.length(x), ['a'], 'hlo', 'XLA cannot compile'),
        (lambda x: x + 'a', [1.0], 'hlo', 'XLA cannot compile'),
        (3, [], 'hlo', "the function: TypeError: 'int' object is not callable"),
    ],
)
def test_what_cannot_be_compiled(fn, args, stage, message):
    with pytest.raises(ValueError, match=message) as caught:
        arguments = [tf.constant(value) for value in args]
        tensorflow_functions.module_from_tf(fn, *arguments, stage=stage)
    assert '\n' not in str(caught.value)
