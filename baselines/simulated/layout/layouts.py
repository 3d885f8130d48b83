"""Layouts of arrays: which are tried, what they cost in padding, how they are written.

A layout is written minor to major, as HLO does: (1, 0) is row major.  A TPU
keeps arrays in registers of 8 x 128 elements, so that the fastest dimension is
padded to a multiple of 128 and the next one to a multiple of 8.
"""

import functools
import itertools
from typing import List, NamedTuple, Tuple

import numpy as np

from baselines.simulated import tpu
from baselines.simulated.hlo import Instruction

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


def row_major(rank: int) -> Layout:
    """Returns the layout in which the last dimension is the fastest."""
    return tuple(range(rank - 1, -1, -1))


@functools.lru_cache(maxsize=None)
def registers(dims: Tuple[int, ...], layout: Layout) -> int:
    """Returns how many 8 x 128 registers an array fills."""
    fastest_first = np.array([[dims[d] for d in layout]], np.int64)
    return int(tpu.in_registers(fastest_first).prod())


@functools.lru_cache(maxsize=None)
def same(dims: Tuple[int, ...], a: Layout, b: Layout) -> bool:
    """Returns whether two layouts are the same memory; size 1 has no place."""
    return [d for d in a if dims[d] > 1] == [d for d in b if dims[d] > 1]


@functools.lru_cache(maxsize=None)
def is_bitcast(
    source: Tuple[int, ...], a: Layout, target: Tuple[int, ...], b: Layout
) -> bool:
    """Returns whether a reshape, from layout a to b, leaves the memory as it is.

    All elements must keep their place, and the registers their content: same size
    of the fastest dimension, and of the second, where that is not a multiple of 8.
    """
    # An array in name only; numpy knows which reshapes need no copy.
    memory = np.lib.stride_tricks.as_strided(np.empty(1), source, _strides(source, a))
    try:
        memory.shape = target
    except AttributeError:
        return False
    places = zip(target, memory.strides, _strides(target, b))
    if any(size > 1 and found != wanted for size, found, wanted in places):
        return False
    fastest, seconds = zip(_two_fastest(source, a), _two_fastest(target, b))
    if fastest[0] != fastest[1]:
        return False
    seconds = set(seconds)
    return len(seconds) == 1 or all(s % 8 == 0 for s in seconds)


def slots_of(node: int, instruction: Instruction) -> List[Slot]:
    """Returns the tensors of a configurable instruction, with their candidates.

    Convolutions try the orders of their two dimensions that are no image or
    window, and row major; products everything whose fastest dimension is no
    batch dimension; reshapes everything.
    """
    tensors = [instruction.shape, *(o.shape for o in instruction.operands)]
    slots = []
    for t, tensor in enumerate(tensors):
        roles = instruction.roles[t] or '.' * len(tensor.dims)
        layouts = _candidates(tensor.dims, roles)
        default, written = 0, len(roles)
        if instruction.opcode == 'convolution':
            # Of the layouts that keep the last dimension fastest, the least padded.
            kept = [l for l in layouts if l[0] == len(tensor.dims) - 1]
            padded = [registers(tensor.dims, l) for l in kept]
            default, written = layouts.index(kept[padded.index(min(padded))]), 2
        slots.append(Slot(node, t, layouts, default, written))
    return slots


@functools.lru_cache(maxsize=None)
def _candidates(dims: Tuple[int, ...], roles: str) -> Tuple[Layout, ...]:
    """Row major, then what pads least, at most `MAX_CANDIDATES`."""
    rank = len(dims)
    usual = row_major(rank)
    image = 's' in roles or 'w' in roles
    found = {usual: registers(dims, usual)}
    for pair in itertools.permutations(usual, min(rank, 2)):
        letters = [roles[d] for d in pair]
        if image and set(letters) & set('sw') or letters[:1] == ['b']:
            continue
        layout = (*pair, *(d for d in usual if d not in pair))
        if not any(same(dims, layout, other) for other in found):
            found[layout] = registers(dims, layout)
    least = min(found.values())
    kept = [l for l in found if l == usual or found[l] <= MAX_WASTE * least]
    return tuple(sorted(kept, key=lambda l: (l != usual, found[l], l))[:MAX_CANDIDATES])


def _strides(dims: Tuple[int, ...], layout: Layout) -> Tuple[int, ...]:
    steps = np.cumprod([1, *(dims[d] for d in layout)])
    return tuple(int(steps[layout.index(d)]) for d in range(len(dims)))


def _two_fastest(dims, layout):
    sizes = [dims[d] for d in layout if dims[d] > 1]
    return (*sizes, 1, 1)[:2]
