"""Layouts of arrays: which are tried, what they cost in padding, how they are written.

A layout is written minor to major, as HLO does: (1, 0) is row major.  A TPU
keeps arrays in registers of 8 x 128 elements, so that the fastest dimension is
padded to a multiple of 128 and the next one to a multiple of 8.
"""

import functools
import itertools
from typing import List, NamedTuple, Tuple

import numpy as np

from baselines.simulated.hlo import Instruction, Tensor
from baselines.simulated.tpu import registers

Layout = Tuple[int, ...]

CONFIGURABLE = frozenset(('convolution', 'dot', 'reshape'))
WIDTH = 6  # values per tensor in node_config_feat

MAX_CANDIDATES = 6
# A layout that pads this many times more than the best one is not tried.
MAX_WASTE = 4.0


class Slot(NamedTuple):
    """One tensor whose layout a configuration chooses."""

    node: int  # position of its instruction among the configurable ones
    tensor: int  # 0 output, 1 input, 2 kernel (second operand)
    layouts: Tuple[Layout, ...]  # what it can be
    default: int  # index of the one that a compiler takes without measuring
    # how many of the values a configuration lists; the others are row major
    written: int


def order(tensor: Tensor) -> Layout:
    """Returns the dimensions, fastest first; size 1 has no place."""
    return tuple(d for d in tensor.layout if tensor.dims[d] > 1)


@functools.lru_cache(maxsize=None)
def is_bitcast(source: Tensor, target: Tensor) -> bool:
    """Returns whether a reshape leaves the memory as it is.

    All elements must keep their place, and the registers their content: same size
    of the fastest dimension, and of the second, where that is not a multiple of 8.
    """
    # An array in name only; numpy knows which reshapes need no copy.
    memory = np.lib.stride_tricks.as_strided(np.empty(1), source.dims, _strides(source))
    try:
        memory.shape = target.dims
    except AttributeError:
        return False
    places = zip(target.dims, memory.strides, _strides(target))
    if any(size > 1 and found != wanted for size, found, wanted in places):
        return False
    fastest, seconds = zip(_two_fastest(source), _two_fastest(target))
    if fastest[0] != fastest[1]:
        return False
    return seconds[0] == seconds[1] or all(size % 8 == 0 for size in seconds)


def slots_of(node: int, instruction: Instruction) -> List[Slot]:
    """Returns the tensors of a configurable instruction, with their candidates.

    Convolutions try the orders of their two dimensions that are no image or
    window, and row major; products everything whose fastest dimension is no
    batch dimension; reshapes everything.
    """
    tensors = [instruction.shape, *(o.shape for o in instruction.operands)]
    slots = []
    for t, tensor in enumerate(tensors):
        layouts = _candidates(tensor, instruction.roles[t] or '.' * len(tensor.dims))
        default, written = 0, len(tensor.dims)
        if instruction.opcode == 'convolution':
            # Of the layouts that keep the last dimension fastest, the least padded.
            kept = [l for l in layouts if l[0] == len(tensor.dims) - 1]
            least = min(kept, key=lambda l, t=tensor: registers(t.ordered(l)))
            default, written = layouts.index(least), 2
        slots.append(Slot(node, t, layouts, default, written))
    return slots


@functools.lru_cache(maxsize=None)
def _candidates(tensor: Tensor, roles: str) -> Tuple[Layout, ...]:
    """Row major, then what pads least, at most `MAX_CANDIDATES`."""
    usual = tensor.layout
    image = 's' in roles or 'w' in roles
    found = {order(tensor): (usual, registers(tensor))}
    for pair in itertools.permutations(usual, min(len(usual), 2)):
        letters = [roles[d] for d in pair]
        if image and set(letters) & set('sw') or letters[:1] == ['b']:
            continue
        layout = (*pair, *(d for d in usual if d not in pair))
        turned = tensor.ordered(layout)
        found.setdefault(order(turned), (layout, registers(turned)))
    least = min(count for _, count in found.values())
    kept = [
        (layout != usual, count, layout)
        for layout, count in found.values()
        if layout == usual or count <= MAX_WASTE * least
    ]
    return tuple(layout for _, _, layout in sorted(kept)[:MAX_CANDIDATES])


def _strides(tensor: Tensor) -> Tuple[int, ...]:
    steps = np.cumprod([1, *(tensor.dims[d] for d in tensor.layout)])
    return tuple(int(steps[tensor.layout.index(d)]) for d in range(len(tensor.dims)))


def _two_fastest(tensor: Tensor) -> Tuple[int, int]:
    sizes = [tensor.dims[d] for d in order(tensor)]
    return (*sizes, 1, 1)[:2]
