"""Tiles in elements, as `tpugraphs collect` has them on CPUs, as columns.

There a tile is a round of a loop: it costs a fixed amount, and what it reads and
writes comes in runs that lie together in memory.  Bounds count elements of row-major
arrays, not registers; an array is as large as the largest bounds of its kernel, those
of the untiled configuration, which such data always have.

    tile, trips   of each dimension, the fastest first; size / tile, rounded up
    elements      of a tile; share, of its array
    run           elements that lie together: of the fastest dimension, and of the next
                  one where all faster are whole; run_share, of the array
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
"""

from typing import Dict, List

import numpy as np

from baselines.data.packed import splits
from baselines.features import kernel_facts
from baselines.features import physical_shapes
from baselines.hlo import schema

_PLACES = 4
_EACH = ('elements', 'share', 'run', 'run_share', 'first', 'last', 'by_8')
_TOGETHER = (
    *('trips', 'overhead', 'work', 'input_again', 'footprint', 'waste'),
    *('fastest_kept', 'fastest_reduced'),
)
NAMES = (
    *(
        f'loop_{block}_{what}'
        for block in ('output', 'kernel', 'input')
        for what in (
            *(f'{kind}_{p}' for kind in ('tile', 'trips') for p in range(_PLACES)),
            *_EACH,
        )
    ),
    *(f'loop_{what}' for what in _TOGETHER),
)

_BOUNDS = {
    name[: -len('_bounds')]: schema.TILE.block(name)
    for name in ('output_bounds', 'kernel_bounds', 'input_bounds')
}
_RANK = schema.RANK
_VECTOR = 8
_CHUNK = 1 << 12


def fits(store: splits.PackedSplit) -> bool:
    """Whether the bounds of most kernels of a split count elements.

    They do where the largest output tile is the whole output; in registers of
    8 x 128 it is a thousandth of that.
    """
    if store.node_feat.shape[1] < len(schema.NODE):
        return False
    raw = np.asarray(store.node_feat)
    kernel = np.repeat(np.arange(store.num_graphs), np.diff(store.node_offsets))
    roots = np.flatnonzero(raw[:, schema.IS_ROOT] > 0)
    last = np.zeros(store.num_graphs, np.int64)
    last[kernel[roots]] = roots  # ascending: the last one stays
    elements = physical_shapes.PhysicalShapes(raw[last]).elements
    bounds = np.maximum(store.config_max[:, _BOUNDS['output']], 1)
    return bool(np.mean(bounds.prod(axis=1, dtype=float) == elements) > 0.5)


class LoopColumns:
    """The columns of a split's configurations; facts of kernels are not needed."""

    def __init__(self, store: splits.PackedSplit, facts: kernel_facts.KernelFacts):
        del facts
        self._whole = {
            name: np.asarray(store.config_max[:, block], np.float64)
            for name, block in _BOUNDS.items()
        }

    def __call__(self, kernels: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes the columns.

        Args:
            kernels: int [rows], the kernel of each row.
            configs: float32 [rows, >= 24], raw configuration features.

        Returns:
            float32 [rows, len(NAMES)]; logarithms, but for what is yes or no and
            numbers of dimensions.
        """
        return kernel_facts.by_chunks(self._rows, len(NAMES), _CHUNK, kernels, configs)

    def _rows(self, kernels: np.ndarray, configs: np.ndarray) -> np.ndarray:
        blocks = {
            name: _Block(configs[:, block], self._whole[name][kernels])
            for name, block in _BOUNDS.items()
        }
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
        ]
        columns = [column for block in blocks.values() for column in block.columns()]
        return np.stack([*columns, *together], axis=1)


class _Block:
    """One list of bounds of some rows, and the whole array's.

    Attributes:
        tile: float64 [rows, 6], logarithms, the fastest dimension first.
        trips: float64 [rows, 6], likewise.
        elements: float64 [rows], of the tile; size, of the array; all_trips.
        fastest: float64 [rows], size of the array's fastest dimension.
    """

    def __init__(self, bounds: np.ndarray, whole: np.ndarray):
        rank = (whole > 0).sum(axis=1)[:, np.newaxis]
        place = np.arange(_RANK)
        order = np.clip(rank - 1 - place, 0, _RANK - 1)
        whole, bounds = (
            np.where(place < rank, np.take_along_axis(x, order, axis=1), 1)
            for x in (whole, bounds.astype(np.float64))
        )
        whole = np.maximum(whole, 1)
        tile = np.where(bounds > 0, np.minimum(bounds, whole), whole)
        trips = np.ceil(whole / tile)
        self._cut = trips > 1
        self._by_vectors = tile[:, 0] % _VECTOR == 0
        self.tile, self.trips = np.log(tile), np.log(trips)
        self.elements, self.size = self.tile.sum(axis=1), np.log(whole).sum(axis=1)
        self.all_trips = self.trips.sum(axis=1)
        self.fastest = whole[:, 0]

    def columns(self) -> List[np.ndarray]:
        """What of `NAMES` is of one list."""
        before = np.cumsum(self._cut, axis=1) - self._cut  # faster ones that are cut
        run = (self.tile * (before == 0)).sum(axis=1)
        place = np.arange(_RANK)
        found: Dict[str, np.ndarray] = {
            'elements': self.elements,
            'share': self.elements - self.size,
            'run': run,
            'run_share': run - self.size,
            'first': np.where(self._cut, place, _RANK).min(axis=1),
            'last': np.where(self._cut, place, -1).max(axis=1),
            'by_8': self._by_vectors,
        }
        return [
            *self.tile[:, :_PLACES].T,
            *self.trips[:, :_PLACES].T,
            *(found[what] for what in _EACH),
        ]
