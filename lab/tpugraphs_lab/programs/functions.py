"""Traces functions, Keras models and SavedModels to HloModuleProtos.

Tracing takes only shapes and types of example arguments: no array is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
import contextlib
import importlib.util
import os
import sys
import types
from typing import TYPE_CHECKING, Any

from baselines.core import files
from baselines.core import untrusted
from baselines.hlo import protos
from tpugraphs_lab.programs import causes
from tpugraphs_lab.programs import isolated

if TYPE_CHECKING:
    import tensorflow as tf

_SECONDS = 600  # CPU time of a process that runs a user's file
_MOST_FRAMES = 20  # levels of the stack of an error
_SIGNATURE = 'input_signature'
_EXAMPLES = 'example_args'
_HOW = (
    f'write {_EXAMPLES} = (...) next to it, or '
    '@tf.function(input_signature=[tf.TensorSpec(...), ...])'
)


def trace(
    function: Callable,
    args: Sequence[object] | None,
    where: str,
    batch_size: int | None = None,
) -> protos.HloModuleProto:
    """Traces a function to an HloModuleProto, before XLA's passes.

    Args:
        function: a tf.function, another Python function of TensorFlow, a jax.jit
            function, or a Keras model, which is called as it predicts.
        args: example arguments: arrays, or shapes and types of them, in lists, tuples
            and dicts; None for those of the function's own signature.
        where: the source that errors name.
        batch_size: the first size of arguments that do not say it.

    Raises:
        ValueError: there are no arguments, or one of dynamic shape; it returns no
            array that it computes; or it cannot be traced, with the last line of the
            cause.
    """
    module = _trace(function, args, where, batch_size)
    entry = module.computations[-1]
    made = {i.id: i for i in entry.instructions}

    def is_plain(number: int) -> bool:
        value = made[number]
        if value.opcode in ('tuple', 'reshape', 'copy'):
            return all(map(is_plain, value.operand_ids))
        return value.opcode == 'constant'

    if is_plain(entry.root_id):
        raise ValueError(
            f'{where} returns no array that it computes, but None or plain numbers; '
            'return a tensor'
        )
    return module


def _trace(
    function: Callable,
    args: Sequence[object] | None,
    where: str,
    batch_size: int | None,
) -> protos.HloModuleProto:
    """Traces a function, whatever it returns; see `trace`."""
    if _is_jax(function, args):
        if args is None:
            raise ValueError(
                f'{where} has no example arguments; write {_EXAMPLES} = ()'
            )
        return _trace_jax(function, args, where)
    if hasattr(function, 'call') and hasattr(function, 'inputs'):
        function, args = _function_of_keras(function, args)
    if args is None:
        args = getattr(function, _SIGNATURE, None)
    if args is None:
        raise ValueError(
            f'{where} has neither an input signature nor example arguments; {_HOW}'
        )
    if hasattr(function, 'python_function') or 'jax' not in sys.modules:
        return _trace_tensorflow(function, args, where, batch_size)
    return _trace_either(function, args, where)


def from_file(
    path: str, name: str, batch_size: int | None = None, seconds: int | None = None
) -> protos.HloModuleProto:
    """Traces a function of a Python file, or a SavedModel, in a child process.

    Args:
        path: the file, or the folder of a SavedModel.
        name: name of the function or signature; see `trace_file`.
        batch_size: see `trace`.
        seconds: limit of CPU time; None for 600.

    Raises:
        ValueError: the file does not run, ends its process, or see `trace_file`.
        OSError: the file cannot be read.
    """
    if not os.path.isdir(path):
        untrusted.open_regular(path).close()
    function, arguments = f'{__name__}.trace_file', [path, name, str(batch_size or '')]
    try:
        _, content = isolated.call(
            *(function, arguments, b'', isolated.PROGRAM_MEMORY),
            seconds or _SECONDS,
            f'tracing {name}',
        )
    except isolated.Ended as how:
        raise ValueError(f'{path}: {how}') from None
    return protos.HloModuleProto.FromString(content)


def trace_file(
    path: str, name: str, batch_size: str, _: bytes
) -> tuple[list[str], bytes]:
    """Runs a Python file, or loads a SavedModel, and traces a function of it.

    `example_args` in a Python file are the arguments: a tuple, or a function without
    parameters that returns one.

    Returns:
        No notes, and a serialised HloModuleProto.

    Raises:
        ValueError: the file does not run, has no such function, or see `trace` and
            `trace_saved_model`.
    """
    size = int(batch_size or 0) or None
    try:
        if os.path.isdir(path):
            module = trace_saved_model(path, name, None, size)
        else:
            module = _trace_file(path, name, size)
    except KeyboardInterrupt:  # a user's Ctrl-C reaches the parent process, too
        raise ValueError(f'{path}: KeyboardInterrupt') from None
    return [], module.SerializeToString()


def _trace_file(path: str, name: str, batch_size: int | None) -> protos.HloModuleProto:
    """Runs a Python file, and traces a function of it; see `trace_file`."""
    module = _run(path)
    where = f'{path}:{name}'
    function = getattr(module, name, None)
    if not callable(function):
        names = sorted(n for n, v in vars(module).items() if _is_program(v, module))
        raise ValueError(
            f'{where}: no such function; there: {", ".join(names) or "none"}'
        )
    args = getattr(module, _EXAMPLES, None)
    if callable(args):
        with _naming(f'{path}:{_EXAMPLES}'):
            args = args()
    if args is not None and not isinstance(args, (list, tuple)):
        args = (args,)
    return trace(function, args, where, batch_size)


def trace_saved_model(
    folder: str, name: str, args: Sequence[object] | None, batch_size: int | None = None
) -> protos.HloModuleProto:
    """Traces a signature of a SavedModel to an HloModuleProto, in this process.

    Args:
        name: name of the signature; '' for `serving_default`, or the only one.
        args: arguments to use instead of the signature's shapes: a dict by the names
            of its inputs, or, where there is one input alone, an array.
        batch_size: see `trace`.

    Raises:
        ValueError: it cannot be loaded, there is no such signature, or see `trace`.
    """
    import tensorflow as tf

    try:
        with files.make_plain_path(folder) as path:
            loaded = tf.saved_model.load(path)  # owns the variables
        signatures = dict(loaded.signatures)
    except Exception as error:
        raise ValueError(
            f'{folder}: not a SavedModel that can be loaded: {causes.name_cause(error)}'
        ) from error
    chosen = name or ('serving_default' if len(signatures) != 1 else [*signatures][0])
    if chosen not in signatures:
        names = ', '.join(sorted(signatures)) or 'none'
        raise ValueError(f'{folder}: has no signature {chosen!r}; there: {names}')
    signature = signatures[chosen]
    specs = signature.structured_input_signature[1]
    if args is not None:
        [inputs] = args if len(args) == 1 else [args]
        specs = inputs if isinstance(inputs, dict) else dict(zip(sorted(specs), args))
    where = f'{folder}:{chosen}'
    function = lambda inputs: signature(**inputs)
    return _trace_tensorflow(function, (specs,), where, batch_size)


def _is_jax(function: Callable, args: Sequence[object] | None) -> bool:
    """Returns whether a function is of jax.jit, or an argument is a JAX array."""
    if sys.modules.get('jax') is None:
        return False
    import jax

    leaves = jax.tree_util.tree_leaves(args)
    has_arrays = any(isinstance(x, (jax.Array, jax.ShapeDtypeStruct)) for x in leaves)
    return has_arrays or isinstance(function, type(jax.jit(bool)))


def _trace_either(
    function: Callable, args: Sequence[object], where: str
) -> protos.HloModuleProto:
    """Traces a plain Python function by TensorFlow or JAX; see `trace`."""
    tracers: dict[str, Callable[[], protos.HloModuleProto]] = {
        'TensorFlow': lambda: _trace_tensorflow(function, args, where, None),
        'JAX': lambda: _trace_jax(function, args, where),
    }
    names = ['TensorFlow', 'JAX']
    if 'tensorflow' not in sys.modules:  # importing it takes seconds
        names.reverse()
    reasons: list[str] = []
    for name in names:
        try:
            return tracers[name]()
        except ValueError as error:
            reasons.append(f'{name}: {str(error)[len(where) + 2 :]}')
        except ImportError as error:
            reasons.append(f'{name}: {error}')
    raise ValueError(f'{where}: cannot be traced by {"; nor by ".join(reasons)}')


def _spec_of_jax(leaf: Any) -> Any:
    """Returns an example argument as JAX takes it: shapes of TensorFlow as its own."""
    if not hasattr(getattr(leaf, 'dtype', None), 'as_numpy_dtype'):
        return leaf
    import jax

    return jax.ShapeDtypeStruct(tuple(leaf.shape), leaf.dtype.as_numpy_dtype)


def _trace_jax(
    function: Any, args: Sequence[object], where: str
) -> protos.HloModuleProto:
    """Traces a function of JAX; see `trace`."""
    import jax

    if not hasattr(function, 'lower'):
        function = jax.jit(function)
    with _naming(where):
        args = jax.tree_util.tree_map(_spec_of_jax, tuple(args))
        lowered = function.lower(*args)
        content = lowered.compiler_ir('hlo').as_serialized_hlo_module_proto()
    return protos.HloModuleProto.FromString(content)


def _function_of_keras(model: tf.keras.Model, args: Sequence[object] | None) -> Any:
    """Returns a function that predicts with a Keras model, and its arguments."""
    import tensorflow as tf

    if args is None and model.inputs:
        args = tuple(tf.TensorSpec(x.shape, x.dtype) for x in model.inputs)

    def predict(*inputs: tf.Tensor) -> Any:
        return model(inputs[0] if len(inputs) == 1 else [*inputs], training=False)

    return predict, args


def _trace_tensorflow(
    function: Callable, args: Sequence[object], where: str, batch_size: int | None
) -> protos.HloModuleProto:
    """Traces a function of TensorFlow; see `trace`."""
    import tensorflow as tf

    from tpugraphs_lab.programs import tensorflow_functions

    def spec(leaf: Any) -> Any:
        if not (hasattr(leaf, 'shape') and hasattr(leaf, 'dtype')):
            return leaf
        shape = tf.TensorShape(leaf.shape)
        if batch_size and shape.rank and shape[0] is None:
            shape = [batch_size, *shape[1:]]
        return tf.TensorSpec(shape, leaf.dtype)

    specs = tf.nest.map_structure(spec, tuple(args))
    leaves = tf.nest.flatten(specs)
    arrays = [leaf for leaf in leaves if isinstance(leaf, tf.TensorSpec)]
    for leaf in arrays:
        if not leaf.shape.is_fully_defined():
            raise ValueError(
                f'{where} has the dynamic shape {leaf.shape}; --batch_size gives the '
                'first size, and the signature or example arguments all of them'
            )
    python = getattr(function, 'python_function', function)

    def flat(*inputs: tf.Tensor) -> Any:  # TensorFlow takes no specs inside dicts
        tensors = iter(inputs)
        filled = [next(tensors) if isinstance(x, tf.TensorSpec) else x for x in leaves]
        return python(*tf.nest.pack_sequence_as(specs, filled))

    with _naming(where):
        return tensorflow_functions.module_from_tf(flat, *arrays)


def _run(path: str) -> types.ModuleType:
    """Runs a Python file, which may import its neighbours; returns its module.

    It stays in `sys.modules`, and its folder on the path: functions may import later.
    """
    stem = os.path.splitext(os.path.basename(path))[0]
    untrusted.open_regular(path).close()
    spec = importlib.util.spec_from_file_location(f'tpugraphs_user_{stem}', path)
    if spec is None or spec.loader is None:
        raise ValueError(f'{path}: not a Python file')
    module = importlib.util.module_from_spec(spec)
    # TensorFlow keeps the stack of each level of a recursion that is too deep.
    sys.tracebacklimit = _MOST_FRAMES
    # Dataclasses, pickle and inspect look their module up.
    sys.modules[spec.name] = module
    sys.path.insert(0, os.path.dirname(path))
    with _naming(path):
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _naming(where: str) -> Iterator[None]:
    """Raises ValueError, which names `where`, for anything that user code raises."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ValueError(f'{where}: {causes.name_cause(error)}') from error


def _is_program(value: object, module: types.ModuleType) -> bool:
    """Returns whether a value is a function that the module itself defines."""
    if not callable(value) or isinstance(value, type):
        return False
    python = getattr(value, 'python_function', value)
    return getattr(python, '__module__', '') == module.__name__
