"""A textbook estimate of how long a tile configuration takes, as columns.

    columns = tile_table.TileTable(store, ['estimate']).rows(rows)

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
alternate: their sum is used instead of the larger.

Public figures, per core, half a chip (Norrie et al., "The Design Process for
Google's Training Chips: TPUv2 and TPUv3", IEEE Micro 2021; Google Cloud's TPU
system page).  The 250 ns per tile are not published: they are a round number of the
order of a transfer's latency.

The columns are natural logarithms of trips, padded / real elements of the loop tensor,
1 + bytes moved, 1 + matrix operations, 1 + vector operations (of 1,024 elements),
(1 + bytes of a tile of every tensor) / 16 MiB, and nanoseconds.
"""

import numpy as np

from baselines.features import column_sets
from baselines.features import kernel_nodes
from baselines.features import tiling
from baselines.features.tpu import kernel_facts
from baselines.hlo import schema

_CLOCK_GHZ = 0.94
_HBM_BYTES_PER_NS = 450.0
_MATRIX_SIDE = 128
_MATRIX_OPERATIONS_PER_NS = 2 * 2 * _MATRIX_SIDE**2 * _CLOCK_GHZ  # two units
_VECTOR_REGISTERS_PER_NS = 2 * _CLOCK_GHZ
_VECTOR_MEMORY_BYTES = 16 * 2**20
_NS_PER_TILE = 250.0


class Columns(column_sets.ColumnSet):
    """A textbook estimate of the time on a TPU v3, its logarithm last."""

    position = 4  # the last: some models read the estimated time as the last column
    names = (
        'log_tiles',
        'log_padding',
        'log_bytes',
        'log_matrix_operations',
        'log_vector_operations',
        'log_footprint',
        'log_time',
    )

    def __init__(self, nodes: kernel_nodes.KernelNodes):
        self._facts = nodes.shared(kernel_facts.KernelFacts)

    def __call__(self, kernels: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes the columns of configurations; see `ColumnSet`."""
        facts = self._facts.rows(kernels)  # [rows, ...] from here on
        tile, trips = tiling.cut_dimensions(
            facts.loop_units, configs[:, schema.OUTPUT_BOUNDS]
        )
        part, parts = tiling.cut_dimensions(
            facts.summed_units, configs[:, schema.KERNEL_BOUNDS]
        )
        # [rows, 1] each: trips of a sum's depth, and of a window.
        summed = [
            tiling.multiply(np.where(is_kind, parts, 1))[:, np.newaxis]
            for is_kind in (~facts.is_window, facts.is_window)
        ]
        loops = np.concatenate([trips, *summed], axis=1)  # [rows, 8]
        total = tiling.multiply(loops)

        padded = tiling.multiply(np.where(tile > 0, trips * tile * facts.unit, 1))
        # How often a group's tensors come again: [rows, groups], the product of the
        # trips of the loops that they do not follow.
        again = np.ones(facts.read.shape)
        for loop in range(kernel_facts.LOOPS):
            again *= np.where(facts.follows[:, :, loop], 1, loops[:, [loop]])
        # A result is written once, whatever loops it does not follow.
        moved = tiling.add_up(facts.read * again + facts.written)
        # One tile's part of every tensor: 1 / the trips of the loops it follows.
        footprint = tiling.add_up((facts.read + facts.written) * again) / total
        # Vector instructions work on whole registers of whole tiles.
        whole = np.where(facts.loop_units > 0, facts.loop_units * facts.unit, 1)
        waste = padded / tiling.multiply(whole)
        vector = tiling.add_up(facts.operations * again) * waste
        # The matrix unit sums over 128 at a time.
        depth = part * facts.summed_unit
        depth = np.where(
            facts.is_window, depth, -(-depth // _MATRIX_SIDE) * _MATRIX_SIDE
        )
        sums = tiling.multiply(np.where(part > 0, parts * depth, 1))
        matrix = np.where(facts.has_product, 2 * padded * sums, 0)

        memory_ns = moved / _HBM_BYTES_PER_NS
        matrix_ns = matrix / _MATRIX_OPERATIONS_PER_NS
        work_ns = np.maximum(matrix_ns, vector / _VECTOR_REGISTERS_PER_NS)
        fits = 2 * footprint <= _VECTOR_MEMORY_BYTES  # one moves, one is worked on
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
