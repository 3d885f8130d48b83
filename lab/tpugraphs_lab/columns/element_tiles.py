"""Tiles in elements, as `tpugraphs lab collect` has them on CPUs, as columns.

There a tile is a round of a loop: it costs a fixed amount, and what it reads and
writes comes in runs that lie together in memory.  Bounds count elements of row-major
arrays, not registers; an array is as large as the largest bounds of its kernel, those
of the untiled configuration, which such data always have.

    tile, trips   of each dimension, the fastest first; size / tile, rounded up
    elements      of a tile; share, of its array
    run           elements that lie together: of the fastest dimension, and of the next
                  one where all faster are whole; run_share, of the array
    inner         rounds of the innermost loop inside a tile: its fastest dimension that
                  is not 1, as XLA drops those
    first, last   the fastest and the slowest dimension that is cut; 6 and -1: none
    by_8          whether the tile's fastest dimension fills vectors of 8

of output, of what is reduced (`kernel`) and of the largest operand (`input`), and

    trips         rounds of all loops; overhead, less the elements that are worked on
    work          elements of a tile of output times those reduced
    input_again   how often the largest operand is read
    footprint     elements of the tiles of output and operand
    waste         rounds that do again what others did, as tiles do not divide
    fastest_kept, fastest_reduced   whether the operand's fastest dimension has the size
                  of the output's, or of what is reduced
    extremes      whether a maximum or minimum is reduced: a chain of comparisons takes
                  several times as long as one of sums, parts side by side do not

and, as XLA compiles another operation where a tile needs less,

    alone         whether a reduction to a maximum or minimum, or over slow dimensions,
                  is of one element each: it has no chain, and goes by vectors
    straight      whether a transpose, of which dimensions of 1 are dropped, keeps the
                  order of the others: a copy
    part_joined   whether a concatenation is cut along its dimension: it is written
                  first, and not decided for each element which operand it is of
    one_position  whether a pooling, or a convolution of a feature at a time, is of one
                  position along all dimensions that its window, which moves in steps
                  of 1, is larger than 1 along: a product and a sum
    time          an estimate over the untiled one's: 100 ns a round, and for an element
                  that is worked on 1, 0.6, 2 and 4 ns where these are not so, 0.15 ns
                  where they are and for all else (round numbers, of one machine)
"""

import numpy as np

from baselines.features import kernel_nodes
from baselines.features import tiling
from baselines.hlo import schema

_PLACES = 4
_TOGETHER = (
    *('trips', 'overhead', 'work', 'input_again', 'footprint', 'waste'),
    *('fastest_kept', 'fastest_reduced', 'extremes'),
    *('alone', 'straight', 'part_joined', 'one_position', 'time'),
)
_OF_BLOCK = (
    *(f'{kind}_{place}' for kind in ('tile', 'trips') for place in range(_PLACES)),
    *('elements', 'share', 'run', 'run_share', 'inner', 'first', 'last', 'by_8'),
)

_BOUNDS = {
    'output': schema.OUTPUT_BOUNDS,
    'kernel': schema.KERNEL_BOUNDS,
    'input': schema.INPUT_BOUNDS,
}
_Kind = tuple[np.ndarray, np.ndarray]  # bool [rows]: of a kernel, and of a tile
_RANK = schema.RANK
_VECTOR = 8
_ROUND_NS, _FAST_NS = 100.0, 0.15
_SLOW_NS = (1.0, 0.6, 2.0, 4.0)  # of what may be alone, straight, ...
_OUTPUT_ROLES = [schema.OUTPUT_BATCH, schema.OUTPUT_FEATURE]
_GROUPS = schema.NODE.at('feature_group_count')
_STRIDES = schema.NODE.at('window_stride_product')


