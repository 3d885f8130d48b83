"""What the tiles of a kernel fill and move: registers, pieces of memory, visits.

The formulas stand in `baselines.simulated.tpu`.
"""

from typing import Sequence, Tuple

import numpy as np

from baselines.simulated.hlo import Tensor
from baselines.simulated.tile.tiles import Space
from baselines.simulated.tpu import TPU_V3, Chip, in_registers, register_bytes


class Tiling:
    """Tiles [c, axes] of a kernel's axes with what every formula needs of them."""

    def __init__(self, space: Space, tiles: np.ndarray):
        self.tiles = tiles
        self.trips_per_axis = -(-np.array(space.sizes, np.int64) // tiles)
        order = list(space.loops)
        running = np.cumprod(self.trips_per_axis[:, order], axis=1, dtype=np.float64)
        self._running = {axis: running[:, i] for i, axis in enumerate(order)}
        self.trips = running[:, -1]

    def visits(self, axes: Sequence[int]) -> np.ndarray:
        """Times that something that moves with `axes` changes, float64 [c]."""
        count = np.ones(len(self.tiles))
        for axis in axes:
            moves = self.trips_per_axis[:, axis] > 1
            count = np.maximum(count, np.where(moves, self._running[axis], 1.0))
        return count

    def part(self, tensor: Tensor) -> np.ndarray:
        """Elements of each logical dimension in one tile, int64 [c, rank]."""
        part = np.empty((len(self.tiles), len(tensor.dims)), np.int64)
        for dim, (size, follow) in enumerate(zip(tensor.dims, tensor.axes)):
            if follow is None:
                part[:, dim] = size
                continue
            tile = self.tiles[:, follow.axis]
            if follow.window_axis is None:
                covered = -(-follow.numerator * tile // follow.denominator)
            else:
                covered = (tile - 1) * follow.numerator
                covered = covered + self.tiles[:, follow.window_axis]
            part[:, dim] = np.minimum(covered, size)
        return part


def axes_of(tensor: Tensor) -> Tuple[int, ...]:
    """Returns the axes that move the tensor's tile."""
    follows = [follow for follow in tensor.axes if follow is not None]
    found = {a for f in follows for a in (f.axis, f.window_axis) if a is not None}
    return tuple(sorted(found))


def physical(values: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Reorders columns from logical dimensions to fastest dimension first."""
    return values[:, list(tensor.layout)]


def registers(tensor: Tensor, tiling: Tiling) -> np.ndarray:
    """Returns the 8 x 128 registers that a full tile of `tensor` fills, [c]."""
    return units(tensor, tiling).prod(axis=1).astype(np.float64)


def mean_registers(tensor: Tensor, tiling: Tiling, first: int = 0) -> np.ndarray:
    """Returns the registers that a tile fills on average, float64 [c].

    The last tile along an axis is cut off where the tensor ends.  Inputs of
    convolutions overlap, so theirs are taken as full; so are the `first`
    fastest dimensions.
    """
    mean = units(tensor, tiling).astype(np.float64)
    whole = whole_units(tensor)
    for place, dim in enumerate(tensor.layout[first:], first):
        follow = tensor.axes[dim]
        if follow is not None and follow.window_axis is None:
            trips = tiling.trips_per_axis[:, follow.axis]
            mean[:, place] = np.minimum(mean[:, place], whole[place] / trips)
    return mean.prod(axis=1)


def units(tensor: Tensor, tiling: Tiling) -> np.ndarray:
    """Returns the registers of a tile per dimension, fastest first: [c, rank]."""
    return in_registers(physical(tiling.part(tensor), tensor))


def whole_units(tensor: Tensor) -> np.ndarray:
    """Returns those of the whole tensor, [rank]."""
    return in_registers(physical(np.array([tensor.dims], np.int64), tensor))[0]


def tile_bytes(tensor: Tensor, tiling: Tiling) -> np.ndarray:
    """Returns the bytes of a full tile, in whole registers, float64 [c]."""
    return registers(tensor, tiling) * register_bytes(tensor)


def contiguous_runs(tensor: Tensor, tiling: Tiling) -> np.ndarray:
    """Returns the contiguous pieces of HBM that a tile consists of, float64 [c].

    HBM holds whole registers, fastest dimension first: a piece goes on into
    the next dimension only where the tile covers all faster ones.
    """
    tile, whole = units(tensor, tiling), whole_units(tensor)
    runs = np.ones(len(tile))
    covered = np.ones(len(tile), bool)
    for place in range(tile.shape[1]):
        runs *= np.where(covered, 1, tile[:, place])
        covered &= tile[:, place] == whole[place]
    return runs


def transfer_ns(tensor: Tensor, tiling: Tiling, chip: Chip = TPU_V3) -> np.ndarray:
    """Returns the time to move one tile of `tensor` on average, ns, [c]."""
    moved = mean_registers(tensor, tiling) * register_bytes(tensor)
    return moved / chip.hbm_bytes_per_ns + contiguous_runs(tensor, tiling) * chip.run_ns
