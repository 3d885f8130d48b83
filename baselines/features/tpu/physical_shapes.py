"""Physical shapes of nodes in a TPU's memory, from their raw columns.

Arrays are kept in registers of 8 x 128 elements: 128 in the fastest dimension, 8
in the next, 1 in all others; 1,024 where there is one dimension alone.
"""

import numpy as np

from baselines.features import kernel_nodes
from baselines.features import tiling
from baselines.hlo import schema

LANES = 128
SUBLANES = 8


class PhysicalShapes:
    """Shapes of n nodes, in physical order: slowest dimension first.

    Attributes:
        dims: float64 [n, 6], sizes in logical order; 0 where there is none.
        logical: int64 [n, 6], the logical dimension at each place, or -1.
        sizes: float64 [n, 6], its size, or 0.
        unit: float64 [n, 6], elements of a register along it.
        units: float64 [n, 6], registers along it.
        is_array: bool [n]; scalars, tuples and tokens are none.
        elements: float64 [n]; 1 of a scalar.
        registers: float64 [n]; 0 of a scalar.
        bytes: float64 [n], those of whole registers.

    """

    def __init__(self, nodes: kernel_nodes.KernelNodes):
        dims = self.dims = nodes.dims.astype(np.float64)
        rank = (dims > 0).sum(axis=1)[:, np.newaxis]  # [n, 1]
        layout = np.clip(nodes.raw[:, schema.MINOR_TO_MAJOR], 0, schema.RANK - 1)
        layout = layout.astype(np.int64)
        # The layout names the fastest dimension first.
        turned, exists = tiling.reverse(dims)
        order = np.take_along_axis(layout, turned, axis=1)
        self.logical = np.where(exists, order, -1)
        self.sizes = np.where(exists, np.take_along_axis(dims, order, axis=1), 0)
        # [n, 6]: 0 for the fastest dimension, 1 for the next one, ...
        fastest = rank - 1 - np.arange(schema.RANK)
        self.unit = np.where(
            fastest == 0,
            np.where(rank > 1, LANES, LANES * SUBLANES),
            np.where(fastest == 1, SUBLANES, 1),
        ).astype(np.float64)
        self.units = np.ceil(self.sizes / self.unit)
        self.is_array = rank[:, 0] > 0
        self.elements = np.where(self.sizes > 0, self.sizes, 1).prod(axis=1)
        registers = np.where(self.sizes > 0, self.units, 1).prod(axis=1)
        self.registers = np.where(self.is_array, registers, 0)
        self.bytes = self.registers * LANES * SUBLANES * nodes.element_bytes

    def size_of(self, node: np.ndarray, dimension: np.ndarray) -> np.ndarray:
        """Returns the sizes of dimension[i] of node[i]: float64 [n]; 0 for none."""
        inside = np.clip(dimension, 0, schema.RANK - 1).astype(np.int64)
        return np.where(
            (dimension >= 0) & (dimension < schema.RANK), self.dims[node, inside], 0
        )


def match(
    loops: np.ndarray, sizes: np.ndarray, slowest_first: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs dimensions of one size, each with at most one other.

    Args:
        loops: [n, 6] sizes; 0 for none.
        sizes: [n, 6], of another tensor.
        slowest_first: whether, of equal dimensions, the slowest ones are paired first.

    Returns:
        bool [n, 6] and bool [n, 6]: which dimensions of both have a partner.
    """
    order = range(schema.RANK) if slowest_first else range(schema.RANK - 1, -1, -1)
    of_loops, of_sizes = np.zeros(loops.shape, bool), np.zeros(sizes.shape, bool)
    for i in order:
        for j in order:
            pair = (loops[:, i] == sizes[:, j]) & (loops[:, i] > 0)
            pair &= ~of_loops[:, i] & ~of_sizes[:, j]
            of_loops[:, i] |= pair
            of_sizes[:, j] |= pair
    return of_loops, of_sizes
