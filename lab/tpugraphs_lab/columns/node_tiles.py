"""Computes the part of each node's array that a tile needs, from raw columns.

    tiles = NodeTiles(nodes, output, reduced)
    tile = min(size, ceil(bounds[source] x times) + plus)   # of a node's dimension

As `kernels.propagation` for one tile and instruction, but for all kernels of a split
at once, and only sizes.  Of an array that several nodes need in different
parts, one of the parts counts.  Tiles pass through dots, gathers and convolutions by
their dimension numbers, in `node_feat_extra`, or by sizes.
"""

from collections.abc import Iterator

import numpy as np

from baselines.data.packed import splits
from baselines.features import kernel_nodes
from baselines.hlo import schema
from tpugraphs_lab.columns import tile_rules

_RANK = schema.RANK
# The source of a dimension that is needed whole; those of the output's dimensions are
# 0 to 5, those of what is reduced 6 to 11.
WHOLE = 2 * _RANK

_PLACE = np.arange(_RANK)
_DISTANCES = schema.NODE_AND_EXTRA.block('operand_distance')
_REDUCE = schema.OPCODE_NUMBERS['reduce']


class NodeTiles:
    """Tiles of N nodes as functions of the bounds of configurations.

    Attributes:
        source: int64 [N, 6], the bound that cuts a dimension, or `WHOLE`.
        times: float64 [N, 6], elements for each element of the bound.
        plus: float64 [N, 6], elements that a window reaches further.
        reached: bool [N], whether the kernel's result is made of the node.
        root: int64 [kernels with a root], the nodes of the results.

    Args:
        nodes: the nodes.
        output: int64 [kernels, 6], sizes of the whole output as bounds have them.
        reduced: int64 [kernels, 6], sizes of the reduced dimensions.
    """

    def __init__(
        self, nodes: kernel_nodes.KernelNodes, output: np.ndarray, reduced: np.ndarray
    ):
        self._nodes = nodes
        self._raw, self._is_exact = _with_extra(nodes.store)  # [N, columns], bool [N]
        self._kernel, self._reduced, count = nodes.kernel, reduced, len(self._raw)
        dims = self._nodes.dims
        self.source = np.full((count, _RANK), WHOLE)
        self.times = np.ones((count, _RANK))
        self.plus = np.zeros((count, _RANK))
        self.reached = np.zeros(count, bool)

        # Start at the results: a tile cuts the output as its bounds say, if these are
        # of an array of that shape.
        self.root = self._nodes.root[self._nodes.root >= 0]
        tiled = (dims[self.root] == output[self._kernel[self.root]]).all(axis=1)
        self.source[self.root[tiled]] = _PLACE
        self.reached[self.root] = True

        for consumers, producers in _by_level(self._nodes.edges, count):
            # From results to operands; a node that several consumers need keeps the
            # tile of the first level that reaches it.
            first = self.reached[consumers] & ~self.reached[producers]
            consumers, producers = consumers[first], producers[first]
            opcodes = self._nodes.opcodes[consumers]
            for is_exact in (False, True):
                alike = self._is_exact[consumers] == is_exact
                for opcode in np.unique(opcodes[alike]):
                    chosen = alike & (opcodes == opcode)
                    pairs = consumers[chosen], producers[chosen]
                    self._pass(int(opcode), is_exact, *pairs)

    def _pass(
        self, opcode: int, is_exact: bool, consumers: np.ndarray, producers: np.ndarray
    ) -> None:
        """Sets the tiles of operands of nodes of one opcode."""
        pairs = self._pairs(consumers, producers, is_exact)
        rules = tile_rules.EXACT_RULES if is_exact else tile_rules.RULES
        at, times, plus = rules.get(opcode, tile_rules.through_elementwise)(pairs)
        exists = (at >= 0) & (pairs.operand > 0)
        is_sum = at >= tile_rules.FIRST_REDUCED
        place = np.where(is_sum, 0, np.maximum(at, 0))

        def at_result(values: np.ndarray) -> np.ndarray:
            return np.take_along_axis(values[consumers], place, axis=1)

        self.source[producers] = np.where(exists, at_result(self.source), WHOLE)
        self.times[producers] = at_result(self.times) * times
        self.plus[producers] = at_result(self.plus) * times + plus
        if is_sum.any():
            self._cut_products(pairs, producers, np.where(exists, at, -1))
        if opcode == _REDUCE:
            self._cut_sums(pairs, producers)
        self.reached[producers] = True

    def _pairs(
        self, consumers: np.ndarray, producers: np.ndarray, is_exact: bool
    ) -> tile_rules.Pairs:
        """Pairs nodes with an operand each, as `tile_rules` read them."""
        raw, dims = self._raw[consumers], self._nodes.dims
        axes = np.clip(raw[:, schema.AXES], 0, _RANK - 1).astype(np.int64)
        number = np.full(len(raw), -1)
        if is_exact:
            same = raw[:, _DISTANCES] == (consumers - producers)[:, np.newaxis]
            number = np.where(same.any(axis=1), same.argmax(axis=1), -1)
        return tile_rules.Pairs(raw, axes, dims[consumers], dims[producers], number)

    def _cut_sums(self, pairs: tile_rules.Pairs, producers: np.ndarray) -> None:
        """Sets the reduced dimensions of operands, where bounds are of them."""
        count = tile_rules.num_reduced(pairs)
        of_axes = np.take_along_axis(pairs.operand, pairs.axes, axis=1)
        sizes = np.where(_PLACE < count[:, np.newaxis], of_axes, 0)
        tiled = (sizes == self._reduced[self._kernel[producers]]).all(axis=1)
        for place in range(_RANK):
            rows = np.flatnonzero(tiled & (place < count))
            where = producers[rows], pairs.axes[rows, place]
            self.source[where] = _RANK + place
            self.times[where], self.plus[where] = 1, 0

    def _cut_products(
        self, pairs: tile_rules.Pairs, producers: np.ndarray, at: np.ndarray
    ) -> None:
        """Sets the dimensions of operands that a dot or convolution sums over."""
        rows, dims = np.nonzero(at >= tile_rules.FIRST_REDUCED)
        place = at[rows, dims] - tile_rules.FIRST_REDUCED
        nodes, sizes = producers[rows], pairs.operand[rows, dims]
        tiled = self._reduced[self._kernel[nodes], place] == sizes
        self.source[nodes, dims] = np.where(tiled, _RANK + place, WHOLE)
        self.times[nodes, dims], self.plus[nodes, dims] = 1, 0


