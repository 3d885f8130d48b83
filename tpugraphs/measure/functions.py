"""Functions of JAX and TensorFlow as programs, with how they are called.

program, signature = trace(jax.jit(f), (x, y))
"""

from typing import Any, Callable, Dict, List, Sequence, Tuple

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
        import tensorflow as tf

        if hasattr(function, 'call') and hasattr(function, 'inputs'):
            function, _ = functions.of_keras(function, args)
        python = getattr(function, 'python_function', function)
        traced: Dict[str, Any] = {}

        def kept(*tensors: Any) -> Any:
            traced['graph'] = tf.compat.v1.get_default_graph()
            traced['results'] = python(*tensors)
            return traced['results']

        kept.__name__ = name
        program = programs.load(kept, *args, name=name)
        results, bound = traced['results'], _captured(traced['graph'])
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


def _captured(graph: Any) -> List[np.ndarray]:
    """Returns what a function captured, variables by their values, in XLA's order."""
    variables = {id(variable.handle): variable for variable in graph.variables}
    captured = graph.external_captures
    return [variables.get(id(tensor), tensor).numpy() for tensor in captured]
