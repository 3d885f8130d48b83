"""Groups the nodes of each kernel that a tile cuts in the same way.

groups = NodeGroups(nodes)
cut = groups.cut(kernels, bounds)
cut.part   # of each row's groups: the elements of a tile along each dimension

A kernel may have hundreds of nodes, but few distinct ways of being cut.  With at most 8
groups per kernel, padded, configurations of different kernels are computed in one array
operation.
"""

from typing import NamedTuple

import numpy as np

from baselines.features import kernel_nodes
from baselines.features import tiling
from baselines.hlo import schema
from tpugraphs_lab.columns import node_tiles
from tpugraphs_lab.columns import release_columns

BOUNDS = (schema.OUTPUT_BOUNDS, schema.KERNEL_BOUNDS)  # columns of configurations
GROUPS = 8  # of a kernel: the largest
_RANK = schema.RANK


class Cut(NamedTuple):
    """How configurations cut their kernels, R rows.

    Attributes:
        tile: float64 [R, 12], sizes in the output's and in the reduced dimensions; 1
            where there is none.
        rounds: float64 [R], iterations of the loop over tiles.
        part: float64 [R, 8, 6], sizes of a tile of each group of nodes.
        elements: float64 [R, 8], the elements of these tiles.
        is_cut: bool [R, 8, 6], where it is not the whole dimension.
    """

    tile: np.ndarray
    rounds: np.ndarray
    part: np.ndarray
    elements: np.ndarray
    is_cut: np.ndarray


