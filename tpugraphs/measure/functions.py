"""Traces functions of JAX and TensorFlow to programs with their signatures.

program, signature = trace(jax.jit(f), (x, y))
"""

from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from tpugraphs.measure import building
from tpugraphs.measure import programs
from tpugraphs.measure import signatures
from tpugraphs.programs import extras
from tpugraphs.programs import functions
from tpugraphs.programs import reader


@extras.naming_the_command()
def trace(
    function: Callable, args: Sequence[Any]
) -> Tuple[reader.Program, signatures.Signature]:
    """Traces a function to a program; returns it with its signature.

    Args:
        function: a `jax.jit` function, a `tf.function`, or a Keras model.
        args: positional arguments, arrays nested in tuples, lists and dicts; their
            shapes and types are compiled in.

    Raises:
        ValueError: it cannot be compiled with them, or assigns variables; a package is
            missing.
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
        import tensorflow as tf

        if hasattr(function, 'call') and hasattr(function, 'inputs'):
            function, _ = functions.function_of_keras(function, args)
        python = getattr(function, 'python_function', function)
        traced: Dict[str, Any] = {}

        def keeping_graph(*tensors: Any) -> Any:
            traced['graph'] = tf.compat.v1.get_default_graph()
            traced['results'] = python(*tensors)
            return traced['results']

        keeping_graph.__name__ = name
        program = programs.load(keeping_graph, *args, name=name)
        results, bound = traced['results'], _captured(traced['graph'])
    arrays: List[Any] = []
    outputs = signatures.numbered(results, arrays)
    shapes = program.module.host_program_shape
    parameters = len(shapes.parameters) - len(bound)
    if parameters != len(leaves):
        raise ValueError(
            f'{name}: {len(leaves)} values are given, and its module takes '
            f'{parameters}: give arrays in place of numbers'
        )
    is_tuple = shapes.result.element_type == building.TUPLE
    count = len(shapes.result.tuple_shapes) if is_tuple else 1
    if count != len(arrays):
        raise ValueError(
            f'{name}: {count} arrays come out in place of {len(arrays)}: a function '
            'that assigns variables cannot be tuned; let it return the new values'
        )
    return program, signatures.Signature(inputs, outputs, bound)


def _captured(graph: Any) -> List[np.ndarray]:
    """Returns the arrays that a function captured, in the order of XLA's parameters."""
    variables = {id(variable.handle): variable for variable in graph.variables}
    captured = graph.external_captures
    return [variables.get(id(tensor), tensor).numpy() for tensor in captured]
