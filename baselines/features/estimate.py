"""A textbook estimate of how long a tile configuration takes, as columns.

    facts = kernel_facts.KernelFacts.of(store)
    columns = estimate(facts, kernel_of_row, store.config_feat[rows])

A roofline (Williams et al., "Roofline: An Insightful Visual Performance Model
for Multicore Architectures", CACM 52(4), 2009) of one TPU v3 core, with the
traffic of loop tiling: a tensor is read once for every trip of each loop that
it does not follow.

    trips        = product over loops of ceil(size / tile)
    memory time  = sum over tensors of bytes x trips of loops not followed / 450 GB/s
    matrix time  = 2 x padded multiply-adds / 61.6 TFLOP/s
    vector time  = operations on padded registers / (2 per cycle at 940 MHz)
    time         = max(memory, matrix, vector) + trips x 250 ns

Where two copies of a tile do not fit into vector memory, memory and computation
take turns: their sum takes the place of the larger.

Public figures, per core, half a chip (Norrie et al., "The Design Process for
Google's Training Chips: TPUv2 and TPUv3", IEEE Micro 2021; Google Cloud's TPU
system page).  The 250 ns per tile are no public figure: a round number of the
order of a transfer's latency.
"""

import numpy as np

from baselines.features import kernel_facts as facts_lib
from baselines.hlo import schema

NAMES = (
    'log_tiles',
    'log_padding',
    'log_bytes',
    'log_matrix_operations',
    'log_vector_operations',
    'log_footprint',
    'log_time',
)

_CLOCK_GHZ = 0.94
_HBM_BYTES_PER_NS = 450.0
_MATRIX_SIDE = 128
_MATRIX_OPERATIONS_PER_NS = 2 * 2 * _MATRIX_SIDE**2 * _CLOCK_GHZ  # two units
_VECTOR_REGISTERS_PER_NS = 2 * _CLOCK_GHZ
_VECTOR_MEMORY_BYTES = 16 * 2**20
_NS_PER_TILE = 250.0

_OUTPUT_BOUNDS = schema.TILE.block('output_bounds')
_KERNEL_BOUNDS = schema.TILE.block('kernel_bounds')
_CHUNK = 1 << 10


def estimate(
    facts: facts_lib.KernelFacts, kernels: np.ndarray, configs: np.ndarray
) -> np.ndarray:
    """Estimates configurations from raw columns.

    Args:
        facts: of some kernels.
        kernels: int [rows], the kernel of each row.
        configs: float32 [rows, >= 24], raw configuration features.

    Returns:
        float32 [rows, 7], the columns `NAMES`: natural logarithms of trips,
        padded / real elements of the loop tensor, 1 + bytes moved, 1 + matrix
        operations, 1 + vector operations (of 1,024 elements), (1 + bytes of a
        tile of every tensor) / 16 MiB, and nanoseconds.

    Raises:
        ValueError: `configs` has fewer than 24 columns.
    """
    facts_lib.require('config_feat', configs, schema.TILE, 'estimate')
    return facts_lib.by_chunks(
        lambda some, raw: _estimate(facts.rows(some), raw.astype(np.float64)),
        len(NAMES),
        _CHUNK,
        kernels,
        configs,
    )


def _estimate(facts: facts_lib.KernelFacts, configs: np.ndarray) -> np.ndarray:
    """As `estimate`, with the facts of each row."""
    tile, trips = facts_lib.tiling(facts.loop_units, configs[:, _OUTPUT_BOUNDS])
    part, parts = facts_lib.tiling(facts.summed_units, configs[:, _KERNEL_BOUNDS])
    summed = [
        facts_lib.product(np.where(is_kind, parts, 1))[:, np.newaxis]
        for is_kind in (~facts.is_window, facts.is_window)
    ]
    loops = np.concatenate([trips, *summed], axis=1)  # [rows, 8]
    total = facts_lib.product(loops)

    padded = facts_lib.product(np.where(tile > 0, trips * tile * facts.unit, 1))
    again = np.ones(facts.read.shape)  # [rows, groups]
    for loop in range(facts_lib.LOOPS):
        again *= np.where(facts.follows[:, :, loop], 1, loops[:, [loop]])
    # A result is written once, whatever loops it does not follow.
    moved = facts_lib.total(facts.read * again + facts.written)
    # One tile's part of every tensor: 1 / the trips of the loops it follows.
    footprint = facts_lib.total((facts.read + facts.written) * again) / total
    # Vector instructions work on whole registers of whole tiles.
    whole = np.where(facts.loop_units > 0, facts.loop_units * facts.unit, 1)
    waste = padded / facts_lib.product(whole)
    vector = facts_lib.total(facts.operations * again) * waste
    # The matrix unit sums over 128 at a time.
    depth = part * facts.summed_unit
    depth = np.where(facts.is_window, depth, -(-depth // _MATRIX_SIDE) * _MATRIX_SIDE)
    sums = facts_lib.product(np.where(part > 0, parts * depth, 1))
    matrix = np.where(facts.has_product, 2 * padded * sums, 0)

    memory_ns = moved / _HBM_BYTES_PER_NS
    matrix_ns = matrix / _MATRIX_OPERATIONS_PER_NS
    work_ns = np.maximum(matrix_ns, vector / _VECTOR_REGISTERS_PER_NS)
    fits = 2 * footprint <= _VECTOR_MEMORY_BYTES
    busy_ns = np.where(fits, np.maximum(memory_ns, work_ns), memory_ns + work_ns)
    columns = (
        np.log(total),
        np.log(padded / facts.loop_elements),
        np.log1p(moved),
        np.log1p(matrix),
        np.log1p(vector),
        np.log1p(footprint) - np.log(_VECTOR_MEMORY_BYTES),
        np.log(busy_ns + total * _NS_PER_TILE),
    )
    return np.stack(columns, axis=1)
