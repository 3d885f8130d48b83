"""How the rounds of a tile go through the operands of a kernel, as columns.

`loop_columns` see the output, what is reduced and the largest operand; these follow a
tile through all nodes (`features.node_tiles`) to every operand.  Shares are of the
bytes of operands that a round reads:

    turns         share of operands whose dimensions, of those above 1 in their tile,
                  come in another order than the output's
    moved         1 + bytes that all rounds read
    set           1 + bytes of the tiles of operands and output: a round's working set
    work          (1 + operations of all rounds) / (1 + those of the untiled kernel):
                  what windows, joined parts and clamped tiles compute again
    operations    (1 + operations) / elements of the output; an exponential counts ten
    run           elements of operands that lie together, a mean by bytes

and of the innermost loop of a tile, over the last dimension that is not 1, once of the
output (`output`) and once of what is reduced (`reduced`):

    inner         its rounds
    tail_8, tail_32  the share of them that does not fill a vector of 8, or four at a
                  time, as LLVM unrolls loops: these elements go one by one
    jumps         share of operands whose neighbours along it do not lie side by side
    stays         share of operands that are the same all along it
    splits        share of operands of which it is several dimensions: each element's
                  place takes divisions
    fast          whether it is the array's fastest dimension above 1

Columns that end in `change` are less their value of the untiled kernel.  `moved`,
`set`, `work`, `operations`, `run` and `inner` are natural logarithms.
"""

import numpy as np

from baselines.data.packed import splits
from baselines.features import kernel_facts
from baselines.features import node_tiles
from baselines.hlo import schema

_LOOP = ('inner', 'tail_8', 'tail_32', 'jumps', 'stays', 'splits', 'fast')
_OWN = (
    *('turns', 'moved', 'set', 'work', 'operations', 'run'),
    *(f'{loop}_{name}' for loop in ('output', 'reduced') for name in _LOOP),
)
_CHANGING = (  # of `_OWN`, less their value of the untiled kernel
    *('turns', 'moved', 'run'),
    *(
        f'{loop}_{name}'
        for loop in ('output', 'reduced')
        for name in ('tail_32', 'jumps', 'stays', 'splits')
    ),
)
_RANK = schema.RANK
_GROUPS = 8  # of nodes that are cut alike, per kernel: the largest
_VECTORS = (8, 32)
_BOUNDS = [schema.OUTPUT_BOUNDS, schema.KERNEL_BOUNDS]
_CHANGED = [_OWN.index(name) for name in _CHANGING]


