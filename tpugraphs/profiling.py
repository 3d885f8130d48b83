"""Times a program from Python, to show where its time goes."""

from typing import Any

import numpy as np

from tpugraphs import results
from tpugraphs.inspect import profile as profile_lib
from tpugraphs.kernels import preparation
from tpugraphs.tuning import signatures


def profile(program: Any, *args: Any, core: int = -1) -> results.Profile:
    """Times a program and its kernels on this machine.

    Args:
        program: as for `tune`.
        *args: as for `tune`.
        core: the processor core to measure on; -1 for the last.

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
    return profile_lib.profile(read, arrays, core)
