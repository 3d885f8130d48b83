"""Compiles modules with jaxlib, runs them, and reads the optimised ones.

backend = Backend()
program = backend.compile(module.SerializeToString())
outputs = program.outputs(program.place(arrays))
"""

import os

from baselines.core import text
from tpugraphs.measure.clock import machine
from tpugraphs.programs import conversion
from tpugraphs.programs import extras
from tpugraphs.programs import isolated
from tpugraphs.programs import xla

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


def optimise(module: bytes, seconds: int = 600) -> bytes:
    """Returns a serialised module after XLA's passes, in a process of its own.

    Args:
        module: a serialised HloModuleProto; see `kernels.preparation.prepare`.
        seconds: of CPU time.

    Raises:
        ValueError: XLA cannot compile it, or takes longer.
    """
    function = f'{__name__}.optimise_here'
    return isolated.call(function, [], module, conversion.MEMORY, seconds)[1]


def optimise_here(module: bytes) -> tuple[list[str], bytes]:
    """Returns no notes, and a serialised module after XLA's passes."""
    os.environ.update(VARIABLES)
    # XLA makes other kernels for several cores.
    os.sched_setaffinity(0, {machine.chosen_core(-1)})
    return [], Backend().compile(module, plain=True).optimised()


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