class NodeGroups:
    """The groups of G kernels, those with the most bytes or operations first.

    Attributes:
        nodes: all nodes of the kernels.
        whole: float64 [G, 12], sizes of the output's and of the reduced dimensions; 0
            where there is none.
        source: int64 [G, 8, 6], the bound that cuts a dimension, or `WHOLE` of
            `node_tiles`.
        size: float64 [G, 8, 6], elements of a dimension, at least 1.
        times: float64 [G, 8, 6], elements for each of the bound.
        plus: float64 [G, 8, 6], elements that a window reaches further.
        bytes: float64 [G, 8], of an element of all operands of a group; 0 for others.
        operations: float64 [G, 8], for an element of all others.
        result_width: float64 [G], bytes of an element of the result.
        have_thunks: bool [G], whether they were measured since XLA has thunks.

    Args:
        nodes: the nodes of the kernels.
    """

    def __init__(self, nodes: kernel_nodes.KernelNodes):
        bounds = nodes.store.config_max
        output, reduced = (np.asarray(bounds[:, block]) for block in BOUNDS)
        self.whole = np.concatenate([output, reduced], axis=1).astype(np.float64)
        self.nodes = nodes
        self.have_thunks = release_columns.have_thunks(nodes.store)
        self._group(node_tiles.NodeTiles(nodes, output, reduced))

    def _group(self, tiles: node_tiles.NodeTiles) -> None:
        """Groups nodes and adds up their weights.

        Shapes below: N nodes of all kernels, n of them that count, G groups.
        """
        kernel, width = self.nodes.kernel, self.nodes.element_bytes
        count = len(self.nodes.root)
        is_operand = self.nodes.have(('parameter',))
        operations = tiling.count_vector_operations(self.nodes.opcodes)
        # [N]: bytes per element for operands, operations per element for the others.
        weight = np.where(is_operand, width, operations)
        self.result_width = np.zeros(count)
        self.result_width[kernel[tiles.root]] = width[tiles.root]

        is_array = self.nodes.dims[:, 0] > 0
        nodes = np.flatnonzero(tiles.reached & is_array & (weight > 0))  # [n]
        cut = (tiles.source, self.nodes.dims, tiles.times, tiles.plus)
        keys = [kernel[nodes, np.newaxis], is_operand[nodes, np.newaxis]]
        keys += [values[nodes] for values in cut]
        # Rows of 1 + 1 + 4 x 6 numbers: [n, 26] -> groups [G, 26], group of each [n].
        groups, group = np.unique(np.hstack(keys), axis=0, return_inverse=True)
        weights = np.bincount(group.reshape(-1), weight[nodes], len(groups))
        ends = np.cumsum([1, 1, *[_RANK] * 3])  # back into columns: [G, 1] or [G, 6]
        kernel, is_operand, source, dims, times, plus = np.split(groups, ends, axis=1)
        kernel, is_operand = kernel[:, 0].astype(np.int64), is_operand[:, 0] > 0
        # By kernel, the groups with the most bytes or operations first; `place` is a
        # group's rank in its kernel.  The small ones beyond `GROUPS` are dropped.
        order = np.lexsort((-weights * np.maximum(dims, 1).prod(axis=1), kernel))
        place = np.arange(len(order)) - np.searchsorted(kernel[order], kernel[order])
        order, place = order[place < GROUPS], place[place < GROUPS]

        def spread(values: np.ndarray, empty: float, dtype: type = float) -> np.ndarray:
            # [G, ...] -> [kernels, 8, ...], `empty` where a kernel has fewer groups.
            shape = count, GROUPS, *values.shape[1:]
            table: np.ndarray = np.full(shape, empty, dtype)
            table[kernel[order], place] = values[order]
            return table

        self.source = spread(source, node_tiles.WHOLE, int)
        self.size = spread(np.maximum(dims, 1), 1)
        self.times, self.plus = spread(times, 1), spread(plus, 0)
        self.bytes = spread(np.where(is_operand, weights, 0), 0)
        self.operations = spread(np.where(is_operand, 0, weights), 0)

    @property
    def fastest(self) -> np.ndarray:
        """The loop along each group's fastest dimension above 1: int64 [G, 8].

        It is -1 where a slice skips elements along it.
        """
        last = last_above_1(self.size)[..., np.newaxis]
        source, times = (
            np.take_along_axis(values, last, axis=2)[..., 0]
            for values in (self.source, self.times)
        )
        return np.where(times > 1, -1, source)

    def cut(self, kernels: np.ndarray, bounds: np.ndarray) -> Cut:
        """Returns how bounds, float64 [R, 12], cut kernels, int [R]."""
        whole = self.whole[kernels]
        tile, trips = tiling.cut_dimensions(
            np.maximum(whole, 1), np.where(whole > 0, bounds, 1)
        )
        # Bound 12 is infinite: dimensions with the source `WHOLE` are clamped to their
        # size.
        source, size = self.source[kernels], self.size[kernels]
        sources = np.concatenate([tile, np.full((len(tile), 1), np.inf)], axis=1)
        part = np.take_along_axis(sources, source.reshape(len(tile), -1), axis=1)
        # 7 x 75 x (1 / 75) is a little above 7.
        part = np.ceil(part.reshape(size.shape) * self.times[kernels] - 1e-9)
        part = np.maximum(np.minimum(part + self.plus[kernels], size), 1)
        return Cut(tile, tiling.multiply(trips), part, part.prod(axis=2), part < size)

    def work(self, kernels: np.ndarray, cut: Cut) -> np.ndarray:
        """Counts the operations of all rounds: float64 [R].

        What is not cut is computed once, before the loop.
        """
        again = np.where(cut.is_cut.any(axis=2), cut.rounds[:, np.newaxis], 1)
        work: np.ndarray = self.operations[kernels] * cut.elements * again
        return work.sum(axis=1)


def bounds_in(configs: np.ndarray) -> np.ndarray:
    """Returns the bounds of raw configurations, [R, >= 24] -> [R, 12]."""
    return np.concatenate([configs[:, block] for block in BOUNDS], axis=1)


def last_above_1(sizes: np.ndarray) -> np.ndarray:
    """Returns the last dimension above 1 of [..., dimensions]; if none is, the last."""
    return sizes.shape[-1] - 1 - (sizes[..., ::-1] > 1).argmax(axis=-1)
