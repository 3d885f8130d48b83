"""Tiles of a simulated kernel: candidates, their 24 feature columns, what they move.

As in the real files, bounds are listed in physical order (slowest dimension
first) and count in units of the 8 x 128 register: 128 elements in the fastest
dimension, 8 in the second fastest, 1 in the others; 1,024 for rank 1.
"""

from typing import NamedTuple, Sequence, Tuple

import numpy as np

from baselines.simulated.hlo import Tensor
from baselines.simulated.tpu import (
    LANES,
    SUBLANES,
    in_registers,
    register_bytes,
    whole_units,
)

Bounds = Tuple[Tuple[int, int], ...]  # (axis, elements per unit), slowest first


class Space(NamedTuple):
    """The axes that a kernel loops over, and how a tile of them is written."""

    sizes: Tuple[int, ...]  # elements per axis
    output_bounds: Bounds  # what the columns of the output tile show
    kernel_bounds: Bounds = ()  # likewise of a matrix product's second operand
    input_bounds: Bounds = ()  # likewise of the operand of a transposition
    # axes of a reduction; they run inside the axes that are kept
    reduced: Tuple[int, ...] = ()
    # axes of a matrix product's sum; they run innermost
    contracted: Tuple[int, ...] = ()
    whole: Tuple[int, ...] = ()  # axes that no tile cuts; the second simulator's

    @property
    def loops(self) -> Tuple[int, ...]:
        """All axes, outermost loop first."""
        inner = set(self.reduced) | set(self.contracted)
        order = [axis for axis, _ in self.output_bounds]
        kept = [axis for axis in order if axis not in inner]
        reduced = [axis for axis in order if axis in self.reduced]
        return (*kept, *reduced, *self.contracted)

    @property
    def steps(self) -> Tuple[int, ...]:
        """Per axis, elements of which every tile is a multiple, or the whole."""
        steps = [1] * len(self.sizes)
        listed = (*self.output_bounds, *self.kernel_bounds, *self.input_bounds)
        for axis, unit in listed:
            steps[axis] = max(steps[axis], unit)
            size = self.sizes[axis]
            if axis in self.contracted and unit > 1:
                # The matrix unit sums over 128 at a time; short sums are cut finer.
                steps[axis] = max(unit, LANES if size > LANES else min(32, size))
        return tuple(steps)


def bounds_of(tensor: Tensor) -> Bounds:
    """Returns the bounds of the dimensions that follow an axis, slowest first."""
    rank = len(tensor.dims)
    units = {0: LANES, 1: SUBLANES} if rank > 1 else {0: SUBLANES * LANES}
    return tuple(
        (tensor.axes[dim].axis, units.get(place, 1))
        for place, dim in reversed(list(enumerate(tensor.layout)))
        if tensor.axes[dim] is not None
    )


def space_of(tensor: Tensor, **fields) -> Space:
    """Returns the axes of a kernel that loops over the dimensions of `tensor`."""
    return Space(tensor.dims, bounds_of(tensor), **fields)


