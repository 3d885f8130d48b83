"""Parses, converts, compiles and runs modules with jaxlib.

Everything that this package uses of jaxlib is private, and has moved several times
since release 0.4.30.  Only this file knows where it is.  What differs is found by
looking for the attribute and not by comparing versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import functools
import importlib
import importlib.util
import re
import sys
import types
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import baselines
from baselines.data import hardware

if TYPE_CHECKING:
    from jaxlib import xla_client
    from jaxlib.mlir import ir

OLDEST = '0.4.30'  # the releases that the tests are run with: this one to
NEWEST = hardware.NEWEST_RELEASE

_Function = TypeVar('_Function', bound=Callable)


def _naming_the_release(function: _Function) -> _Function:
    """Raises ValueError, which names a release that works, where jaxlib has changed."""

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except (AttributeError, ImportError, TypeError) as error:
            if getattr(error, 'name', None) == 'jax':
                raise  # `extras.naming_the_command` tells how to install it
            # TensorFlow 2.15, of the older Pythons, needs the oldest one.
            works = NEWEST if sys.version_info >= (3, 12) else OLDEST
            packages = [p for p in ('jax', 'jaxlib') if baselines.version(p)]
            wanted = ' '.join(f'{package}=={works}' for package in packages)
            cause = ' '.join(str(error).split())
            raise ValueError(
                f'jaxlib {baselines.version("jaxlib")} does not work here ({cause}); '
                f'the newest release tried is {NEWEST}; run pip install {wanted}'
            ) from error

    return wrapped  # type: ignore[return-value]


def _extension() -> types.ModuleType:
    """Returns jaxlib's extension module: `_jax`, before 0.6 `xla_extension`."""
    from jaxlib import xla_client

    return xla_client._xla


def _hlo() -> types.ModuleType:
    """Returns the module of jaxlib that has HloModule and its parser."""
    extension = _extension()
    if hasattr(extension, 'hlo_module_from_text'):
        return extension
    from jaxlib import _hlo  # type: ignore[attr-defined]  # since 0.10

    return _hlo


@_naming_the_release
def parse_text(text: str) -> bytes:
    """Parses HLO text to a serialised HloModuleProto; raises XLA's error."""
    return _hlo().hlo_module_from_text(text).as_serialized_hlo_module_proto()


@_naming_the_release
def parse_mlir(bytecode: bytes) -> bytes:
    """Converts StableHLO to a serialised HloModuleProto; raises XLA's error."""
    computation = _extension().mlir.mlir_module_to_xla_computation(
        bytecode, use_tuple_args=False, return_tuple=False
    )
    return computation.as_serialized_hlo_module_proto()


@_naming_the_release
def mlir_context() -> ir.Context:
    """Returns a context of MLIR with the dialects that XLA reads."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import chlo
    from jaxlib.mlir.dialects import mhlo
    from jaxlib.mlir.dialects import stablehlo

    context = ir.Context()
    registry = ir.DialectRegistry()
    _registration().register_dialects(registry)  # func among them
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    chlo.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    stablehlo.register_dialect(context)
    if has_sdy():
        from jaxlib.mlir.dialects import sdy

        sdy.register_dialect(context)
    return context


def _registration() -> types.ModuleType:
    """Returns the module of jaxlib that registers the dialects of MLIR itself."""
    from jaxlib.mlir import _mlir_libs

    name = f'{_mlir_libs.__name__}._jax_mlir_ext'  # since 0.5
    if importlib.util.find_spec(name) is None:
        name = f'{_mlir_libs.__name__}.register_jax_dialects'
    return importlib.import_module(name)


def has_sdy() -> bool:
    """Returns whether jaxlib has the dialect of shardings, which came after 0.4.30."""
    return importlib.util.find_spec('jaxlib.mlir.dialects.sdy') is not None


@_naming_the_release
def parse_bytecode(data: bytes, context: ir.Context) -> ir.Module:
    """Parses bytecode or a portable artifact of `jax.export` to a module of MLIR.

    Args:
        data: the bytecode.
        context: result of `mlir_context`, entered.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    if b'StableHLO_v' not in data[:64]:
        return ir.Module.parse(data)
    if not has_sdy():  # the function of the bindings of 0.4.30 ends the process
        return ir.Module.parse(_extension().mlir.deserialize_portable_artifact(data))
    return stablehlo.deserialize_portable_artifact(context, data)


@_naming_the_release
def to_stablehlo(module: bytes) -> str:
    """Converts a serialised HloModuleProto to StableHLO text."""
    computation = _hlo().XlaComputation(module)
    return _extension().mlir.xla_computation_to_mlir_module(computation)


