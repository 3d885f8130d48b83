"""How the tile of a configuration relates to the arrays of its kernel, as columns.

    columns = tile_table.TileTable(store, ['tile']).rows(rows)

The raw columns hold the tile's size and the nodes the arrays' sizes; what
matters is their quotient, dimension by dimension: how often a loop runs, how
much of its last tile is empty, and which arrays are needed again for each run.
Dimensions come fastest first, so that a column is about the same dimension,
that of 128 lanes say, whatever the kernel's rank.

    trips      = ceil(units / tile), both in units of the 8 x 128 register
    waste      = trips x tile x elements of a unit / size
    traffic d  = share of bytes that follow loop d + the other share x its trips
    visited    = sum over tensors of bytes x trips of the loops around the
                 innermost loop that the tensor follows, which it does not follow

A tensor is not read again while only loops inside tick: `visited` assumes that
loops run in memory order, sums innermost, where `estimate` assumes that
nothing stays.
"""

import numpy as np

from baselines.features import column_sets
from baselines.features import kernel_nodes
from baselines.features import tiling
from baselines.features.tpu import kernel_facts
from baselines.hlo import schema

_PLACES = ('lanes', 'sublanes', 'third', 'fourth', 'fifth', 'sixth')
_LOOP_NAMES = (*_PLACES, 'depth', 'window')

_RANK = schema.RANK
_MATRIX_SIDE = 128


class Columns(column_sets.ColumnSet):
    """Tiles of a TPU against their arrays: trips, waste, traffic.

    All are natural logarithms.
    """

    position = 1
    names = (
        *(f'log_tile_{place}' for place in _PLACES),
        *(f'log_trips_{loop}' for loop in _LOOP_NAMES),
        *(f'log_waste_{loop}' for loop in (*_PLACES, 'depth')),
        'log_tile_depth',
        'log_tile_window',
        *(f'log_traffic_{loop}' for loop in _LOOP_NAMES),
        'log_tile_elements',
        'log_tile_share',
        'log_run',
        'log_visited_bytes',
    )

    def __init__(self, nodes: kernel_nodes.KernelNodes):
        facts = nodes.shared(kernel_facts.KernelFacts)
        units = facts.loop_units
        # Facts have the slowest dimension first, columns the fastest: [G, 6] each.
        self._order, exists = tiling.reverse_dimensions(units)
        fastest_first = lambda x, fill: np.where(
            exists, np.take_along_axis(x, self._order, axis=1), fill
        )
        self._exists = exists
        # Layouts that make no sense leave dimensions without a size.
        self._units = np.maximum(fastest_first(units, 1.0), 1.0)
        self._unit = fastest_first(facts.unit, 1.0)
        self._loop_elements = facts.loop_elements
        self._log_sizes = np.log(np.maximum(fastest_first(facts.loop_sizes, 1.0), 1.0))
        is_depth = (facts.summed_units > 0) & ~facts.is_window
        is_window = (facts.summed_units > 0) & facts.is_window
        self._summed = [is_depth, is_window]
        self._has_depth = is_depth.any(axis=1, keepdims=True)
        self._summed_units = np.maximum(facts.summed_units, 1.0)
        self._summed_unit = np.where(facts.summed_units > 0, facts.summed_unit, 1.0)
        # [G, groups, 6] and [G, groups, 2]: a dimension that the loop tensor lacks is
        # followed by all, as it has one trip.
        outer, sums = np.split(facts.follows, [_RANK], axis=2)
        outer = np.take_along_axis(outer, self._order[:, np.newaxis], axis=2)
        outer = outer | ~exists[:, np.newaxis]
        self._follows = np.concatenate([outer, sums], axis=2)
        self._bytes = facts.read + facts.written
        # The share of a kernel's bytes that each loop does not read again, [G, 8].
        total = np.maximum(self._bytes.sum(axis=1), 1.0)[:, np.newaxis]
        followed = self._bytes[:, :, np.newaxis] * self._follows
        self._share = followed.sum(axis=1) / total

    def __call__(self, kernels: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes the columns of configurations; see `ColumnSet`."""
        g = kernels
        units, unit = self._units[g], self._unit[g]  # [rows, 6], fastest first
        bounds = np.take_along_axis(
            configs[:, schema.OUTPUT_BOUNDS], self._order[g], axis=1
        )
        bounds = np.where(self._exists[g], bounds, 0)
        tile, trips = tiling.cut_dimensions(units, bounds)  # [rows, 6]
        part, parts = tiling.cut_dimensions(
            self._summed_units[g], configs[:, schema.KERNEL_BOUNDS]
        )
        part_elements = part * self._summed_unit[g]
        # Eight loops: the output's dimensions, a product's sum, and the window.  The
        # last two may have several dimensions, of which only the products matter.
        all_trips = np.empty((len(g), _RANK + 2))
        all_trips[:, :_RANK] = trips
        tiles_summed = []  # [rows] each: elements of the tile
        for i, mask in enumerate(self._summed):
            mask = mask[g]
            all_trips[:, _RANK + i] = tiling.multiply(np.where(mask, parts, 1))
            tiles_summed.append(tiling.multiply(np.where(mask, part_elements, 1)))
        depth = tiles_summed[0]
        padded_depth = np.ceil(depth / _MATRIX_SIDE) * _MATRIX_SIDE
        log_tile = np.log(tile * unit)
        log_trips = np.log(all_trips)
        log_waste = log_tile + log_trips[:, :_RANK] - self._log_sizes[g]  # [rows, 6]
        has_depth = self._has_depth[g]
        elements = tiling.add_up(log_tile)
        # A piece goes on into the next dimension where all faster are whole.
        whole = np.cumprod(trips == 1, axis=1)
        inside = np.concatenate([np.ones((len(g), 1)), whole[:, :-1]], axis=1)
        # From the innermost loop outwards: sums, then the fastest dimension.  A group
        # of tensors that does not follow a loop stays where it is, unless a loop
        # inside has moved it: then it is visited again in every trip.
        follows = self._follows[g]  # [rows, groups, 8]
        order = (_RANK + 1, _RANK, *range(_RANK))
        bytes_ = self._bytes[g]  # [rows, groups]
        visits = np.ones(bytes_.shape)
        moved = np.zeros(visits.shape, bool)
        for loop in order:
            several = all_trips[:, [loop]] > 1
            here = follows[:, :, loop]
            visits *= np.where(~here & moved, all_trips[:, [loop]], 1)
            moved |= here & several
        last = (
            elements,
            elements - np.log(self._loop_elements[g]),
            tiling.add_up(log_tile * inside),
            np.log1p(tiling.add_up(bytes_ * visits)),
        )
        blocks = (
            log_tile,
            log_trips,
            np.where(self._exists[g], log_waste, 0),
            np.where(has_depth, np.log(padded_depth / depth)[:, np.newaxis], 0),
            np.log(np.stack(tiles_summed, axis=1)),
            np.log(self._share[g] + (1 - self._share[g]) * all_trips),
            np.stack(last, axis=1),
        )
        return np.concatenate(blocks, axis=1)
