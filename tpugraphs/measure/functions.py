"""Functions of JAX and TensorFlow as programs, with how they are called.

program, signature = trace(jax.jit(f), (x, y))
"""

from typing import Any, Callable, List, Sequence, Tuple

import numpy as np

from tpugraphs.measure import building
from tpugraphs.measure import programs
from tpugraphs.measure import signatures
from tpugraphs.programs import functions
from tpugraphs.programs import reader


def trace(
    function: Callable, args: Sequence[Any]
) -> Tuple[reader.Program, signatures.Signature]:
    """Returns a function as a program.

    Args:
        function: a `jax.jit` function, a `tf.function`, or a Keras model.
        args: positional arguments, arrays nested in tuples, lists and dicts; their
            shapes and types are compiled in.

    Raises:
        ValueError: it cannot be compiled with them, or assigns variables.
    """
    name = getattr(function, '__name__', '') or getattr(function, 'name', 'program')
    leaves: List[Any] = []
    inputs = [signatures.numbered(arg, leaves) for arg in args]
    bound: List[np.ndarray] = []
    if functions.is_jax(function, args):
        import jax

        # Arguments that are not used stay parameters.
        function = jax.jit(function, keep_unused=True)
        program = programs.load(function, *args, name=name)
        results = jax.eval_shape(function, *args)
    else:
        traced = _Traced(function, args, name)
        program = programs.load(traced, *args, name=name)
        results, bound = traced.results, traced.variables()
    made: List[Any] = []
    outputs = signatures.numbered(results, made)
    shapes = program.module.host_program_shape
    taken = len(shapes.parameters) - len(bound)
    if taken != len(leaves):
        raise ValueError(
            f'{name}: {len(leaves)} values are given, and its module takes {taken}: '
            'give arrays in place of numbers'
        )
    is_tuple = shapes.result.element_type == building.TUPLE
    there = len(shapes.result.tuple_shapes) if is_tuple else 1
    if there != len(made):
        raise ValueError(
            f'{name}: {there} arrays come out in place of {len(made)}: a function that '
            'assigns variables cannot be tuned; let it return what changes'
        )
    return program, signatures.Signature(inputs, outputs, bound)


class _Traced:
    """A function of TensorFlow that keeps what it returned when it was traced.

    Attributes:
        results: symbolic tensors, nested as the function nests them.
    """

    def __init__(self, function: Callable, args: Sequence[Any], name: str):
        if hasattr(function, 'call') and hasattr(function, 'inputs'):
            function, _ = functions.of_keras(function, args)
        self._python = getattr(function, 'python_function', function)
        self.__name__ = name
        self.results: Any = None

    def __call__(self, *args: Any) -> Any:
        import tensorflow as tf

        self._graph = tf.compat.v1.get_default_graph()
        self.results = self._python(*args)
        return self.results

    def variables(self) -> List[np.ndarray]:
        """Returns what was captured, variables by their values, in XLA's order."""
        values = {id(v.handle): v for v in self._graph.variables}
        captured = self._graph.external_captures
        return [values.get(id(tensor), tensor).numpy() for tensor in captured]
