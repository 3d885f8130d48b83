"""Reads and compiles programs from Python."""

from __future__ import annotations

from collections.abc import Callable

from baselines.core import starting
from baselines.hlo import protos
from tpugraphs_lab.programs import reader


def read_program(x: object, *args: object, name: str = '') -> reader.Program:
    """Reads a program.

    >>> read_program('module.hlo')                     # a file of any form
    >>> read_program('my_program.py:step')             # with example_args
    >>> read_program(jax.jit(f), np.zeros([8, 128]))   # or a function of TensorFlow
    >>> read_program(keras_model)                      # sizes fixed, or an example
    >>> read_program('saved_model_folder:serving_default')

    HLO text and MLIR are parsed by jaxlib.  The content of a
    file tells its form, not its name.

    Args:
        x: the path of a file with an HloModuleProto, HloProto, HloSnapshot, HLO text,
            StableHLO or MHLO as text or bytecode, or tuning data of one module; or
            the content of such a file as bytes, or one of these messages;
            `FILE.py:NAME`; the folder of a SavedModel, or `FOLDER:SIGNATURE`; a
            function of TensorFlow or jax.jit; or a Keras model.
        *args: example arguments of a function, a model or a signature: arrays, or
            shapes and types of them.
        name: name of the program; by default that of the file or function.

    Returns:
        A `programs.reader.Program`: `name`, `module` (an HloModuleProto), `form` and
        `source`.

    Raises:
        ValueError: it is no program, holds several, is damaged, or cannot be traced;
            jaxlib is needed and not installed.
        OSError: a file cannot be read.
    """
    return reader.read_program(x, *args, name=name)


def hlo_module(
    function: Callable, *args: object, stage: str = 'hlo', **kwargs: object
) -> protos.HloModuleProto:
    """Compiles a TensorFlow function and returns its HloModuleProto, to rank.

    Args:
        function: a function that TensorFlow can trace and XLA can compile.
        *args: tensors to trace it with; their shapes are compiled in.
        stage: 'hlo', as TensorFlow hands it to XLA, or 'optimized_hlo', after
            XLA's passes for this machine.
        **kwargs: passed to the function, too.

    Raises:
        ValueError: there is no such stage, or XLA cannot compile the function; has the
            line that tells the cause.
    """
    starting.start_tensorflow()
    from tpugraphs_lab.programs import tensorflow_functions

    return tensorflow_functions.module_from_tf(function, *args, stage=stage, **kwargs)
