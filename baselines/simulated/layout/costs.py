"""What one instruction costs, given the layouts of its arrays; nanoseconds.

The machine is the TPU v3 core of the tile simulator (`baselines.simulated.tpu`:
0.94 GHz, two 128 x 128 matrix units, two vector operations per cycle on 8 x 128
registers, 450 GB/s).  Every formula is a roofline:

    time [ns] = max(bytes / 450, cycles / 0.94)

    bytes     = registers * 1024 * bytes per element, of all that is read and
                written; padding is moved like anything else
    registers = elements, the fastest dimension rounded up to 128, the next to 8
    cycles    = matrix cycles + vector slots / 2

Layouts change the registers, and with them everything; what else they change is
written at each function, which takes its arrays in the layouts that they have.
Bodies of loops run as often as the loop does.
"""

import functools
import math
from typing import Tuple

import numpy as np

from baselines.simulated.hlo import Tensor
from baselines.simulated.layout.layouts import is_bitcast, order
from baselines.simulated.layout.rules import Rules
from baselines.simulated.tpu import (
    LANE_SHUFFLE,
    LANES,
    SLOTS,
    SUBLANE_SHUFFLE,
    SUBLANES,
    TPU_V3,
    registers,
    stored_bytes,
)

RANDOM_SLOTS = 20.0  # per register of random numbers; they are fused


def roofline_ns(moved_bytes: float, matrix_cycles: float = 0.0, slots: float = 0.0):
    """Returns the longer of memory and computation, ns."""
    cycles = matrix_cycles + slots / TPU_V3.slots_per_cycle
    return max(moved_bytes / TPU_V3.hbm_bytes_per_ns, cycles / TPU_V3.clock_ghz)


@functools.lru_cache(maxsize=None)
def copy_ns(source: Tensor, target: Tensor) -> float:
    """Returns the time to change an array's layout; 0 if there is nothing to do.

    Reads one, writes the other.  A new fastest dimension takes a shuffle across
    lanes (14 slots) per register.
    """
    old, new = order(source), order(target)
    if old == new:
        return 0.0
    return _rewriting_ns(source, target, LANE_SHUFFLE if old[0] != new[0] else 1.0)


@functools.lru_cache(maxsize=None)
def reshape_ns(source: Tensor, target: Tensor) -> float:
    """Returns the time of a reshape; 0 where the memory stays as it is.

    Otherwise reads and writes everything, with a shuffle across lanes per
    register.
    """
    if is_bitcast(source, target):
        return 0.0
    return _rewriting_ns(source, target, LANE_SHUFFLE)


def _rewriting_ns(source: Tensor, target: Tensor, slots: float) -> float:
    most = max(registers(source), registers(target))
    return roofline_ns(stored_bytes(source) + stored_bytes(target), slots=most * slots)


@functools.lru_cache(maxsize=None)
def elementwise_ns(opcode: str, tensor: Tensor, moved: Tuple[str, ...]) -> float:
    """Returns the time of an element-wise operation.

    All operands have, after copies, the layout of the result.  `moved` are the
    element types of what is read from memory or written to it; what is fused
    with its producer or its only consumer is not moved.
    """
    moved_bytes = sum(stored_bytes(tensor.typed(dtype)) for dtype in moved)
    return roofline_ns(moved_bytes, slots=registers(tensor) * SLOTS.get(opcode, 1.0))


