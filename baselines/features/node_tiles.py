"""The part of its array that each node of a kernel needs for a tile, off raw columns.

    tiles = NodeTiles(store)
    tile = min(size, ceil(bounds[source] x times) + plus)   # of a node's dimension

As `tpugraphs.measure.propagation` for one tile and instruction, but for all kernels of
a split at once, and only sizes.  Of an array that several nodes need in different
parts, one of the parts counts.
"""

from typing import Callable, Dict, Iterator, NamedTuple, Tuple, Union

import numpy as np

from baselines.data.packed import splits
from baselines.features import kernel_nodes
from baselines.hlo import schema

_RANK = schema.RANK
# The source of a dimension that is needed whole; those of the output's dimensions are
# 0 to 5, those of what is reduced 6 to 11.
WHOLE = 2 * _RANK

_PLACE = np.arange(_RANK)
_WINDOW_STRIDES = schema.NODE.block('window_stride')
_SLICE_STRIDES = [schema.NODE.at(f'slice_dims_stride_{i}') for i in range(2)]
_SLICE_STRIDE_PRODUCT = schema.NODE.at('slice_dims_stride_product')


class NodeTiles:
    """Tiles of N nodes as functions of the bounds of configurations.

    Attributes:
        nodes: the nodes.
        source: int64 [N, 6], the bound that cuts a dimension, or `WHOLE`.
        times: float64 [N, 6], elements for each element of the bound.
        plus: float64 [N, 6], elements that a window reaches further.
        reached: bool [N], whether the kernel's result is made of the node.
        root: int64 [kernels with a root], the nodes of the results.

    Args:
        store: a split of kernels.
        output: int64 [kernels, 6], sizes of the whole output as bounds have them.
        reduced: int64 [kernels, 6], sizes of the reduced dimensions.
    """

    def __init__(
        self, store: splits.PackedSplit, output: np.ndarray, reduced: np.ndarray
    ):
        self.nodes = kernel_nodes.KernelNodes(store)
        self._raw, self._kernel = self.nodes.raw, self.nodes.kernel
        self._reduced, count = reduced, len(self._raw)
        dims = self.nodes.dims
        self.source = np.full((count, _RANK), WHOLE)
        self.times = np.ones((count, _RANK))
        self.plus = np.zeros((count, _RANK))
        self.reached = np.zeros(count, bool)

        self.root = self.nodes.root[self.nodes.root >= 0]
        tiled = (dims[self.root] == output[self._kernel[self.root]]).all(axis=1)
        self.source[self.root[tiled]] = _PLACE
        self.reached[self.root] = True

        for consumers, producers in _by_level(self.nodes.edges, count):
            first = self.reached[consumers] & ~self.reached[producers]
            consumers, producers = consumers[first], producers[first]
            opcodes = self.nodes.opcodes[consumers]
            for opcode in np.unique(opcodes):
                chosen = opcodes == opcode
                self._pass(int(opcode), consumers[chosen], producers[chosen])

    def _pass(self, opcode: int, consumers: np.ndarray, producers: np.ndarray) -> None:
        """Sets the tiles of operands of nodes of one opcode."""
        raw = self._raw[consumers]
        axes = np.clip(raw[:, schema.AXES], 0, _RANK - 1).astype(np.int64)
        dims = self.nodes.dims
        pairs = _Pairs(raw, axes, dims[consumers], dims[producers])
        at, times, plus = _RULES.get(opcode, _through_elementwise)(pairs)
        exists = (at >= 0) & (pairs.operand > 0)
        at = np.maximum(at, 0)

        def of_result(values: np.ndarray) -> np.ndarray:
            return np.take_along_axis(values[consumers], at, axis=1)

        self.source[producers] = np.where(exists, of_result(self.source), WHOLE)
        self.times[producers] = of_result(self.times) * times
        self.plus[producers] = of_result(self.plus) * times + plus
        if opcode == _REDUCE:
            self._cut_sums(pairs, producers)
        self.reached[producers] = True

    def _cut_sums(self, pairs: '_Pairs', producers: np.ndarray) -> None:
        """Sets the reduced dimensions of operands, where bounds are of them."""
        count = _num_reduced(pairs)
        of_axes = np.take_along_axis(pairs.operand, pairs.axes, axis=1)
        sizes = np.where(_PLACE < count[:, np.newaxis], of_axes, 0)
        tiled = (sizes == self._reduced[self._kernel[producers]]).all(axis=1)
        for place in range(_RANK):
            rows = np.flatnonzero(tiled & (place < count))
            where = producers[rows], pairs.axes[rows, place]
            self.source[where] = _RANK + place
            self.times[where], self.plus[where] = 1, 0


