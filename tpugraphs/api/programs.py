"""Reads, compiles, times and tunes programs from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from baselines.core import files
from baselines.core import settings as settings_lib
from baselines.core import starting
from baselines.hlo import protos
from baselines.runs import finding
from tpugraphs.api import data as data_lib
from tpugraphs.api import runs as runs_lib
from tpugraphs.inspect import kernel_times
from tpugraphs.inspect import profile as profile_lib
from tpugraphs.kernels import preparation
from tpugraphs.programs import reader
from tpugraphs.ranking import tile_scores
from tpugraphs.records import arguments
from tpugraphs.tuning import executable
from tpugraphs.tuning import program_search
from tpugraphs.tuning import signatures


def read_program(x: object, *args: object, name: str = '') -> reader.Program:
    """Reads a program.

    >>> read_program('module.hlo')                     # a file of any form
    >>> read_program('my_program.py:step')             # with example_args
    >>> read_program(jax.jit(f), np.zeros([8, 128]))   # or a function of TensorFlow
    >>> read_program(keras_model)                      # sizes fixed, or an example
    >>> read_program('saved_model_folder:serving_default')

    HLO text and MLIR are parsed by jaxlib, of the extra [measure].  The content of a
    file tells its form, not its name.

    Args:
        x: the path of a file with an HloModuleProto, HloProto, HloSnapshot, HLO text,
            StableHLO or MHLO as text or bytecode, or tuning data of one module; or
            the content of such a file as bytes, or one of these messages;
            `FILE.py:NAME`; the folder of a SavedModel, or `FOLDER:SIGNATURE`; a
            function of TensorFlow or jax.jit; or a Keras model.
        *args: example arguments of a function, a model or a signature: arrays, or
            shapes and types of them.
        name: of the program; by default that of the file or function.

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
    from baselines.hlo import tensorflow_functions

    return tensorflow_functions.module_from_tf(function, *args, stage=stage, **kwargs)


def tune(
    program: object,
    *args: object,
    minutes: float = 5,
    output: runs_lib.Path = '',
    which: runs_lib.Path = 'pretrained',
    **settings: Any,
) -> executable.Executable:
    """Finds a faster program that computes the same, and proves it.

    Each kernel's tiles are tuned, the faster ones are put into the program, and both
    programs are timed side by side on one processor core.

    Args:
        program: a `jax.jit` function, a `tf.function` or a Keras model; or another
            argument of `read_program`, such as a file of HLO.
        *args: arguments of the function, arrays nested in tuples, lists and dicts;
            their shapes are compiled in, and the program is timed with their values.
            For a file, flat arrays, or none to draw random ones.
        minutes: of wall time, about.
        output: folder to write the program to, for `load_program`.
        which: the run of the model that proposes, as `load` takes it; '' draws
            configurations at random.
        **settings: the options of `tpugraphs tune`: measure, candidates, seed, core,
            platform, records, fresh.

    Returns:
        An `Executable`: call it as the program, with NumPy or JAX arrays; it returns
        NumPy arrays.  `original` is the untuned program, `about` has the figures.

    Raises:
        ValueError: there is no such setting, the program cannot be traced, compiled or
            measured, or the output cannot be written; says why.
        OSError: a file cannot be read.
    """
    settings = {'records': arguments.FOLDER, 'minutes': minutes, **settings}
    settings = settings_lib.typed(program_search.TuningOptions, settings, 'argument')
    if output:
        settings['output'] = files.expand(data_lib.path_of('output', output))
    options = program_search.TuningOptions(**settings)
    if which == finding.PRETRAINED:
        model = tile_scores.pretrained(options.platform)
    else:
        model = (
            tile_scores.load(runs_lib.load(which).dir, options.platform)
            if which
            else None
        )
    return program_search.tune_and_write(program, args, options, model)


def load_program(folder: runs_lib.Path) -> executable.Executable:
    """Loads a tuned program from a folder that `tune` wrote.

    Args:
        folder: the output folder; it is untrusted.

    Returns:
        An `Executable`, see `tune`.

    Raises:
        ValueError: a file is damaged or does not fit the others; names it.
        OSError: a file cannot be read.
    """
    return executable.load(data_lib.path_of('folder', folder))


def profile(
    program: object,
    *args: object,
    core: int = -1,
    seconds: float = kernel_times.SECONDS,
) -> kernel_times.Profile:
    """Times a program and its kernels on this machine.

    Args:
        program: as for `tune`.
        *args: as for `tune`.
        core: the processor core to measure on; -1 for the last.
        seconds: of wall time after which the program, or a kernel, is given up.

    Returns:
        A list of the kernels, the longest times first, shown as a table.

    Raises:
        ValueError: the program cannot be traced, compiled or measured; says why.
        OSError: a file cannot be read.
    """
    if callable(program):
        read, signature = signatures.trace(program, args)
    else:
        read, signature = preparation.load(program), signatures.Signature()
    arrays = [np.asarray(leaf) for leaf in signature.flat(args)] or None
    return profile_lib.profile(read, arrays, core, seconds=seconds)
