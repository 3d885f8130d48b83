"""Trees of arguments and results."""

import numpy as np
import pytest

from tpugraphs.measure import signatures


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
        ([], 'the arguments: 1 values are wanted'),
        ([[1]], r'the arguments\[0\]: a dict of a, b is wanted'),
        ([{'a': 1, 'b': 2}], r"the arguments\[0\]\['b'\]: 2 values are wanted"),
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
def test_trees_of_strangers(tree):
    signatures.check({'list': [0, {'dict': [['a', 1]]}]}, 2)
    with pytest.raises(ValueError, match='tree of'):
        signatures.check(tree, 2)
