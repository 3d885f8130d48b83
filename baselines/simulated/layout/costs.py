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
written at each function.  Bodies of loops run as often as the loop does.
"""

import functools
import math
from typing import Tuple

import numpy as np

from baselines.simulated.hlo import Tensor
from baselines.simulated.layout.layouts import Layout, is_bitcast, registers, same
from baselines.simulated.layout.rules import Rules
from baselines.simulated.tpu import BYTES, LANE_SHUFFLE, SLOTS, SUBLANE_SHUFFLE, TPU_V3

_REGISTER = 8 * 128
RANDOM_SLOTS = 20.0  # per register of random numbers; they are fused


def roofline_ns(moved_bytes: float, matrix_cycles: float = 0.0, slots: float = 0.0):
    """Returns the longer of memory and computation, ns."""
    cycles = matrix_cycles + slots / TPU_V3.slots_per_cycle
    return max(moved_bytes / TPU_V3.hbm_bytes_per_ns, cycles / TPU_V3.clock_ghz)


def stored_bytes(tensor: Tensor, layout: Layout) -> int:
    """Returns the bytes that an array takes, padding included."""
    return registers(tensor.dims, layout) * _REGISTER * BYTES[tensor.dtype]


@functools.lru_cache(maxsize=None)
def copy_ns(tensor: Tensor, source: Layout, target: Layout) -> float:
    """Returns the time to change an array's layout; 0 if there is nothing to do.

    Reads one, writes the other.  A new fastest dimension takes a shuffle across
    lanes (14 slots) per register.
    """
    if same(tensor.dims, source, target):
        return 0.0
    moved = stored_bytes(tensor, source) + stored_bytes(tensor, target)
    most = max(registers(tensor.dims, source), registers(tensor.dims, target))
    turned = _fastest(tensor, source) != _fastest(tensor, target)
    return roofline_ns(moved, slots=most * (LANE_SHUFFLE if turned else 1.0))


@functools.lru_cache(maxsize=None)
def reshape_ns(source: Tensor, a: Layout, target: Tensor, b: Layout) -> float:
    """Returns the time of a reshape; 0 where the memory stays as it is.

    Otherwise reads and writes everything, with a shuffle across lanes per
    register.
    """
    if is_bitcast(source.dims, a, target.dims, b):
        return 0.0
    most = max(registers(source.dims, a), registers(target.dims, b))
    moved = stored_bytes(source, a) + stored_bytes(target, b)
    return roofline_ns(moved, slots=most * LANE_SHUFFLE)


@functools.lru_cache(maxsize=None)
def elementwise_ns(
    opcode: str, tensor: Tensor, layout: Layout, moved: Tuple[str, ...]
) -> float:
    """Returns the time of an element-wise operation.

    All operands have, after copies, the layout of the result.  `moved` are the
    element types of what is read from memory or written to it; what is fused
    with its producer or its only consumer is not moved.
    """
    count = registers(tensor.dims, layout)
    moved_bytes = count * _REGISTER * sum(BYTES[dtype] for dtype in moved)
    return roofline_ns(moved_bytes, slots=count * SLOTS.get(opcode, 1.0))


@functools.lru_cache(maxsize=None)
def reduce_ns(
    tensor: Tensor,
    layout: Layout,
    over: Tuple[int, ...],
    result: Tensor,
    result_layout: Layout,
    read: bool,
) -> float:
    """Returns the time of a reduction over dimensions.

    One slot per register of the input.  Reducing the fastest dimension ends
    with a shuffle across lanes (14 slots) per row of registers, the second
    fastest with one across sublanes (6 slots).  `read` says whether the input
    comes from memory.
    """
    count = registers(tensor.dims, layout)
    slots = float(count)
    if layout and layout[0] in over:
        slots += LANE_SHUFFLE * count / -(-tensor.dims[layout[0]] // 128)
    if len(layout) > 1 and layout[1] in over:
        slots += SUBLANE_SHUFFLE * count / -(-tensor.dims[layout[1]] // 8)
    moved = stored_bytes(result, result_layout)
    moved += stored_bytes(tensor, layout) if read else 0
    return roofline_ns(moved, slots=slots)


@functools.lru_cache(maxsize=None)
def product_ns(
    tensors: Tuple[Tensor, ...],
    roles: Tuple[str, ...],
    choices: Tuple[Tuple[Layout, ...], ...],
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
        tensors: output, first operand, second operand.
        roles: of their dimensions (`ops.Product`).
        choices: the layouts of each.
        rules: what of this counts.

    Returns:
        ns, [layouts of the output, of the first operand, of the second].
    """
    size = [_sizes(tensor.dims, role) for tensor, role in zip(tensors, roles)]
    shape = [len(layouts) for layouts in choices]
    times = np.zeros(shape)
    stored = [
        [stored_bytes(tensor, layout) for layout in layouts]
        for tensor, layouts in zip(tensors, choices)
    ]
    shares = rules.traffic, rules.operands, rules.operands
    for at in np.ndindex(*shape):
        layouts = [each[i] for each, i in zip(choices, at)]
        moved = sum(
            min(each) + share * (each[i] - min(each))
            for each, i, share in zip(stored, at, shares)
        )
        cycles_of = _folded_cycles if rules.folded else _matrix_cycles
        times[at] = roofline_ns(
            moved,
            cycles_of(tensors[0], layouts[0], size, rules),
            rules.turns * _turning_slots(tensors, roles, layouts, size),
        )
    return times


def _matrix_cycles(output, layout, size, rules) -> float:
    del rules
    columns = output.dims[layout[0]]
    rows = math.prod(output.dims) / (size[0]['b'] * columns)
    passes = size[0]['b'] * size[2]['w'] * -(-size[1]['k'] // 128)
    passes *= -(-columns // 128)
    cycles = -(-passes // TPU_V3.matrix_units) * max(rows, TPU_V3.matrix_side)
    return cycles + TPU_V3.matrix_side


def _folded_cycles(output, layout, size, rules) -> float:
    columns = output.dims[layout[0]]
    second = output.dims[layout[1]] if len(layout) > 1 else 1
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


def _turning_slots(tensors, roles, layouts, size) -> float:
    slots = 0.0
    # First operand streams, second stays; the other way round for 'm'.
    wanted = ('k', 'n') if roles[0][layouts[0][0]] == 'n' else ('m', 'k')
    for t, role in zip((1, 2), wanted):
        if roles[t][layouts[t][0]] != role:
            slots += LANE_SHUFFLE * registers(tensors[t].dims, layouts[t])
    for t in (0, 1):
        if size[2]['w'] > 1 and roles[t][layouts[t][1]] == 's':
            slots += SUBLANE_SHUFFLE * registers(tensors[t].dims, layouts[t])
    return slots


def _sizes(dims: Tuple[int, ...], roles: str) -> dict:
    found = dict.fromkeys('bmnksw', 1)
    for size, role in zip(dims, roles):
        found[role] *= size
    return found


def _fastest(tensor: Tensor, layout: Layout) -> int:
    return next(d for d in layout if tensor.dims[d] > 1)
