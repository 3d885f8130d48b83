"""Functions of JAX and TensorFlow as programs, with how they are called.

program, signature = trace(jax.jit(f), (x, y))
"""

from typing import Any, Callable, List, Sequence, Tuple

from baselines import text
from baselines.hlo import protos
from baselines.hlo import tensorflow_functions
from tpugraphs.measure import building
from tpugraphs.measure import programs
from tpugraphs.measure import signatures
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
        ValueError: it is another function, or cannot be compiled with them.
    """
    name = getattr(function, '__name__', type(function).__name__)
    leaves: List[Any] = []
    inputs = [signatures.numbered(arg, leaves) for arg in args]
    if hasattr(function, 'lower'):
        module, outputs, bound = _of_jax(function, args)
    elif hasattr(function, 'get_concrete_function') or hasattr(function, 'call'):
        module, outputs, bound = _of_tensorflow(function, args)
    else:
        raise ValueError(
            f'{name} is a function of neither: give jax.jit({name}) or '
            f'tf.function({name})'
        )
    there = len(module.host_program_shape.parameters)
    if there != len(leaves) + len(bound):
        raise ValueError(
            f'{name}: {len(leaves)} arrays go in, and its module has {there} parameters'
        )
    program = reader.Program(name, programs.cleaned(module, name))
    return program, signatures.Signature(inputs, outputs, bound)


def _of_jax(function: Callable, args: Sequence[Any]) -> Tuple[Any, Any, List[Any]]:
    import jax

    try:
        # Arguments that are not used stay parameters.
        lowered = jax.jit(function, keep_unused=True).lower(*args)
        shapes = jax.eval_shape(function, *args)
    except Exception as error:
        raise ValueError(f'JAX cannot trace it: {text.cause_of(error)}') from error
    content = lowered.compiler_ir('hlo').as_serialized_hlo_module_proto()
    outputs = signatures.numbered(shapes, [])
    return protos.protos().HloModuleProto.FromString(content), outputs, []


def _of_tensorflow(
    function: Callable, args: Sequence[Any]
) -> Tuple[Any, Any, List[Any]]:
    import tensorflow as tf

    tensors = tf.nest.map_structure(tf.convert_to_tensor, tuple(args))
    module = tensorflow_functions.module_from_tf(function, *tensors)
    concrete = tf.function(function).get_concrete_function(*tensors)
    bound = []
    for captured in concrete.captured_inputs:
        if captured.dtype == tf.resource:
            [captured] = [v for v in concrete.variables if v.handle is captured]
        bound.append(captured.numpy())
    leaves: List[Any] = []
    outputs = signatures.numbered(concrete.structured_outputs, leaves)
    result = module.host_program_shape.result
    made = len(result.tuple_shapes) if result.element_type == building.TUPLE else 1
    if made != len(leaves):
        raise ValueError(
            f'{made} arrays come out in place of {len(leaves)}: a function that '
            'assigns variables cannot be tuned; let it return what changes'
        )
    return module, outputs, bound
