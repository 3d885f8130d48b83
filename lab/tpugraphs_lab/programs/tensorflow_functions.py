"""The HLO of a TensorFlow function."""

from collections.abc import Callable
from typing import Any

from google.protobuf import message

from baselines.hlo import protos
from tpugraphs_lab.programs import causes

_STAGES = ('hlo', 'optimized_hlo')


def module_from_tf(
    fn: Callable, *args: Any, stage: str = 'hlo', **kwargs: Any
) -> message.Message:
    """Compiles a function with XLA and returns its HloModuleProto.

    Args:
        fn: a function that TensorFlow can trace and XLA can compile.
        *args: the arguments to trace it with; their shapes are compiled in.
        stage: 'hlo', as TensorFlow hands it to XLA, or 'optimized_hlo', after
            XLA's passes for this machine (fusions, layouts).
        **kwargs: passed to `fn` too.

    Raises:
        ValueError: an unknown stage, or XLA cannot compile the function.
    """
    if stage not in _STAGES:
        raise ValueError(f'stage is {stage!r}; there are {" and ".join(_STAGES)}')
    import tensorflow as tf

    # Bare of fn's own signature, whose defaults TensorFlow would ask for.
    @tf.function(jit_compile=True)
    def compiled(*inputs: Any, **named: Any):
        return fn(*inputs, **named)

    try:
        serialized = compiled.experimental_get_compiler_ir(*args, **kwargs)(
            stage=f'{stage}_serialized'
        )
    except (Exception, SystemExit) as error:  # of the function's own code, too
        raise ValueError(
            f'XLA cannot compile the function: {causes.name_cause(error)}'
        ) from error
    return protos.HloModuleProto.FromString(serialized)
