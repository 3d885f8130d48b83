"""Functions of JAX and TensorFlow: trees of their arguments and results."""

import numpy as np
import pytest

from tpugraphs.tuning import executable
from tpugraphs.tuning import signatures

_NO_JAXLIB = 'jaxlib is not installed (the extra [measure])'


def test_arguments_become_flat_and_results_nested():
    leaves = []
    tree = signatures.numbered({'b': (1.0, None), 'a': [2.0]}, leaves)
    # Keys in their order, as JAX and TensorFlow flatten.
    assert leaves == [2.0, 1.0]
    signature = signatures.Signature([tree, 2], tree, [np.zeros(3)])
    x, y, z = map(np.asarray, (1, 2, 3))
    flat = signature.flat([{'a': [y], 'b': (x, None)}, z])
    assert flat[:3] == [y, x, z] and flat[3].shape == (3,)
    assert signature.nested(['p', 'q']) == {'a': ['p'], 'b': ('q', None)}


def test_without_trees_all_is_flat():
    signature = signatures.Signature()
    assert signature.flat([1, 2]) == [1, 2] and signature.nested([3]) == (3,)


@pytest.mark.parametrize(
    'args, message',
    [
        ([], 'the arguments: 1 value wanted'),
        ([[1]], r'the arguments\[0\]: a dict of a, b is wanted'),
        ([{'a': 1, 'b': 2}], r"the arguments\[0\]\['b'\]: 2 values wanted"),
        ([{'a': 1, 'b': (1, 2)}], r"the arguments\[0\]\['b'\]\[1\]: None is wanted"),
    ],
)
def test_arguments_nested_in_another_way(args, message):
    tree = signatures.numbered([{'a': 0, 'b': (0, None)}], [])['list']
    with pytest.raises(ValueError, match=message):
        signatures.Signature(tree).flat(args)


@pytest.mark.parametrize(
    'tree', [{'list': [1, 0]}, {'list': [0]}, {'set': [0, 1]}, [0, 1], 'x', {}]
)
def test_untrusted_trees(tree):
    signatures.check({'list': [0, {'dict': [['a', 1]]}]}, 2)
    with pytest.raises(ValueError, match='tree of'):
        signatures.check(tree, 2)


@pytest.mark.slow  # imports JAX through TensorFlow's compiler
def test_a_tensorflow_function_with_variables():
    pytest.importorskip('jaxlib', reason=_NO_JAXLIB)
    import tensorflow as tf

    first, second = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 5.0])

    @tf.function
    def function(x, pair):
        return {'b': x - second, 'a': (pair['y'] * first, x)}

    x, y = np.array([1, 1], np.float32), np.array([7, 7], np.float32)
    program, signature = signatures.trace(function, [x, {'y': y}])
    result = executable.Executable(program.module, signature)(x, {'y': y})
    assert result['b'].tolist() == [-2, -4]
    assert [part.tolist() for part in result['a']] == [[7, 14], [1, 1]]

    @tf.function
    def assigns(x):
        first.assign_add(x)
        return x

    with pytest.raises(ValueError, match='2 arrays returned instead of 1'):
        signatures.trace(assigns, [x])
    with pytest.raises(ValueError, match='2 values given, and its module takes 1'):
        signatures.trace(lambda x, n: x + first * n, [x, 2.0])

    model = tf.keras.Sequential([tf.keras.layers.Dropout(0.9, input_shape=(2,))])
    model.add(tf.keras.layers.Dense(1))
    x = np.array([[1, 2]], np.float32)
    program, signature = signatures.trace(model, [x])
    result = executable.Executable(program.module, signature)(x)
    np.testing.assert_allclose(result, model.predict(x, verbose=0), rtol=1e-6)


@pytest.mark.slow  # imports JAX
def test_a_jax_function_with_an_argument_that_it_does_not_use():
    jax = pytest.importorskip('jax')

    @jax.jit
    def function(unused, pair):
        return [pair['x'] + pair['y'], {'twice': pair['x'] * 2}]

    x, y = np.array([1, 2], np.float32), np.array([3, 5], np.float32)
    args = (np.zeros(9, np.float32), {'x': x, 'y': y})
    program, signature = signatures.trace(function, args)
    result = executable.Executable(program.module, signature)(*args)
    assert result[0].tolist() == [4, 7] and result[1]['twice'].tolist() == [2, 4]
