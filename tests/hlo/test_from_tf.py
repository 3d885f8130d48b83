"""HLO of many kinds, made with TensorFlow: rows, edges and segments."""

import numpy as np
import pytest
import tensorflow as tf

from baselines.hlo import graph
from baselines.hlo import schema
from baselines.hlo import tensorflow_functions
from tests.helpers import hlo_rows


def _convolution_gradient():
    def gradient(x, w):
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = tf.nn.conv2d(x, w, strides=2, padding='VALID')
        return tape.gradient(y, w)

    return gradient, tf.zeros([2, 9, 9, 3]), tf.zeros([3, 3, 3, 8])


def _lstm():
    lstm = tf.keras.layers.LSTM(4)
    return lstm, tf.zeros([2, 3, 5])


def _slices():
    return (lambda x: tf.pad(x[1:7:2, :3], [[1, 0], [2, 3]]), tf.zeros([9, 9]))


# Function and arguments, opcodes that its HLO must have.
_KINDS = {
    'convolution gradient': (_convolution_gradient, ['convolution']),
    'lstm': (_lstm, ['while', 'dot', 'logistic', 'dynamic-slice']),
    'rank 8': (
        lambda: (
            lambda x: tf.transpose(x, range(7, -1, -1)),
            tf.zeros([1, 2, 3, 1, 2, 1, 5, 2]),
        ),
        ['transpose'],
    ),
    'slices': (_slices, ['slice', 'pad']),
}


def _check(module, found):
    np.testing.assert_array_equal(found.node_feat, hlo_rows.rows(module))
    assert found.edge_index.tolist() == [list(edge) for edge in hlo_rows.edges(module)]
    sizes = [len(c.instructions) for c in module.computations]
    assert found.node_feat[:, 0].sum() == len(sizes)
    assert found.node_splits[-1] == sum(sizes) == len(found.node_opcode)


@pytest.mark.slow
@pytest.mark.parametrize('kind', _KINDS)
def test_every_kind_gives_the_rows_of_the_rules(kind):
    make, expected = _KINDS[kind]
    fn, *args = make()
    module = tensorflow_functions.module_from_tf(fn, *args)
    found = graph.extract_graph(module)
    _check(module, found)
    names = {schema.OPCODES[n - 1] for n in found.node_opcode.tolist() if n}
    assert names >= set(expected)


@pytest.mark.slow
def test_the_optimized_stage_has_fusions_and_layouts():
    fn, *args = _lstm()
    module = tensorflow_functions.module_from_tf(fn, *args, stage='optimized_hlo')
    found = graph.extract_graph(module)
    _check(module, found)
    assert found.node_feat[:, -6:].any()
    assert schema.OPCODE_NUMBERS['fusion'] in found.node_opcode


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
