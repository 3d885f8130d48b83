"""Analytical model of one TPU v3 core running a tiled kernel: simulated times.

All figures are public ones of TPU v3 (Norrie et al., "The Design Process for
Google's Training Chips: TPUv2 and TPUv3", IEEE Micro 2021; Google Cloud's TPU
system page), per core, which is half of a chip:

    clock 0.94 GHz; two 128 x 128 matrix units; vector registers of 8 sublanes
    x 128 lanes with two operations per cycle; 16 MiB of vector memory;
    450 GB/s of HBM (900 GB/s per chip).

The overheads (launch, tile, transfer, run) are no public figures: they were
chosen so that the model ranks the configurations of measured kernels well
(docs/sample-data.md).  Formulas, with c a configuration, e its tile:

    registers(tensor)  = product over dimensions of the part in the tile, the
                         fastest rounded up to 128 lanes, the next to 8 sublanes
    trips(loop)        = ceil(size / e); the last tile is only as long as what is
                         left, so work uses the mean, registers of whole / trips
    visits(tensor)     = product of the trips of all loops down to the innermost
                         one that moves the tensor: what stays is not re-read
    transfer ns        = sum over operands and results of visits *
                         (bytes / 450 GB/s + runs * run_ns), with a run the
                         longest piece that is contiguous in HBM
    vector cycles      = sum over instructions of visits * registers * slots / 2
    matrix cycles      = trips * window * (ceil(passes / 2) * max(rows, 128)
                         + 128), passes = ceil(depth / 128) * ceil(columns / 128)
    time ns            = launch + trips * tile_ns + visits * dma_ns + max(a, b)
                         + (1 - overlap * (1 - 1 / trips)) * min(a, b)

with a the transfers, b the computation (the larger of vector and matrix time).
The overlap needs every operand twice in vector memory; where only one copy
fits, transfers and computation take turns (overlap 0).
"""

from typing import NamedTuple, Sequence, Tuple

import numpy as np

from baselines.data.sample.hlo import Tensor
from baselines.data.sample.tiles import LANES, SUBLANES, Space


class Chip(NamedTuple):
    """One core.  Public figures first, fitted overheads after."""

    clock_ghz: float = 0.94
    hbm_bytes_per_ns: float = 450.0
    vector_memory_bytes: int = 16 * 2**20
    matrix_units: int = 2
    matrix_side: int = 128
    slots_per_cycle: float = 2.0
    launch_ns: float = 500.0
    tile_ns: float = 150.0
    dma_ns: float = 20.0
    run_ns: float = 4.0
    overlap: float = 0.85


TPU_V3 = Chip()

BYTES = {'pred': 1, 'u8': 1, 'u16': 2, 'bf16': 2, 's32': 4, 'u32': 4, 'f32': 4}

# Vector operations per register; what is not here takes 1.
SLOTS = {
    'convert': 2.0, 'concatenate': 2.0, 'pad': 2.0, 'divide': 6.0, 'sqrt': 6.0,
    'rsqrt': 5.0, 'exponential': 8.0, 'log': 8.0, 'tanh': 10.0, 'logistic': 12.0,
    'power': 20.0,
}  # fmt: skip
LANE_SHUFFLE = 14.0  # 7 rotations and additions across 128 lanes
SUBLANE_SHUFFLE = 6.0  # 3 across 8 sublanes


class Tiling:
    """Tiles of a kernel's axes with what every formula needs of them.

    Args:
        space: the axes.
        tiles: int64 [c, axes], elements.
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


def axes_of(tensor: Tensor) -> Tuple[int, ...]:
    """Returns the axes that move the tensor's tile."""
    found = set()
    for follow in tensor.axes:
        if follow is not None:
            found.add(follow.axis)
            if follow.window_axis is not None:
                found.add(follow.window_axis)
    return tuple(sorted(found))