class Client:
    """XLA on one platform of this machine.

    Args:
        platform: 'cpu' or 'gpu'.

    Raises:
        ValueError: this release of jaxlib is not supported.
        RuntimeError: this machine or jaxlib lacks the platform.
    """

    @_naming_the_release
    def __init__(self, platform: str):
        from jaxlib import xla_client

        self._client = _make_client(platform)
        self._device = self._client.local_devices()[0]
        self._make_options: Any = xla_client.CompileOptions
        if hasattr(self._client, 'compile_and_load'):  # since 0.6
            devices = xla_client.DeviceList((self._device,))
            self._compile: Any = lambda module, options: self._client.compile_and_load(
                module, devices, options
            )
        else:
            self._compile = self._client.compile
        if hasattr(_extension().jax_jit, 'global_state'):  # up to 0.7
            _set_state(_extension().jax_jit)
            self._place: Any = self._client.buffer_from_pyval
        else:
            sharding = _sharding_class()(self._device)
            self._place = functools.partial(_device_put, sharding, self._device)

    @_naming_the_release
    def compile(
        self, stablehlo: str, debug_options: Mapping[str, object]
    ) -> CompiledModule:
        """Compiles StableHLO.

        Args:
            stablehlo: text from `to_stablehlo`.
            debug_options: fields of XLA's DebugOptions.
        """
        options = self._make_options()
        for name, value in debug_options.items():
            setattr(options.executable_build_options.debug_options, name, value)
        if self._client.platform != 'cpu':
            stablehlo = _without_mhlo(stablehlo)
        return CompiledModule(self._compile(stablehlo, options), self._place)


class CompiledModule:
    """A compiled module.

    Args:
        place: makes a buffer of the device from an array.

    Attributes:
        run: runs it once, to the end, on a list of buffers; the results are freed.
    """

    def __init__(
        self,
        executable: xla_client.LoadedExecutable,
        place: Callable[[np.ndarray], xla_client.ArrayImpl],
    ):
        self._executable, self._place = executable, place
        execute = executable.execute_sharded

        # The token takes a third of the time of making an array of each result
        # (0.12: 4.6 instead of 7.8 us, with one of 0.10: 65 us).
        def run(buffers: Sequence[xla_client.ArrayImpl]) -> None:
            execute(buffers, with_tokens=True).consume_token().block_until_ready()

        self.run = run

    @_naming_the_release
    def place(self, arrays: Sequence[np.ndarray]) -> list[xla_client.ArrayImpl]:
        """Returns arrays as buffers of the device."""
        return [self._place(array) for array in arrays]

    @_naming_the_release
    def outputs(self, buffers: Sequence[xla_client.ArrayImpl]) -> list[np.ndarray]:
        """Runs it; returns its results, narrow types as those of ml_dtypes."""
        results = self._executable.execute_sharded(buffers)
        return [
            _array_of(shards[0])
            for shards in results.disassemble_into_single_device_arrays()
        ]

    @_naming_the_release
    def optimised(self) -> bytes:
        """Returns the HloModuleProto after XLA's passes, serialised."""
        return self._executable.hlo_modules()[0].as_serialized_hlo_module_proto()


def _make_client(platform: str) -> xla_client.Client:
    """Returns jaxlib's client of a platform."""
    from jaxlib import xla_client

    client: Any = xla_client
    if platform == 'cpu':
        # Runs in the calling thread, whose clock then counts all work.
        return client.make_cpu_client(asynchronous=False)
    if hasattr(client, 'make_gpu_client'):  # up to 0.4
        return client.make_gpu_client()
    from jax.extend import backend

    extended: Any = backend  # jax's stubs leave the function out
    return extended.get_backend('gpu')


def _without_mhlo(stablehlo: str) -> str:
    """Replaces what `to_stablehlo` leaves of MHLO, which plugins do not compile."""
    copied = re.sub(r'\bmhlo\.copy\b', 'stablehlo.optimization_barrier', stablehlo)
    return re.sub(
        r'\bmhlo\.erf (%\w+) : (tensor<[^>]*>)', r'chlo.erf \1 : \2 -> \2', copied
    )


def _set_state(jax_jit: types.ModuleType) -> None:
    """Sets what jax sets as it is imported; some releases end the process otherwise."""
    if 'jax' in sys.modules:
        return
    jax_jit.set_thread_local_state_initialization_callback(lambda: None)
    state = jax_jit.global_state()
    state.enable_x64 = True
    if hasattr(state, 'enable_memories'):  # up to 0.4
        state.enable_memories = False


def _sharding_class() -> type[xla_client.SingleDeviceSharding]:
    """Returns the sharding on one device, with what jax adds to jaxlib's class."""
    from jaxlib import xla_client

    replicated = xla_client.HloSharding.replicate()

    class OneDevice(xla_client.SingleDeviceSharding):
        memory_kind = None

        def _to_xla_hlo_sharding(self, num_dimensions: int) -> xla_client.HloSharding:
            del num_dimensions
            return replicated

    return OneDevice


class _Shaped:
    """An array's type as jaxlib expects it of jax."""

    weak_type = False

    def __init__(self, array: np.ndarray):
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim


def _device_put(
    sharding: xla_client.Sharding, device: xla_client.Device, array: np.ndarray
) -> xla_client.ArrayImpl:
    """Returns an array as a buffer of a device."""
    put = _extension().batched_device_put
    array = np.asarray(array)
    return put(_Shaped(array), sharding, [array], [device], enable_x64=True)


def _array_of(buffer: xla_client.ArrayImpl) -> np.ndarray:
    """Returns a buffer as an array; np.asarray fails for bfloat16 without jax."""
    for name in ('_to_np_array_did_copy', '_single_device_array_to_np_array_did_copy'):
        if hasattr(buffer, name):  # since 0.5
            return getattr(buffer, name)()[0]
    return buffer._single_device_array_to_np_array()
