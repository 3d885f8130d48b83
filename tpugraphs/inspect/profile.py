"""Times the kernels of a program, to show where its time goes.

profiled = profile(preparation.load('my_program.py:step'))
print(profiled)
"""

from __future__ import annotations

from collections.abc import Sequence
import time

import numpy as np

from baselines.core import phases
from baselines.hlo import protos
from tpugraphs.clock import session as session_lib
from tpugraphs.clock import timing
from tpugraphs.inspect import kernel_table
from tpugraphs.inspect import kernel_times
from tpugraphs.kernels import building
from tpugraphs.kernels import cutting
from tpugraphs.kernels import preparation
from tpugraphs.kernels import removal
from tpugraphs.programs import reader

_PASSES = 10
_SEED = 0
# What the machine reaches is measured on a copy of so many floats, which no cache
# holds, and on a product of two square matrices.
_COPIED = 1 << 24
_SIDE = 1024


def profile(
    program: reader.Program,
    arrays: list[np.ndarray] | None = None,
    core: int = -1,
    platform: str = 'cpu',
    seconds: float = kernel_times.SECONDS,
) -> kernel_times.Profile:
    """Times a program, and each of its kernels alone with random inputs.

    The time of an empty call is subtracted from all times.

    Args:
        program: from `preparation.load`.
        arrays: its arguments; None for random ones.
        core: the core to measure on; -1 for the last.
        platform: 'cpu' or 'gpu'.
        seconds: of wall time after which the program, or a kernel, is given up.

    Raises:
        ValueError: XLA cannot compile the program, it has no kernels, or `seconds` is
            not above 0.
    """
    if not seconds > 0:
        raise ValueError(f'seconds={seconds:g}: give more than 0')
    with session_lib.Session(core, platform) as session:
        optimised = preparation.optimise(program, session)
        kernels, skipped = cutting.cut(optimised, program.name)
        reached = _reached(session)
        call_ns = int(reached['call_ns'])
        whole_ns: int | None = None
        problem = ''
        if preparation.is_optimised(program.module):
            problem = "it is optimized already; give it as it was before XLA's passes"
        elif program.cut_out:  # what stands in its place waits forever
            problem = f'cut out: {removal.described(program.cut_out)}'
        else:
            try:
                whole = _time(session, program.name, program.module, seconds, arrays)
                whole_ns = max(1, whole - call_ns)
            except session_lib.WorkerError as error:
                problem = str(error)
        timed = []
        for kernel in phases.each(kernels, 'timing', len(kernels), 'kernel'):
            try:
                once = _time(session, kernel.name, kernel.module, seconds)
                timed.append((kernel, max(1, once - call_ns)))
            except session_lib.WorkerError as error:
                skipped[str(error)] += len(kernel.places)
    if not timed:
        why = '; '.join(skipped) or 'it has none'
        raise ValueError(f'{program.source}: no kernel could be timed: {why}')
    # Shares are of the program's time, or of the sum if it could not be timed.
    total = whole_ns or sum(once * len(kernel.places) for kernel, once in timed)
    rows = [_row(kernel, once, total, reached) for kernel, once in timed]
    rows.sort(key=lambda row: -row.share)
    return kernel_times.Profile(
        rows, program.name, whole_ns, problem, reached, dict(skipped)
    )


def _time(
    session: session_lib.Session,
    name: str,
    module: protos.HloModuleProto,
    seconds: float,
    arrays: Sequence[np.ndarray] | None = None,
) -> int:
    """Returns the nanoseconds of one execution; raises WorkerError."""
    began = time.monotonic()
    try:
        measured = session.measure(
            name,
            [module.SerializeToString()],
            cutting.inputs_of(module, balanced=True) if arrays is None else [*arrays],
            _SEED,
            timing.Protocol(_PASSES, _PASSES, deadline=seconds),
        )
    except session_lib.WorkerError as error:
        if time.monotonic() - began < seconds:
            raise
        raise _too_long(seconds) from error
    if not len(measured.passes):
        raise _too_long(seconds)
    return int(measured.times[0])


def _too_long(seconds: float) -> session_lib.WorkerError:
    return session_lib.WorkerError(
        f'{timing.TOO_LONG} {seconds:g} s; allow more seconds'
    )


def _reached(session: session_lib.Session) -> dict[str, float]:
    """Measures an empty call, a copy and a product of matrices; raises ValueError."""
    seconds = kernel_times.SECONDS
    try:
        call_ns = _time(session, 'call', _module('copy', []), seconds)
        copy_ns = _time(session, 'copy', _module('copy', [_COPIED]), seconds)
        product_ns = _time(session, 'product', _module('dot', [_SIDE] * 2), seconds)
    except session_lib.WorkerError as error:
        raise ValueError(f'this machine cannot be measured: {error}') from error
    # Bytes read and written, 4 to a float; multiply-adds of the product.
    moved, terms = 2 * 4 * _COPIED, _SIDE**3
    return {
        'call_ns': call_ns,
        'bytes_per_second': 1e9 * moved / max(1, copy_ns - call_ns),
        'flops_per_second': 1e9 * 2 * terms / max(1, product_ns - call_ns),
    }


def _module(opcode: str, dims: Sequence[int]) -> protos.HloModuleProto:
    """Returns the module of a copy, or of the product of two matrices, of float32."""
    module = building.Module(opcode)
    entry, shape = module.computation('entry'), building.shape_of('f32', dims)
    operands = [entry.parameter(shape)]
    if opcode == 'dot':
        operands.append(entry.parameter(shape))
    root = entry.add(opcode, shape, operands)
    if opcode == 'dot':
        root.dot_dimension_numbers.lhs_contracting_dimensions.append(1)
        root.dot_dimension_numbers.rhs_contracting_dimensions.append(0)
    return module.finish(entry, root)


def _row(
    kernel: cutting.Kernel, once_ns: int, total_ns: int, reached: dict[str, float]
) -> kernel_times.KernelTime:
    """Describes a timed kernel."""
    entry = cutting.entry_of(kernel.module)
    arrays = [i.shape for i in entry.instructions if i.opcode == 'parameter']
    arrays.append(cutting.root_of(entry).shape)
    moved = sum(map(building.num_bytes, arrays))
    flops = 2 * kernel_table.multiply_adds(kernel.module)
    seconds = once_ns / 1e9
    return kernel_times.KernelTime(
        name=kernel.origin,
        times=len(kernel.places),
        shape=building.shape_text(kernel.places[0].pieces[-1].shape),
        time_ns=once_ns,
        share=once_ns * len(kernel.places) / total_ns,
        bytes=moved,
        flops=flops,
        of_bandwidth=moved / seconds / reached['bytes_per_second'],
        of_compute=flops / seconds / reached['flops_per_second'],
    )