def _with_extra(store: splits.PackedSplit) -> tuple[np.ndarray, np.ndarray]:
    """Returns columns of nodes with `node_feat_extra`, 0 for kernels without.

    Returns:
        float32 [N, len(schema.NODE_AND_EXTRA)]; and bool [N], whether the node's
            kernel has `node_feat_extra`.
    """
    have = np.repeat(np.diff(store.extra_offsets) > 0, np.diff(store.node_offsets))
    raw = np.zeros((len(have), len(schema.NODE_AND_EXTRA)), np.float32)
    raw[:, : len(schema.NODE)] = store.node_feat[:, : len(schema.NODE)]
    raw[have, len(schema.NODE) :] = store.node_feat_extra
    return raw, have


def _by_level(edges: np.ndarray, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields edges (consumers, producers), consumers after all their own consumers."""
    consumers, producers = edges.T
    level = np.zeros(count, np.int64)
    for _ in range(count):
        least = level[consumers] + 1
        if (level[producers] >= least).all():
            break
        np.maximum.at(level, producers, least)
    levels = level[consumers]
    order = np.argsort(levels, kind='stable')
    ends = np.searchsorted(levels[order], np.arange(1, levels.max(initial=0) + 1))
    for chosen in np.split(order, ends):
        yield consumers[chosen], producers[chosen]