def axis_candidates(size: int, step: int, odd: int = 1) -> np.ndarray:
    """Returns the tile sizes tried along one axis, elements, ascending.

    In steps: the whole divided by 1, 2, 3, ... and rounded up, and the powers of
    two times 1, 3, ..., `odd`.  The largest is the whole axis.
    """
    whole = -(-size // step)
    parts = -(-whole // np.arange(1, whole + 1))
    powers = 2 ** np.arange(whole.bit_length())
    powers = np.outer(np.arange(1, odd + 1, 2), powers).ravel()
    steps = np.unique(np.concatenate([parts, powers[powers <= whole]]))
    return np.minimum(steps * step, size)


def candidates(space: Space, rng: np.random.Generator, draws: int) -> np.ndarray:
    """Draws distinct tiles, all combinations of `axis_candidates` alike.

    Axes are cut finer where that leaves fewer than `draws` combinations; no more
    than that are returned: int64 [c, axes], elements, rows sorted.
    """
    for odd in (1, 3, 5, 7, 15, 31, 63):
        choices = [
            axis_candidates(size, step, odd)
            for size, step in zip(space.sizes, space.steps)
        ]
        combinations = np.prod([float(len(c)) for c in choices])
        if combinations >= draws:
            break
    columns = [c[rng.integers(len(c), size=draws)] for c in choices]
    return np.unique(np.stack(columns, axis=1).astype(np.int64), axis=0)


def config_features(space: Space, tiles: np.ndarray) -> np.ndarray:
    """Returns the 24 configuration columns of tiles [c, axes], float32 [c, 24].

    Kernel, output and input bounds, each as 6 values padded with 0, their sum
    and their product; bounds that a kernel lacks are 0 in all 8 columns.
    """
    blocks = [
        _block(bounds, tiles)
        for bounds in (space.kernel_bounds, space.output_bounds, space.input_bounds)
    ]
    return np.concatenate(blocks, axis=1).astype(np.float32)


def _block(bounds: Bounds, tiles: np.ndarray) -> np.ndarray:
    block = np.zeros((len(tiles), 8), np.int64)
    if bounds:
        axes, units = np.array(bounds).T
        values = -(-tiles[:, axes] // units)
        block[:, : len(bounds)] = values
        block[:, 6] = values.sum(axis=1)
        block[:, 7] = values.prod(axis=1)
    return block


class Tiling:
    """Tiles [c, axes] of a kernel's axes with what every formula needs of them.

    What they fill and move: registers, pieces of memory, visits.  The formulas stand
    in `baselines.simulated.tpu`.
    """

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

    def physical(self, tensor: Tensor) -> np.ndarray:
        """The same, fastest dimension first."""
        return self.part(tensor)[:, list(tensor.layout)]

    def units(self, tensor: Tensor) -> np.ndarray:
        """Registers of a tile per dimension, fastest first: [c, rank]."""
        return in_registers(self.physical(tensor))

    def registers(self, tensor: Tensor) -> np.ndarray:
        """The 8 x 128 registers that a full tile of `tensor` fills, float64 [c]."""
        return self.units(tensor).prod(axis=1).astype(np.float64)

    def bytes(self, tensor: Tensor) -> np.ndarray:
        """Bytes of a full tile, in whole registers, float64 [c]."""
        return self.registers(tensor) * register_bytes(tensor)

    def mean_registers(self, tensor: Tensor, first: int = 0) -> np.ndarray:
        """Registers that a tile fills on average, float64 [c].

        The last tile along an axis is cut off where the tensor ends.  Inputs of
        convolutions overlap, so theirs are taken as full; so are the `first`
        fastest dimensions.
        """
        mean = self.units(tensor).astype(np.float64)
        whole = whole_units(tensor)
        for place, dim in enumerate(tensor.layout[first:], first):
            follow = tensor.axes[dim]
            if follow is not None and follow.window_axis is None:
                trips = self.trips_per_axis[:, follow.axis]
                mean[:, place] = np.minimum(mean[:, place], whole[place] / trips)
        return mean.prod(axis=1)

    def mean_bytes(self, tensor: Tensor) -> np.ndarray:
        """Bytes of these, float64 [c]."""
        return self.mean_registers(tensor) * register_bytes(tensor)

    def contiguous_runs(self, tensor: Tensor) -> np.ndarray:
        """Contiguous pieces of HBM that a tile consists of, float64 [c].

        HBM holds whole registers, fastest dimension first: a piece goes on into
        the next dimension only where the tile covers all faster ones.
        """
        tile, whole = self.units(tensor), whole_units(tensor)
        runs = np.ones(len(tile))
        covered = np.ones(len(tile), bool)
        for place in range(tile.shape[1]):
            runs *= np.where(covered, 1, tile[:, place])
            covered &= tile[:, place] == whole[place]
        return runs
