"""Functions of JAX and TensorFlow, with how they are called."""

import numpy as np
import pytest

from tpugraphs.measure import executable
from tpugraphs.measure import functions

pytest.importorskip('jaxlib', reason='jaxlib is not installed (the extra [measure])')


@pytest.mark.slow  # imports JAX through TensorFlow's compiler
def test_a_tensorflow_function_with_variables():
    import tensorflow as tf

    first, second = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 5.0])

    @tf.function
    def function(x, pair):
        return {'b': x - second, 'a': (pair['y'] * first, x)}

    x, y = np.array([1, 1], np.float32), np.array([7, 7], np.float32)
    program, signature = functions.trace(function, [x, {'y': y}])
    found = executable.Executable(program.module, signature)(x, {'y': y})
    assert found['b'].tolist() == [-2, -4]
    assert [part.tolist() for part in found['a']] == [[7, 14], [1, 1]]

    @tf.function
    def assigns(x):
        first.assign_add(x)
        return x

    with pytest.raises(ValueError, match='2 arrays come out in place of 1'):
        functions.trace(assigns, [x])
    with pytest.raises(ValueError, match='2 values are given, and its module takes 1'):
        functions.trace(lambda x, n: x + first * n, [x, 2.0])

    model = tf.keras.Sequential([tf.keras.layers.Dropout(0.9, input_shape=(2,))])
    model.add(tf.keras.layers.Dense(1))
    x = np.array([[1, 2]], np.float32)
    program, signature = functions.trace(model, [x])
    found = executable.Executable(program.module, signature)(x)
    np.testing.assert_allclose(found, model.predict(x, verbose=0), rtol=1e-6)


@pytest.mark.slow  # imports JAX
def test_a_jax_function_with_an_argument_that_it_does_not_use():
    jax = pytest.importorskip('jax')

    @jax.jit
    def function(unused, pair):
        return [pair['x'] + pair['y'], {'twice': pair['x'] * 2}]

    x, y = np.array([1, 2], np.float32), np.array([3, 5], np.float32)
    args = (np.zeros(9, np.float32), {'x': x, 'y': y})
    program, signature = functions.trace(function, args)
    found = executable.Executable(program.module, signature)(*args)
    assert found[0].tolist() == [4, 7] and found[1]['twice'].tolist() == [2, 4]
