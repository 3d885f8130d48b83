"""Analytical model of one TPU v3 core running a tiled kernel: simulated times.

All figures are public ones of TPU v3 (Norrie et al., "The Design Process for
Google's Training Chips: TPUv2 and TPUv3", IEEE Micro 2021; Google Cloud's TPU
system page), per core, which is half of a chip:

    clock 0.94 GHz; two 128 x 128 matrix units; vector registers of 8 sublanes
    x 128 lanes with two operations per cycle; 16 MiB of vector memory;
    450 GB/s of HBM (900 GB/s per chip).

The overheads (launch, tile, transfer, run) are no public figures: they were
chosen so that the model ranks the configurations of measured kernels well
(docs/simulated-data.md).  Formulas, with c a configuration, e its tile:

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

import functools
from typing import NamedTuple

import numpy as np

from baselines.hlo import schema
from baselines.simulated.hlo import Tensor

LANES = 128
SUBLANES = 8


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

BYTES = {kind.name: kind.bytes for kind in schema.ELEMENT_TYPES}

# Vector operations per register; what is not here takes 1.
SLOTS = {
    'convert': 2.0, 'concatenate': 2.0, 'pad': 2.0, 'divide': 6.0, 'sqrt': 6.0,
    'rsqrt': 5.0, 'exponential': 8.0, 'log': 8.0, 'tanh': 10.0, 'logistic': 12.0,
    'power': 20.0,
}  # fmt: skip
LANE_SHUFFLE = 14.0  # 7 rotations and additions across 128 lanes
SUBLANE_SHUFFLE = 6.0  # 3 across 8 sublanes


def in_registers(values: np.ndarray) -> np.ndarray:
    """Counts per dimension in register units; columns fastest first."""
    values = values.copy()
    if values.shape[1] == 1:
        return -(-values // (LANES * SUBLANES))
    if values.shape[1] > 1:
        values[:, 0] = -(-values[:, 0] // LANES)
        values[:, 1] = -(-values[:, 1] // SUBLANES)
    return values


def whole_units(tensor: Tensor) -> np.ndarray:
    """Returns the registers of an array per dimension, fastest first: [rank]."""
    fastest_first = np.array([[tensor.dims[d] for d in tensor.layout]], np.int64)
    return in_registers(fastest_first)[0]


@functools.lru_cache(maxsize=None)
def registers(tensor: Tensor) -> int:
    """Returns how many 8 x 128 registers an array fills."""
    return int(whole_units(tensor).prod())


def register_bytes(tensor: Tensor) -> int:
    """Returns the bytes of one register of the tensor's elements."""
    return LANES * SUBLANES * BYTES[tensor.dtype]


def stored_bytes(tensor: Tensor) -> int:
    """Returns the bytes that an array takes, in whole registers."""
    return registers(tensor) * register_bytes(tensor)


def matrix_cycles(
    rows: np.ndarray, depth: np.ndarray, columns: np.ndarray, chip: Chip = TPU_V3
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
    """Returns the time of transfers and computation, ns [c], that overlap in part.

    The first transfer and the last computation overlap with nothing, so one
    trip takes the sum of the two.  `overlap` is the share of the shorter one
    that hides behind the longer.
    """
    hidden = overlap * (1.0 - 1.0 / trips)
    longer = np.maximum(transfers, computing)
    return longer + (1.0 - hidden) * np.minimum(transfers, computing)