def _by_level(edges: np.ndarray, count: int) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
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


class _Pairs(NamedTuple):
    """Nodes of one opcode, each with an operand."""

    raw: np.ndarray  # float32 [pairs, 140], of the nodes
    axes: np.ndarray  # int64 [pairs, 6], their `dimensions`
    result: np.ndarray  # int64 [pairs, 6], sizes
    operand: np.ndarray  # int64 [pairs, 6]


# How tiles pass from results to operands: for each dimension of an operand the result's
# that it follows, or -1; times and plus, see `NodeTiles`.
_Rule = Tuple[np.ndarray, Union[float, np.ndarray], Union[float, np.ndarray]]


def _through_elementwise(pairs: _Pairs) -> _Rule:
    return np.where(pairs.operand == pairs.result, _PLACE, -1), 1, 0


def _through_broadcast(pairs: _Pairs) -> _Rule:
    return pairs.axes, 1, 0


def _through_transpose(pairs: _Pairs) -> _Rule:
    at = np.full(pairs.axes.shape, -1)
    # Axes that do not exist are 0: the first to name a dimension is right.
    for place in reversed(range(_RANK)):
        at[np.arange(len(at)), pairs.axes[:, place]] = place
    return at, 1, 0


def _through_pad(pairs: _Pairs) -> _Rule:
    return _PLACE[np.newaxis], 1, 0


def _through_concatenate(pairs: _Pairs) -> _Rule:
    return np.where(_PLACE == pairs.axes[:, :1], -1, _PLACE), 1, 0


def _through_slice(pairs: _Pairs) -> _Rule:
    strides = np.ones(pairs.axes.shape)
    strides[:, :2] = np.maximum(pairs.raw[:, _SLICE_STRIDES], 1)
    # Columns have the first two strides, and the product of all: the last one's.
    product = np.maximum(pairs.raw[:, _SLICE_STRIDE_PRODUCT], 1)
    last = np.maximum((pairs.result > 0).sum(axis=1) - 1, 0)
    strides[np.arange(len(last)), last] *= product / strides.prod(axis=1)
    return _PLACE[np.newaxis], strides, 0


def _through_reduce_window(pairs: _Pairs) -> _Rule:
    size = np.maximum(pairs.raw[:, schema.WINDOW], 1)
    stride = np.maximum(pairs.raw[:, _WINDOW_STRIDES], 1)
    return _PLACE[np.newaxis], stride, size - stride


def _num_reduced(pairs: _Pairs) -> np.ndarray:
    """Counts the dimensions that the operand has more than the result: [pairs]."""
    ranks = [(dims > 0).sum(axis=1) for dims in (pairs.operand, pairs.result)]
    return np.maximum(ranks[0] - ranks[1], 0)


def _through_reduce(pairs: _Pairs) -> _Rule:
    is_reduced = np.zeros(pairs.axes.shape, bool)
    count = _num_reduced(pairs)
    for place in range(_RANK):
        rows = np.flatnonzero(place < count)
        is_reduced[rows, pairs.axes[rows, place]] = True
    return np.where(is_reduced, -1, np.cumsum(~is_reduced, axis=1) - 1), 1, 0


def _through_reshape(pairs: _Pairs) -> _Rule:
    low, high = _strides(pairs.result)
    own_low, own_high = _strides(pairs.operand)
    shared = np.minimum(own_high[:, :, np.newaxis], high[:, np.newaxis])
    shared /= np.maximum(own_low[:, :, np.newaxis], low[:, np.newaxis])
    # Of dimensions that become one, tiles cut the first alone.
    at = (shared > 1).argmax(axis=2)
    times = np.take_along_axis(low, at, axis=1) / own_low
    return np.where((shared > 1).any(axis=2), at, -1), times, 0


def _strides(dims: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Returns the strides of dimensions, and strides times sizes: float64 [n, 6]."""
    sizes = np.where(dims > 0, dims, 1).astype(float)
    high = np.cumprod(sizes[:, ::-1], axis=1)[:, ::-1]
    return high / sizes, high


_RULES: Dict[int, Callable[[_Pairs], _Rule]] = {
    schema.OPCODE_NUMBERS[name]: rule
    for name, rule in {
        'broadcast': _through_broadcast,
        'concatenate': _through_concatenate,
        'pad': _through_pad,
        'reduce': _through_reduce,
        'reduce-window': _through_reduce_window,
        'reshape': _through_reshape,
        'slice': _through_slice,
        'transpose': _through_transpose,
    }.items()
}
_REDUCE = schema.OPCODE_NUMBERS['reduce']
