"""Traces functions, and maps their arguments and results to arrays of their modules.

    program, signature = trace(jax.jit(f), (x, y))

A tree describes nested arguments as JSON: tuples, lists, dicts and None, with numbers
instead of the arrays, the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import dataclasses
from typing import Any

import numpy as np

from baselines.core import text
from tpugraphs.kernels import building
from tpugraphs.kernels import preparation
from tpugraphs.programs import extras
from tpugraphs.programs import functions
from tpugraphs.programs import reader

# A number, None, or an object as the module's docstring describes it.
Tree = Any


@dataclasses.dataclass(frozen=True, eq=False)
class Signature:
    """The arguments and results of the function that a module was traced from.

    Attributes:
        inputs: tree of the positional arguments; None for flat arrays.
        outputs: tree of the result; None for a tuple of all arrays.
        bound: values of the module's last parameters, which are no arguments, such as
            variables of TensorFlow.
    """

    inputs: list[Tree] | None = None
    outputs: Tree = None
    bound: Sequence[np.ndarray] = ()

    def flat(self, args: Sequence[object]) -> list[object]:
        """Returns the module's arrays: the leaves of arguments, and `bound`.

        Raises:
            ValueError: the arguments are nested in another way than `inputs`.
        """
        leaves = list(args)
        if self.inputs is not None:
            leaves = []
            _add_leaves(self.inputs, list(args), 'the arguments', leaves)
        return [*leaves, *self.bound]

    def nested(self, results: Sequence[object]) -> object:
        """Returns flat results nested as the function's result."""
        if self.outputs is None:
            return tuple(results)
        return _fill(self.outputs, results)


@extras.naming_the_command()
def trace(
    function: Callable, args: Sequence[object]
) -> tuple[reader.Program, Signature]:
    """Traces a function; returns the program and the function's signature.

    Args:
        function: a `jax.jit` function, a `tf.function`, or a Keras model.
        args: positional arguments, arrays nested in tuples, lists and dicts; their
            shapes and types are compiled in.

    Raises:
        ValueError: it cannot be compiled with them, or assigns variables; a package is
            missing.
    """
    name = getattr(function, '__name__', '') or getattr(function, 'name', 'program')
    leaves: list[object] = []
    inputs = [numbered(arg, leaves) for arg in args]
    traced = functions.trace(function, args or None, name, keep_unused=True)
    program = preparation.prepare(
        reader.Program(reader.clean_name(name), traced.module, reader.FUNCTION, name)
    )
    bound = _captured(traced.graph)
    arrays: list[object] = []
    outputs = numbered(traced.results, arrays)
    shapes = program.module.host_program_shape
    # Captured variables are parameters, too, and come last.
    parameters = len(shapes.parameters) - len(bound)
    if parameters != len(leaves):
        raise ValueError(
            f'{name}: {text.count(len(leaves), "value")} given, and its module takes '
            f'{parameters}: give arrays instead of numbers'
        )
    # A single result is not wrapped.
    is_tuple = shapes.result.element_type == building.TUPLE
    count = len(shapes.result.tuple_shapes) if is_tuple else 1
    if count != len(arrays):
        raise ValueError(
            f'{name}: {text.count(count, "array")} returned instead of '
            f'{len(arrays)}: a function that assigns variables cannot be tuned; let it '
            'return the new values'
        )
    return program, Signature(inputs, outputs, bound)


def _captured(graph: Any) -> list[np.ndarray]:
    """Returns the arrays that a function captured, in the order of XLA's parameters."""
    if graph is None:
        return []
    variables = {id(variable.handle): variable for variable in graph.variables}
    captured = graph.external_captures
    return [variables.get(id(tensor), tensor).numpy() for tensor in captured]


def numbered(tree: Tree, leaves: list[object]) -> Tree:
    """Describes nested arrays by a tree, whose leaves are their numbers in `leaves`.

    Args:
        leaves: the arrays before these; these are added.
    """
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


def _add_leaves(tree: Tree, value: object, where: str, leaves: list[object]) -> None:
    """Adds the leaves of a value, which must be nested as the tree is, to `leaves`."""
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
        raise ValueError(f'{where}: {text.count(len(parts), "value")} wanted')
    for place, part in enumerate(parts):
        _add_leaves(part, value[place], f'{where}[{place}]', leaves)


def _fill(tree: Tree, leaves: Sequence[object]) -> object:
    """Returns a tree with its leaves in the places of their numbers."""
    if tree is None or isinstance(tree, int):
        return None if tree is None else leaves[tree]
    [(kind, parts)] = tree.items()
    if kind == 'dict':
        return {key: _fill(part, leaves) for key, part in parts}
    filled = [_fill(part, leaves) for part in parts]
    return tuple(filled) if kind == 'tuple' else filled


def check(tree: Tree, count: int) -> None:
    """Raises ValueError unless a tree has the leaves 0 to `count` - 1, in order."""
    leaves: list[object] = []
    try:
        same = numbered(_fill(tree, range(count)), leaves) == tree
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        same = False
    if not same or len(leaves) != count:
        raise ValueError(f'no tree of {text.count(count, "array")}')