class AccessColumns:
    """The columns of a split's configurations."""

    names = (
        *(f'access_{name}' for name in _OWN),
        *(f'access_{name}_change' for name in _CHANGING),
    )

    def __init__(self, store: splits.PackedSplit):
        whole = [np.asarray(store.config_max[:, block]) for block in _BOUNDS]
        self._whole = np.concatenate(whole, axis=1).astype(np.float64)
        self._group(store, node_tiles.NodeTiles(store, *whole))
        # The fastest dimension of an array, of those above 1.
        last = _RANK - 1 - (self._size[..., ::-1] > 1).argmax(axis=2)[..., np.newaxis]
        fastest, times = (
            np.take_along_axis(values, last, axis=2)[..., 0]
            for values in (self._source, self._times)
        )
        self._fastest = np.where(times > 1, -1, fastest)  # a slice that skips jumps
        loops = np.arange(2 * _RANK)
        self._follows = (self._source[..., np.newaxis] == loops).any(axis=2)
        untiled = self._own(np.arange(store.num_graphs), self._whole)
        self._untiled = untiled[:, _CHANGED]

    def _group(self, store: splits.PackedSplit, tiles: node_tiles.NodeTiles) -> None:
        """Groups nodes that tiles cut in the same way, and adds up their weights.

        A kernel may have hundreds of nodes, but few distinct ways of being cut.  With
        at most 8 groups per kernel, padded, configurations of different kernels are
        computed in one array operation (`_own`).  Sets arrays [kernels, 8, ...].

        Shapes below: N nodes of all kernels, n of them that count, G groups.
        """
        kernel, width = tiles.nodes.kernel, tiles.nodes.element_bytes
        is_operand = tiles.nodes.have(('parameter',))
        operations = kernel_facts.vector_operations(tiles.nodes.opcodes)
        # [N]: bytes per element for operands, operations per element for the others.
        weight = np.where(is_operand, width, operations)
        self._result_width = np.zeros(store.num_graphs)
        self._result_width[kernel[tiles.root]] = width[tiles.root]

        is_array = tiles.nodes.dims[:, 0] > 0
        nodes = np.flatnonzero(tiles.reached & is_array & (weight > 0))  # [n]
        cut = (tiles.source, tiles.nodes.dims, tiles.times, tiles.plus)
        keys = [kernel[nodes, np.newaxis], is_operand[nodes, np.newaxis]]
        keys += [values[nodes] for values in cut]
        # Rows of 1 + 1 + 4 x 6 numbers: [n, 26] -> groups [G, 26], group of each [n].
        groups, group = np.unique(np.hstack(keys), axis=0, return_inverse=True)
        weights = np.bincount(group.reshape(-1), weight[nodes], len(groups))
        ends = np.cumsum([1, 1, *[_RANK] * 3])  # back into columns: [G, 1] or [G, 6]
        kernel, is_operand, source, dims, times, plus = np.split(groups, ends, axis=1)
        kernel, is_operand = kernel[:, 0].astype(np.int64), is_operand[:, 0] > 0
        # By kernel, the groups with the most bytes or operations first; `place` is a
        # group's rank in its kernel.  The small ones beyond `_GROUPS` are dropped.
        order = np.lexsort((-weights * np.maximum(dims, 1).prod(axis=1), kernel))
        place = np.arange(len(order)) - np.searchsorted(kernel[order], kernel[order])
        order, place = order[place < _GROUPS], place[place < _GROUPS]

        def spread(values: np.ndarray, empty: float, dtype: type = float) -> np.ndarray:
            # [G, ...] -> [kernels, 8, ...], `empty` where a kernel has fewer groups.
            shape = store.num_graphs, _GROUPS, *values.shape[1:]
            table: np.ndarray = np.full(shape, empty, dtype)
            table[kernel[order], place] = values[order]
            return table

        self._source = spread(source, node_tiles.WHOLE, int)
        self._size = spread(np.maximum(dims, 1), 1)
        self._times, self._plus = spread(times, 1), spread(plus, 0)
        self._bytes = spread(np.where(is_operand, weights, 0), 0)
        self._operations = spread(np.where(is_operand, 0, weights), 0)

    def __call__(self, kernels: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes the columns of configurations; see `tile_table.PARTS`."""
        bounds = np.concatenate([configs[:, block] for block in _BOUNDS], axis=1)
        own = self._own(kernels, bounds)
        change = own[:, _CHANGED] - self._untiled[kernels]
        return np.concatenate([own, change], axis=1)

    def _own(self, kernels: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """Computes the columns `_OWN` of rows with bounds [rows, 12]."""
        whole = self._whole[kernels]
        # [rows, 12]: sizes of the tile in the output's and the reduced dimensions.
        tile, trips = kernel_facts.tiling(
            np.maximum(whole, 1), np.where(whole > 0, bounds, 1)
        )
        rounds = kernel_facts.product(trips)[:, np.newaxis]
        # [rows, 8, 6]: per group of nodes and dimension, the bound that cuts it.  Bound
        # 12 is infinite: dimensions with the source `WHOLE` are clamped to their size.
        source, size = self._source[kernels], self._size[kernels]
        sources = np.concatenate([tile, np.full((len(tile), 1), np.inf)], axis=1)
        part = np.take_along_axis(sources, source.reshape(len(tile), -1), axis=1)
        # 7 x 75 x (1 / 75) is a little above 7.
        part = np.ceil(part.reshape(size.shape) * self._times[kernels] - 1e-9)
        part = np.maximum(np.minimum(part + self._plus[kernels], size), 1)
        elements, is_cut = part.prod(axis=2), part < size  # [rows, 8], [rows, 8, 6]

        bytes_ = self._bytes[kernels] * elements
        read = bytes_.sum(axis=1)
        shares = bytes_ / np.maximum(read, 1e-9)[:, np.newaxis]
        # What is not cut is computed once, before the loop.
        operations, again = self._operations[kernels], is_cut.any(axis=2)
        work = (operations * elements * np.where(again, rounds, 1)).sum(axis=1)
        whole_work = (operations * size.prod(axis=2)).sum(axis=1)
        output = kernel_facts.product(np.maximum(whole[:, :_RANK], 1))
        written = kernel_facts.product(tile[:, :_RANK]) * self._result_width[kernels]
        # Elements are contiguous along a dimension if all faster ones are whole: `kept`
        # [rows, 8, 5] is that for dimensions 0 to 4; dimension 5 always counts.
        kept = np.cumprod(~is_cut[..., :0:-1], axis=2)[..., ::-1]
        run = np.log(part[..., -1]) + (np.log(part[..., :-1]) * kept).sum(axis=2)
        # The output's dimension behind each of an operand's, of those above 1.
        seen = np.where((part > 1) & (source < node_tiles.WHOLE), source, -1)
        turned = (seen >= 0) & (seen < np.maximum.accumulate(seen, axis=2))
        columns = [
            (shares * turned.any(axis=2)).sum(axis=1),
            np.log1p(read * rounds[:, 0]),
            np.log1p(read + written),
            np.log1p(work) - np.log1p(whole_work),
            np.log1p(whole_work) - np.log(output),
            (shares * run).sum(axis=1),
        ]
        # The innermost loop over the output, then over what is reduced: [rows] each,
        # `moves` and the masks [rows, 8].
        for first in (0, _RANK):
            sizes = tile[:, first : first + _RANK]
            exists = (sizes > 1).any(axis=1)
            inner = _last_above_1(sizes)
            length = np.take_along_axis(sizes, inner[:, np.newaxis], axis=1)[:, 0]
            loop = (inner + first)[:, np.newaxis, np.newaxis]
            moves = np.take_along_axis(self._follows[kernels], loop, axis=2)[..., 0]
            moves &= exists[:, np.newaxis]
            jumps = moves & (self._fastest[kernels] != loop[..., 0])
            divided = (seen == loop).sum(axis=2) > 1
            of_bytes = [jumps, ~moves, divided & exists[:, np.newaxis]]
            columns += [
                np.log(length),
                *(length % vector / length for vector in _VECTORS),
                *((shares * mask).sum(axis=1) for mask in of_bytes),
                exists & (inner == _last_above_1(whole[:, first : first + _RANK])),
            ]
        return np.stack(columns, axis=1).astype(np.float32)


def _last_above_1(sizes: np.ndarray) -> np.ndarray:
    """Returns the last dimension above 1 of each row; the last one if there is none."""
    return _RANK - 1 - (sizes[:, ::-1] > 1).argmax(axis=1)
