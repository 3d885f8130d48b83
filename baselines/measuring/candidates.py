"""Which tile sizes a kernel can have."""

import itertools
import math
from typing import Any, List, Sequence

import numpy as np

from baselines.measuring import building
from baselines.measuring import extents
from baselines.measuring import kernels
from baselines.measuring import tiling

# A loop has at most so many rounds; each costs about a tenth of a microsecond.
MOST_TRIPS = 2048
# Bytes of an output tile: more does not fit into a core's own cache.
FOOTPRINT = 4 << 20


def sizes(size: int, whole_only: bool, divisors_only: bool = False) -> List[int]:
    """Returns the tile sizes of a dimension, ascending: 1, 2, 4, ... and divisors.

    Args:
        size: of the dimension.
        whole_only: it cannot be tiled.
        divisors_only: leaves out what does not divide it.
    """
    if whole_only:
        return [size]
    powers = {1 << n for n in range(size.bit_length())}
    divisors = {d for d in range(1, math.isqrt(size) + 1) if not size % d}
    divisors |= {size // d for d in divisors}
    found = powers | divisors
    return sorted(d for d in found if not (divisors_only and size % d))


def draw(plan: tiling.Plan, rng: np.random.Generator, count: int) -> List[tiling.Tiles]:
    """Returns distinct configurations of a kernel; the untiled one is the first.

    Of few possible ones all are taken, of many `count` are drawn. Every second
    dimension is left whole, since tiles of all dimensions are mostly small. Every
    fifth has size one: XLA drops such dimensions and then has another kernel to
    compile (of a convolution of one pixel a product).

    Args:
        plan: of the kernel.
        rng: draws.
        count: how many at most, with the untiled one.
    """
    output, reduced = plan.tileable()
    choices = [sizes(n, not free) for n, free in zip(plan.output, output)]
    choices += [sizes(n, not free, True) for n, free in zip(plan.reduced, reduced)]
    outputs = len(plan.output)

    def tiles(parts: Sequence[int]) -> tiling.Tiles:
        return tiling.Tiles(tuple(parts[:outputs]), tuple(parts[outputs:]))

    found = {plan.untiled: None}
    possible = math.prod(map(len, choices))
    if possible <= 4 * count:
        every = [tiles(parts) for parts in itertools.product(*choices)]
        for index in rng.permutation(len(every)):
            if fits(plan, every[index]):
                found[every[index]] = None
        return list(found)[:count]
    for _ in range(50 * count):
        if len(found) == count:
            break
        kinds = rng.random(len(choices))
        drawn = tiles(
            [
                s[-1] if kind < 0.5 else s[0 if kind < 0.7 else rng.integers(len(s))]
                for s, kind in zip(choices, kinds)
            ]
        )
        if fits(plan, drawn):
            found[drawn] = None
    return list(found)


def fits(plan: tiling.Plan, tiles: tiling.Tiles) -> bool:
    """Whether a configuration is worth a try."""
    trips = extents.trips(plan.output, tiles.output)
    trips *= extents.trips(plan.reduced, tiles.kernel)
    share = math.prod(tiles.output) / max(1, math.prod(plan.output))
    footprint = share * building.num_bytes(plan.root.shape)
    return trips <= MOST_TRIPS and footprint <= FOOTPRINT


def inputs_of(module: Any) -> List[dict]:
    """Returns what a worker has to know of each parameter of a module."""
    entry = kernels.entry_of(module)
    parameters = [i for i in entry.instructions if i.opcode == 'parameter']
    parameters.sort(key=lambda i: i.parameter_number)
    # Integers may be rows of another parameter.
    longest = max((n for p in parameters for n in p.shape.dimensions[:1]), default=2)
    return [
        {
            'type': building.NUMPY_TYPES[p.shape.element_type],
            'dims': list(p.shape.dimensions),
            'high': max(2, longest),
        }
        for p in parameters
    ]
