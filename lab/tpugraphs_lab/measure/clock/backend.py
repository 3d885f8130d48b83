"""Compiles modules with jaxlib, runs them, and reads the optimised ones.

backend = Backend()
program = backend.compile(module.SerializeToString())
outputs = program.outputs(program.place(arrays))
"""

from baselines.core import text
from tpugraphs_lab.programs import extras
from tpugraphs_lab.programs import xla

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

# Of XLA's DebugOptions, for modules that are read and not run.
_FOR_READING = {
    # Passes that replace an operation by a library call or by two operations.
    'xla_disable_hlo_passes': (
        'tree_reduction_rewriter,onednn-matmul-rewriter,topk-rewriter,'
        'dot-library-rewriter'
    ),
    'xla_backend_optimization_level': 0,
    'xla_llvm_disable_expensive_passes': True,
}


class CompileError(ValueError):
    """A module that XLA refuses; the text is one line."""


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
        try:
            self._client = xla.Client(platform)
        except RuntimeError as error:
            first = str(error).strip().partition('\n')[0]
            raise ValueError(f'XLA finds no {platform} here: {first}') from error

    def compile(self, module: bytes, plain: bool = False) -> xla.CompiledModule:
        """Compiles a serialised HloModuleProto.

        Args:
            plain: compile for reading the optimised module, not for timing: products
                stay without library calls, large reductions are not split, and the
                machine code is not optimised.

        Raises:
            CompileError: XLA refuses it.  On certain modules XLA ends the process.
        """
        options = _FOR_READING if plain else {}
        try:
            return self._client.compile(xla.to_stablehlo(module), options)
        except Exception as error:
            raise CompileError(text.printable(error)) from error
