"""Maps the arguments and results of a function to the flat arrays of its module.

A tree describes nested arguments as JSON: tuples, lists, dicts and None, with numbers
in place of the arrays, the leaves.
"""

import dataclasses
from typing import Any, List, Mapping, Optional, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Signature:
    """The arguments and results of the function that a module was traced from.

    Attributes:
        inputs: tree of the positional arguments; None for flat arrays.
        outputs: tree of the result; None for a tuple of all arrays.
        bound: values of the module's last parameters, which are no arguments, such as
            variables of TensorFlow.
    """

    inputs: Optional[List[Any]] = None
    outputs: Any = None
    bound: Sequence[np.ndarray] = ()

    def flat(self, args: Sequence[Any]) -> List[Any]:
        """Returns the module's arrays: the leaves of arguments, and the bound ones.

        Raises:
            ValueError: the arguments are nested in another way than `inputs`.
        """
        leaves = list(args)
        if self.inputs is not None:
            leaves = []
            _add_leaves(self.inputs, list(args), 'the arguments', leaves)
        return [*leaves, *self.bound]

    def nested(self, results: Sequence[Any]) -> Any:
        """Returns flat results nested as the function's result."""
        if self.outputs is None:
            return tuple(results)
        return _fill(self.outputs, results)


def numbered(tree: Any, leaves: List[Any]) -> Any:
    """Returns the tree of nested arrays; adds the arrays to `leaves`."""
    if tree is None:
        return None
    if isinstance(tree, (tuple, list)):
        kind = 'tuple' if isinstance(tree, tuple) else 'list'
        return {kind: [numbered(part, leaves) for part in tree]}
    if isinstance(tree, Mapping):
        # JAX and TensorFlow order dicts by their keys.
        return {'dict': [[key, numbered(tree[key], leaves)] for key in sorted(tree)]}
    leaves.append(tree)
    return len(leaves) - 1


def _add_leaves(tree: Any, value: Any, where: str, leaves: List[Any]) -> None:
    """Adds the leaves of a value to `leaves`; it must be nested as the tree is."""
    if isinstance(tree, int):
        leaves.append(value)
        return
    if tree is None:
        if value is not None:
            raise ValueError(f'{where}: None is wanted')
        return
    if isinstance(tree, list):
        tree = {'list': tree}
    [(kind, parts)] = tree.items()
    if kind == 'dict':
        keys = [key for key, _ in parts]
        if not isinstance(value, Mapping) or sorted(value) != keys:
            raise ValueError(
                f'{where}: a dict of {", ".join(map(str, keys))} is wanted'
            )
        for key, part in parts:
            _add_leaves(part, value[key], f'{where}[{key!r}]', leaves)
        return
    if not isinstance(value, (tuple, list)) or len(value) != len(parts):
        raise ValueError(f'{where}: {len(parts)} values are wanted')
    for place, part in enumerate(parts):
        _add_leaves(part, value[place], f'{where}[{place}]', leaves)


def _fill(tree: Any, leaves: Sequence[Any]) -> Any:
    """Returns the nested arrays of a tree and its leaves."""
    if tree is None or isinstance(tree, int):
        return None if tree is None else leaves[tree]
    [(kind, parts)] = tree.items()
    if kind == 'dict':
        return {key: _fill(part, leaves) for key, part in parts}
    filled = [_fill(part, leaves) for part in parts]
    return tuple(filled) if kind == 'tuple' else filled


def check(tree: Any, count: int) -> None:
    """Raises ValueError unless a tree has the leaves 0 to `count` - 1, in order."""
    leaves: List[Any] = []
    try:
        same = numbered(_fill(tree, range(count)), leaves) == tree
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        same = False
    if not same or len(leaves) != count:
        raise ValueError(f'no tree of {count} arrays')
