"""jaxlib: compiles a module, runs it, and reads what XLA made.

backend = Backend()
program = backend.compile(module.SerializeToString())
outputs = program.run(program.place(arrays))
"""

import re
import sys
from typing import Any, List, Sequence

import numpy as np

from tpugraphs.programs import extras

# What makes times comparable: one thread.
FLAGS = '--xla_cpu_multi_thread_eigen=false'

# What a worker is started with.
VARIABLES = {
    'XLA_FLAGS': FLAGS,
    'OMP_NUM_THREADS': '1',
    'TF_CPP_MIN_LOG_LEVEL': '3',
    # Freed memory is kept: page faults of every new output would be timed.
    'MALLOC_MMAP_THRESHOLD_': str(4 << 30),
    'MALLOC_TRIM_THRESHOLD_': str(16 << 30),
    'MALLOC_TOP_PAD_': str(64 << 20),
}

# Passes that put calls of a library, or two operations, in place of one.
_REWRITERS = 'tree_reduction_rewriter,onednn-matmul-rewriter,topk-rewriter'


class CompileError(ValueError):
    """XLA refuses a module; the text is one line."""


class Program:
    """A compiled module."""

    def __init__(self, client: Any, executable: Any):
        self._client = client
        self._executable = executable

    def place(self, arrays: Sequence[np.ndarray]) -> List[Any]:
        """Returns arrays as buffers of the device."""
        return [self._client.buffer_from_pyval(array) for array in arrays]

    def run(self, buffers: Sequence[Any]) -> List[Any]:
        """Runs it to the end; returns the output buffers."""
        results = self._executable.execute(buffers)
        for result in results:
            result.block_until_ready()
        return results

    def outputs(self, buffers: Sequence[Any]) -> List[np.ndarray]:
        """Runs it; returns the outputs, bfloat16 ones with the type of ml_dtypes."""
        # What np.asarray does for other types, and not for bfloat16.
        return [b._single_device_array_to_np_array() for b in self.run(buffers)]

    def optimised(self) -> bytes:
        """Returns the HloModuleProto after XLA's passes, serialised."""
        return self._executable.hlo_modules()[0].as_serialized_hlo_module_proto()

    def text(self) -> str:
        """Returns the module after XLA's passes as text, without remarks."""
        text = self._executable.hlo_modules()[0].to_string()
        return re.sub(r', metadata=\{[^}]*\}', '', text)


class Backend:
    """XLA on one platform of this machine.

    Args:
        platform: 'cpu' or 'gpu'.

    Raises:
        ValueError: the platform is not there.
    """

    def __init__(self, platform: str = 'cpu'):
        extras.require()
        from jaxlib import xla_client

        self._xla = xla_client
        self._extension: Any = xla_client._xla
        if 'jax' not in sys.modules:
            # What jax would set; without it newer versions end the process.
            settings = self._extension.jax_jit
            settings.set_thread_local_state_initialization_callback(lambda: None)
            settings.global_state().enable_x64 = True
            settings.global_state().enable_memories = False
        try:
            if platform == 'gpu':
                self._client = xla_client.make_gpu_client()
            else:
                # What runs in the calling thread is timed without waiting.
                self._client = xla_client.make_cpu_client(asynchronous=False)
        except Exception as error:
            first = str(error).strip().partition('\n')[0]
            raise ValueError(f'XLA finds no {platform} here: {first}') from error

    @property
    def device(self) -> str:
        """XLA's name of the device: 'cpu', or that of a graphics processor."""
        return self._client.local_devices()[0].device_kind

    def compile(self, module: bytes, plain: bool = False) -> Program:
        """Compiles a serialised HloModuleProto.

        Args:
            module: the HloModuleProto.
            plain: to read what XLA makes of the module, not to time it: without
                library calls in place of products and two reductions in place of a
                large one, and with code that is made in a hurry.

        Raises:
            CompileError: XLA refuses it.  On some modules XLA ends the process.
        """
        convert = self._extension.mlir.xla_computation_to_mlir_module
        try:
            text = convert(self._xla.XlaComputation(module))
            options = self._xla.CompileOptions()
            if plain:
                debug = options.executable_build_options.debug_options
                debug.xla_disable_hlo_passes = _REWRITERS
                debug.xla_backend_optimization_level = 0
                debug.xla_llvm_disable_expensive_passes = True
            return Program(self._client, self._client.compile(text, options))
        except Exception as error:
            raise CompileError(' '.join(str(error).split())[:300]) from error
