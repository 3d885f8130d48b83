"""The graph of a TensorFlow function's HLO."""

from typing import Any, Callable

from baselines import text
from baselines.hlo import graph
from baselines.hlo import protos

_STAGES = ('hlo', 'optimized_hlo')


def from_tf(
    fn: Callable,
    *args: Any,
    stage: str = 'hlo',
    pad: int = 0,
    extra: bool = False,
    **kwargs: Any,
) -> graph.Graph:
    """Compiles a function with XLA and returns its graph.

    >>> import tensorflow as tf
    >>> g = from_tf(lambda x: tf.nn.relu(x) + 1., tf.zeros([4, 8]))
    >>> g.node_feat.shape
    (11, 140)

    Args:
        fn: what TensorFlow can trace and XLA can compile.
        *args: the arguments to trace it with; their shapes are compiled in.
        stage: 'hlo', as TensorFlow hands it to XLA, or 'optimized_hlo', after
            XLA's passes for this machine (fusions, layouts).
        pad: see `graph.extract_graph`.
        extra: see `graph.extract_graph`.
        **kwargs: passed to `fn` too.

    Raises:
        ValueError: an unknown stage, or XLA cannot compile the function.
    """
    module = module_from_tf(fn, *args, stage=stage, **kwargs)
    return graph.extract_graph(module, pad=pad, extra=extra)


def module_from_tf(fn: Callable, *args: Any, stage: str = 'hlo', **kwargs: Any) -> Any:
    """Compiles a function with XLA and returns its HloModuleProto.

    See `from_tf`.
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
            f'XLA cannot compile the function: {text.cause_of(error)}'
        ) from error
    return protos.protos().HloModuleProto.FromString(serialized)
