"""Functions of JAX and TensorFlow as programs, with how they are called.

program, signature = trace(jax.jit(f), (x, y))
"""

from typing import Any, Callable, List, Sequence, Tuple

from baselines import text
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
    if functions.is_jax(function, args):
        import jax

        # Arguments that are not used stay parameters.
        function = jax.jit(function, keep_unused=True)
        program = programs.load(function, *args, name=name)
        results, bound = jax.eval_shape(function, *args), []
    else:
        program = programs.load(function, *args, name=name)
        try:
            results, bound = _of_tensorflow(function, args)
        except Exception as error:
            raise ValueError(f'{name}: {text.cause_of(error)}') from error
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


def _of_tensorflow(function: Callable, args: Sequence[Any]) -> Tuple[Any, List[Any]]:
    """Returns a function's nested results, and the values of its variables."""
    import tensorflow as tf

    if hasattr(function, 'call') and hasattr(function, 'inputs'):
        function, _ = functions.of_keras(function, args)

    def tensor(leaf: Any) -> Any:
        return tf.convert_to_tensor(leaf) if hasattr(leaf, 'shape') else leaf

    tensors = tf.nest.map_structure(tensor, tuple(args))
    concrete = tf.function(function).get_concrete_function(*tensors)
    bound = []
    for captured in concrete.captured_inputs:
        if captured.dtype == tf.resource:
            [captured] = [v for v in concrete.variables if v.handle is captured]
        bound.append(captured.numpy())
    return concrete.structured_outputs, bound