def physical(values: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Reorders columns from logical dimensions to fastest dimension first."""
    return values[:, list(tensor.layout)]


def in_registers(values: np.ndarray) -> np.ndarray:
    """Counts per dimension in register units; columns fastest first."""
    values = values.copy()
    if values.shape[1] == 1:
        return -(-values // (LANES * SUBLANES))
    if values.shape[1] > 1:
        values[:, 0] = -(-values[:, 0] // LANES)
        values[:, 1] = -(-values[:, 1] // SUBLANES)
    return values


def registers(tensor: Tensor, tiling: Tiling) -> np.ndarray:
    """Returns the 8 x 128 registers that a full tile of `tensor` fills, [c]."""
    return _units(tensor, tiling).prod(axis=1).astype(np.float64)


def mean_registers(tensor: Tensor, tiling: Tiling) -> np.ndarray:
    """Returns the registers that a tile fills on average, float64 [c].

    The last tile along an axis is cut off where the tensor ends.  Inputs of
    convolutions overlap, so theirs are taken as full.
    """
    units = _units(tensor, tiling).astype(np.float64)
    whole = _whole_units(tensor)
    for place, dim in enumerate(tensor.layout):
        follow = tensor.axes[dim]
        if follow is not None and follow.window_axis is None:
            trips = tiling.trips_per_axis[:, follow.axis]
            units[:, place] = np.minimum(units[:, place], whole[place] / trips)
    return units.prod(axis=1)


def _units(tensor: Tensor, tiling: Tiling) -> np.ndarray:
    return in_registers(physical(tiling.part(tensor), tensor))


def _whole_units(tensor: Tensor) -> np.ndarray:
    return in_registers(physical(np.array([tensor.dims], np.int64), tensor))[0]


def register_bytes(tensor: Tensor) -> int:
    """Returns the bytes of one register of the tensor's elements."""
    return LANES * SUBLANES * BYTES[tensor.dtype]


def contiguous_runs(tensor: Tensor, tiling: Tiling) -> np.ndarray:
    """Returns the contiguous pieces of HBM that a tile consists of, float64 [c].

    HBM holds whole registers, fastest dimension first: a piece goes on into
    the next dimension only where the tile covers all faster ones.
    """
    units, whole = _units(tensor, tiling), _whole_units(tensor)
    runs = np.ones(len(units))
    covered = np.ones(len(units), bool)
    for place in range(units.shape[1]):
        runs *= np.where(covered, 1, units[:, place])
        covered &= units[:, place] == whole[place]
    return runs


def transfer_ns(tensor: Tensor, tiling: Tiling, chip: Chip = TPU_V3) -> np.ndarray:
    """Returns the time to move one tile of `tensor` on average, ns, [c]."""
    moved = mean_registers(tensor, tiling) * register_bytes(tensor)
    return moved / chip.hbm_bytes_per_ns + contiguous_runs(tensor, tiling) * chip.run_ns


def matrix_cycles(
    rows: np.ndarray,
    depth: np.ndarray,
    columns: np.ndarray,
    chip: Chip = TPU_V3,
) -> np.ndarray:
    """Returns the cycles of one product [rows, depth] x [depth, columns].

    A pass holds 128 x 128 weights while the rows stream past, one per cycle;
    loading the next weights takes 128 cycles and hides behind 128 rows.  Two
    units share the passes; 128 cycles fill the array.
    """
    side = chip.matrix_side
    passes = -(-depth // side) * -(-columns // side)
    return -(-passes // chip.matrix_units) * np.maximum(rows, side) + float(side)


def combined_ns(
    transfers: np.ndarray, computing: np.ndarray, trips, overlap
) -> np.ndarray:
    """Returns the time of transfers and computation that overlap in part.

    The first transfer and the last computation overlap with nothing, so one
    trip takes the sum of the two.

    Args:
        transfers: ns, float64 [c].
        computing: ns, float64 [c].
        trips: tiles, [c].
        overlap: share of the shorter one that hides behind the longer, [c].
    """
    hidden = overlap * (1.0 - 1.0 / trips)
    longer = np.maximum(transfers, computing)
    return longer + (1.0 - hidden) * np.minimum(transfers, computing)