class ElementTiles:
    """The columns of a split's configurations.

    They are logarithms, but for truth values and numbers of dimensions.
    """

    names = (
        *(f'loop_{block}_{name}' for block in _BOUNDS for name in _OF_BLOCK),
        *(f'loop_{name}' for name in _TOGETHER),
    )

    def __init__(self, nodes: kernel_nodes.KernelNodes):
        bounds, place = nodes.store.config_max, np.arange(_RANK)
        self._whole = {
            name: np.asarray(bounds[:, block], np.float64)
            for name, block in _BOUNDS.items()
        }
        # A reduction applies operations of scalars to two elements at a time.
        extremes = nodes.have(('maximum', 'minimum')) & (nodes.dims[:, 0] == 0)
        self._extremes, self._reduces = (  # bool [kernels]: whether any node is one
            np.logical_or.reduceat(chosen, nodes.store.node_offsets[:-1])
            for chosen in (extremes, nodes.have(('reduce',)))
        )
        # Dimensions of the output that a window moves along, and that are joined.
        # Raw rows are [kernels, 140], of the node that makes the output; 0 for others.
        convolutions = self._raw_rows(nodes, 'convolution', 'output')
        pooled = self._raw_rows(nodes, 'reduce-window', 'output')
        moved = _moved_by_convolutions(convolutions, self._whole['kernel'])
        moved |= pooled[:, schema.WINDOW] > 1
        windowed = convolutions + pooled  # no kernel's output is made by both
        moved &= (windowed[:, schema.DIMENSIONS] > 1) & (windowed[:, [_STRIDES]] <= 1)
        self._moved = moved
        joined = self._raw_rows(nodes, 'concatenate', 'output')
        self._joined = (joined[:, schema.DIMENSIONS] > 1) & (
            place == joined[:, schema.AXES][:, :1]
        )
        turned = self._raw_rows(nodes, 'transpose', 'input')
        order = np.where(
            turned[:, schema.DIMENSIONS] > 0, turned[:, schema.AXES], place
        )
        self._order = order.astype(np.int64)
        self._turns = (np.diff(order, axis=1) < 0).any(axis=1)

    def _raw_rows(
        self, nodes: kernel_nodes.KernelNodes, opcode: str, block: str
    ) -> np.ndarray:
        """Returns the raw columns of a node with `opcode`: [kernels, F], 0 without one.

        The node makes the array of `block`; a transpose has it as its operand.
        """
        chosen = np.flatnonzero(nodes.have((opcode,)))
        kernels, raw = nodes.kernel[chosen], nodes.raw[chosen]
        dims, whole = raw[:, schema.DIMENSIONS], self._whole[block][kernels]
        fits = np.ones(len(chosen), bool)
        if opcode == 'transpose':
            axes = raw[:, schema.AXES].astype(np.int64)
            # Of arrays of seven axes and more six are in the columns.
            fits = (axes < _RANK).all(axis=1)
            turned = np.take_along_axis(whole, np.minimum(axes, _RANK - 1), axis=1)
            whole = np.where(dims > 0, turned, 0)
        fits &= (dims == whole).all(axis=1)
        rows = np.zeros((len(nodes.root), raw.shape[1]))
        rows[kernels[fits]] = raw[fits]
        return rows

    def __call__(self, kernels: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes the columns of configurations; see `ColumnSet`."""
        blocks = {
            name: _Block(configs[:, block], self._whole[name][kernels])
            for name, block in _BOUNDS.items()
        }
        # Logarithms, [rows] each, but for `fastest`.
        output, reduced, operand = blocks.values()
        trips = output.all_trips + reduced.all_trips
        work = output.elements + reduced.elements
        whole_work = output.size + reduced.size
        together = [
            trips,
            trips - np.logaddexp(whole_work, operand.size),
            work,
            operand.elements + trips - operand.size,
            np.logaddexp(output.elements, operand.elements),
            output.elements + output.all_trips - output.size,
            operand.fastest == output.fastest,
            operand.fastest == reduced.fastest,
            self._extremes[kernels],
        ]
        alone = (reduced.elements == 0) & (reduced.size > 0)
        slow = (operand.fastest == output.fastest) & (
            operand.fastest != reduced.fastest
        )
        alone &= self._extremes[kernels] | slow
        kinds = ((self._reduces[kernels], alone), *self._rewrites(kernels, configs))
        # Estimated log slowdown over the untiled kernel: rounds have a fixed cost, and
        # an element costs more where an operation keeps XLA from fast code, which some
        # tiles simplify away (`simpler`).
        fast, rounds = np.log(_FAST_NS), np.log(_ROUND_NS)
        untiled = tiled = np.full(len(kernels), fast)  # log ns of an element
        for (is_kind, simpler), slow in zip(kinds, np.log(_SLOW_NS)):
            untiled = np.where(is_kind, slow, untiled)
            tiled = np.where(is_kind, np.where(simpler, fast, slow), tiled)
        time = np.logaddexp(rounds + trips, whole_work + tiled)
        time -= np.logaddexp(rounds, whole_work + untiled)
        together += [*(is_kind & simpler for is_kind, simpler in kinds), time]
        columns = [column for block in blocks.values() for column in block.columns()]
        return np.stack([*columns, *together], axis=1)

    def _rewrites(self, kernels: np.ndarray, configs: np.ndarray) -> tuple[_Kind, ...]:
        """Tells which kernels transpose, concatenate or slide a window.

        With each, the tiles for which XLA drops that operation: bool [rows].
        """
        tile, whole = configs[:, _BOUNDS['output']], self._whole['output'][kernels]
        moved, order = self._moved[kernels], self._order[kernels]
        taken = np.take_along_axis(configs[:, _BOUNDS['input']], order, axis=1)
        seen = np.where(taken > 1, order, 0)  # dimensions of 1 turn nothing
        turned = (taken > 1) & (order < np.maximum.accumulate(seen, axis=1))
        joined = self._joined[kernels]
        return (
            (self._turns[kernels], ~turned.any(axis=1)),
            (joined.any(axis=1), (joined & (tile < whole)).any(axis=1)),
            (moved.any(axis=1), (~moved | (tile == 1)).all(axis=1)),
        )


def _moved_by_convolutions(nodes: np.ndarray, summed: np.ndarray) -> np.ndarray:
    """Finds the output dimensions along which windows of convolutions move: [n, 6].

    Only of convolutions of one input feature at a time, as XLA rewrites no others.

    Args:
        nodes: [n, F], raw columns of convolutions; 0 for kernels without one.
        summed: [n, 6], sizes of dimensions that are summed over: window, features.
    """
    place = np.arange(_RANK)
    is_space = (place != nodes[:, _OUTPUT_ROLES, np.newaxis]).all(axis=1)
    # A window lists the other dimensions in their order.
    number = np.maximum(np.cumsum(is_space, axis=1) - 1, 0)
    windows = np.take_along_axis(nodes[:, schema.WINDOW], number, axis=1)
    features = nodes[:, schema.DIMENSIONS]
    feature = np.clip(nodes[:, [schema.OUTPUT_FEATURE]], 0, _RANK - 1).astype(int)
    alone = np.take_along_axis(features, feature, axis=1) == nodes[:, [_GROUPS]]
    last = np.maximum((summed > 0).sum(axis=1, keepdims=True) - 1, 0)
    alone &= np.take_along_axis(summed, last, axis=1) == 1
    return is_space & (windows > 1) & alone


class _Block:
    """The tiles of one array, by the bounds of rows; logarithms but for `fastest`.

    Attributes:
        tile: float64 [rows, 6], sizes of the tile, the fastest dimension first.
        trips: float64 [rows, 6], rounds along each dimension.
        elements: float64 [rows], elements of the tile.
        size: float64 [rows], elements of the array.
        all_trips: float64 [rows], rounds in all.
        fastest: float64 [rows], size of the array's fastest dimension.
    """

    def __init__(self, bounds: np.ndarray, whole: np.ndarray):
        order, exists = tiling.reverse_dimensions(whole)
        whole, bounds = (
            np.where(exists, np.take_along_axis(x, order, axis=1), 1)
            for x in (whole, bounds)
        )
        whole = np.maximum(whole, 1)
        tile, trips = tiling.cut_dimensions(whole, bounds)
        self._cut = trips > 1
        self._by_vectors = tile[:, 0] % _VECTOR == 0
        self.tile, self.trips = np.log(tile), np.log(trips)
        self.elements, self.size = self.tile.sum(axis=1), np.log(whole).sum(axis=1)
        self.all_trips = self.trips.sum(axis=1)
        self.fastest = whole[:, 0]

    def columns(self) -> list[np.ndarray]:
        """Returns the columns of the array, in the order of `_OF_BLOCK`."""
        # [rows, 6]: how many faster dimensions are cut.  A run goes on through whole
        # dimensions, and ends in the first cut one.
        before: np.ndarray = np.cumsum(self._cut, axis=1) - self._cut
        run = (self.tile * (before == 0)).sum(axis=1)
        place = np.arange(_RANK)
        # Logarithms: above 0 is more than one element.
        inner = (self.tile > 0).argmax(axis=1)[:, np.newaxis]
        return [
            *self.tile[:, :_PLACES].T,
            *self.trips[:, :_PLACES].T,
            self.elements,
            self.elements - self.size,
            run,
            run - self.size,
            np.take_along_axis(self.tile, inner, axis=1)[:, 0],
            np.where(self._cut, place, _RANK).min(axis=1),
            np.where(self._cut, place, -1).max(axis=1),
            self._by_vectors,
        ]
