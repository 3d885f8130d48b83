"""Compiles modules with jaxlib, runs them, and reads the optimised ones.

backend = Backend()
program = backend.compile(module.SerializeToString())
outputs = program.run(program.place(arrays))
"""

import re
import sys
from typing import Any, List, Sequence

import numpy as np

from tpugraphs.programs import extras

# Times are comparable with one thread alone.
FLAGS = '--xla_cpu_multi_thread_eigen=false'

# Environment variables of a worker.
VARIABLES = {
    'XLA_FLAGS': FLAGS,
    'OMP_NUM_THREADS': '1',
    'TF_CPP_MIN_LOG_LEVEL': '3',
    # Freed memory is kept: page faults of every new output would be timed.
    'MALLOC_MMAP_THRESHOLD_': str(4 << 30),
    'MALLOC_TRIM_THRESHOLD_': str(16 << 30),
    'MALLOC_TOP_PAD_': str(64 << 20),
}

# Passes that replace an operation by a library call or by two operations.
_REWRITERS = 'tree_reduction_rewriter,onednn-matmul-rewriter,topk-rewriter'


class CompileError(ValueError):
    """A module that XLA refuses; the text is one line."""


class Compiled:
    """A compiled module."""

    def __init__(self, client: Any, executable: Any):
        self._client = client
        self._executable = executable

    def place(self, arrays: Sequence[np.ndarray]) -> List[Any]:
        """Returns arrays as buffers of the device."""
        return [self._client.buffer_from_pyval(array) for array in arrays]

    def run(self, buffers: Sequence[Any]) -> List[Any]:
        """Runs the module to the end; returns the output buffers."""
        results = self._executable.execute(buffers)
        for result in results:
            result.block_until_ready()
        return results

    def outputs(self, buffers: Sequence[Any]) -> List[np.ndarray]:
        """Runs the module; returns its outputs, bfloat16 as the type of ml_dtypes."""
        # np.asarray fails for bfloat16.
        return [b._single_device_array_to_np_array() for b in self.run(buffers)]

    def optimised(self) -> bytes:
        """Returns the HloModuleProto after XLA's passes, serialised."""
        return self._executable.hlo_modules()[0].as_serialized_hlo_module_proto()

    def text(self) -> str:
        """Returns the module after XLA's passes as text, without metadata."""
        text = self._executable.hlo_modules()[0].to_string()
        return re.sub(r', metadata=\{[^}]*\}', '', text)


class Backend:
    """XLA on one platform of this machine.

    Args:
        platform: 'cpu' or 'gpu'.

    Raises:
        ValueError: this machine or jaxlib lacks the platform.
    """

    @extras.naming_the_command()
    def __init__(self, platform: str = 'cpu'):
        extras.require()
        from jaxlib import xla_client

        self._xla = xla_client
        self._extension: Any = xla_client._xla
        if 'jax' not in sys.modules:
            # jax would set this; without it newer versions end the process.
            settings = self._extension.jax_jit
            settings.set_thread_local_state_initialization_callback(lambda: None)
            settings.global_state().enable_x64 = True
            settings.global_state().enable_memories = False
        try:
            if platform == 'gpu':
                self._client = xla_client.make_gpu_client()
            else:
                # Runs in the calling thread, whose clock then counts all work.
                self._client = xla_client.make_cpu_client(asynchronous=False)
        except Exception as error:
            first = str(error).strip().partition('\n')[0]
            raise ValueError(f'XLA finds no {platform} here: {first}') from error

    @property
    def device(self) -> str:
        """XLA's name of the device: 'cpu', or that of a graphics processor."""
        return self._client.local_devices()[0].device_kind

    def compile(self, module: bytes, plain: bool = False) -> Compiled:
        """Compiles a serialised HloModuleProto.

        Args:
            module: the HloModuleProto.
            plain: compile for reading the optimised module, not for timing: products
                stay without library calls, large reductions are not split, and the
                machine code is not optimised.

        Raises:
            CompileError: XLA refuses it.  On certain modules XLA ends the process.
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
            return Compiled(self._client, self._client.compile(text, options))
        except Exception as error:
            raise CompileError(' '.join(str(error).split())[:300]) from error