@functools.lru_cache(maxsize=None)
def reduce_ns(
    source: Tensor, over: Tuple[int, ...], result: Tensor, read: bool
) -> float:
    """Returns the time of a reduction over dimensions.

    One slot per register of the input.  Reducing the fastest dimension ends
    with a shuffle across lanes (14 slots) per row of registers, the second
    fastest with one across sublanes (6 slots).  `read` says whether the input
    comes from memory.
    """
    count = registers(source)
    slots = float(count)
    shuffles = (LANE_SHUFFLE, LANES), (SUBLANE_SHUFFLE, SUBLANES)
    for dimension, (shuffle, side) in zip(source.layout, shuffles):
        if dimension in over:
            slots += shuffle * count / -(-source.dims[dimension] // side)
    moved = stored_bytes(result) + (stored_bytes(source) if read else 0)
    return roofline_ns(moved, slots=slots)


@functools.lru_cache(maxsize=None)
def product_ns(
    choices: Tuple[Tuple[Tensor, ...], ...],
    roles: Tuple[str, ...],
    rules: Rules = Rules(),
) -> np.ndarray:
    """Returns the times of a dot or convolution for all its layouts, float64.

    The output's fastest dimension (c elements, of a role `m` or `n`) lies along the
    columns of the 128 x 128 matrix unit.  With K summed elements, W window positions
    and P products (batch times window positions) of r rows each:

        passes        = P * ceil(K / 128) * ceil(c / 128)
        matrix cycles = ceil(passes / 2) * max(r, 128) + 128

    Folded, window positions are summed at once with the features, and the second
    fastest dimension is filled up to eights; fewer than `least_rows` rows take
    as long.  The pixels of an image stream past the same weights; the gradient of
    a window (which has fewer pixels than the image that it sums over) needs
    others for each of its pixels:

        passes        = batch and pixels * ceil(W K / 128) * ceil(c / 128)
        matrix cycles = passes / 2 * max(r, least_rows) + 128

    The operand that shares the columns stays in the unit and wants them fastest;
    the other one streams past and wants the summed dimension fastest.  One that
    has not is turned first, 14 slots per register.  An image whose second
    fastest dimension is its height or width is shifted across sublanes for the
    window, 6 slots per register; likewise an output.

    Args:
        choices: output, first operand, second operand, each in all its layouts.
        roles: of their dimensions (`hlo.Instruction`).
        rules: what of this counts.

    Returns:
        ns, [layouts of the output, of the first operand, of the second].
    """
    size = [_sizes(arrays[0].dims, role) for arrays, role in zip(choices, roles)]
    least = [min(map(stored_bytes, arrays)) for arrays in choices]
    shares = rules.traffic, rules.operands, rules.operands
    cycles_of = _folded_cycles if rules.folded else _matrix_cycles
    times = np.zeros([len(arrays) for arrays in choices])
    for at in np.ndindex(*times.shape):
        chosen = [arrays[i] for arrays, i in zip(choices, at)]
        moved = sum(
            low + share * (stored_bytes(array) - low)
            for array, low, share in zip(chosen, least, shares)
        )
        slots = rules.turns * _turning_slots(chosen, roles, size)
        times[at] = roofline_ns(moved, cycles_of(chosen[0], size, rules), slots)
    return times


def _matrix_cycles(output, size, rules) -> float:
    del rules
    columns = output.dims[output.layout[0]]
    rows = math.prod(output.dims) / (size[0]['b'] * columns)
    passes = size[0]['b'] * size[2]['w'] * -(-size[1]['k'] // 128)
    passes *= -(-columns // 128)
    cycles = -(-passes // TPU_V3.matrix_units) * max(rows, TPU_V3.matrix_side)
    return cycles + TPU_V3.matrix_side


def _folded_cycles(output, size, rules) -> float:
    columns, second = (*(output.dims[d] for d in output.layout), 1)[:2]
    rows = -(-second // 8) * 8
    others = max(math.prod(output.dims) / (columns * second), 1.0)
    if size[2]['w'] <= size[0]['s']:
        # No gradient of a window: everything but batches of products streams.
        rows *= max(others / size[0]['b'], 1.0)
        others = size[0]['b']
    depth = -(-size[1]['k'] * size[2]['w'] // 128)
    passes = others * depth * -(-columns // 128)
    cycles = passes / TPU_V3.matrix_units * max(rows, rules.least_rows)
    return cycles + TPU_V3.matrix_side


def _turning_slots(arrays, roles, size) -> float:
    """Of output, first and second operand."""

    def role(t, place):
        return roles[t][arrays[t].layout[place]]

    slots = 0.0
    # First operand streams, second stays; the other way round for 'm'.
    wanted = ('k', 'n') if role(0, 0) == 'n' else ('m', 'k')
    for t, letter in zip((1, 2), wanted):
        if role(t, 0) != letter:
            slots += LANE_SHUFFLE * registers(arrays[t])
    for t in (0, 1):
        if size[2]['w'] > 1 and role(t, 1) == 's':
            slots += SUBLANE_SHUFFLE * registers(arrays[t])
    return slots


def _sizes(dims: Tuple[int, ...], roles: str) -> dict:
    found = dict.fromkeys('bmnksw', 1)
    for size, role in zip(dims, roles):
        found[role] *= size
    return found
