"""An additive model of the time of a tile on a CPU, as columns.

    time = sum over terms of a count x nanoseconds each

Each count follows from the loops that XLA makes of a kernel and its tile; the
nanoseconds were fitted to the measured kernels that ship, for each of XLA's two CPU
runtimes (`release_columns`), by `lab/tools/measured_data/fit_costs.py`.  For kernels
larger than those of the training data trees predict a constant; this sum still grows.

    exact_cost_time     logarithm of the time
    exact_cost_change   the same less that of the untiled kernel
    exact_cost_<term>   the term's share of the time

An iteration is one of the innermost loop: of an element of the output and of what is
reduced.  Products and convolutions go to a library, and have no terms of loops.

    call             1
    rounds           of the loop over tiles
    loops            iterations over rounds of the innermost loop
    tails            operations that do not fill a vector of 8
    results          elements; functions, narrow: of kernels with exponentials and the
                     like, with bf16
    jumps, splits    iterations times operands, whose neighbours do not lie together,
                     and whose place takes divisions
    extremes, sums   iterations that reduce to a maximum or minimum, or a sum
    bytes            of operands, read by all rounds
    lines_1 to _3    lines of 64 bytes that come into the caches of 32 KB, 1 MB and
                     32 MB; pages_1, pages_2: pages of 4 KB, into those of addresses
    products, short_products, thin_products   multiplications; of sums of below 16, and
                     of tiles with one dimension above 1
    convolutions     multiplications; positions: results; windows: rounds

Lines are counted loop by loop, from the innermost on: a loop that moves an array
fetches what it touches once if the loops inside it leave their lines in the cache, else
again in each iteration.  A cache keeps lines if there are no more of them than places
in the sets that they fall into: steps by powers of two share few sets.  (Hennessy and
Patterson, Computer Architecture: A Quantitative Approach, appendix B.)
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from baselines.hlo import schema
from tpugraphs_lab.columns import node_groups
from tpugraphs_lab.columns import node_tiles

_RANK = schema.RANK
_WIDTH = 4.0  # bytes of an element, about
_VECTOR = 8
_SHORT = 16  # multiplications
_FUNCTIONS = tuple(
    'exponential exponential-minus-one log log-plus-one tanh logistic power sine '
    'cosine divide sqrt rsqrt erf'.split()
)
_BF16 = schema.NODE.at('shape_element_type_is_bf16')


class _Cache(NamedTuple):
    """A set-associative cache, of lines or of the addresses of pages."""

    line: int  # bytes
    sets: int
    ways: int


# As most processors have them; those measured have 512 KB or 1 MB in the second.
_CACHES = {
    'lines_1': _Cache(64, 64, 8),
    'lines_2': _Cache(64, 2048, 8),
    'lines_3': _Cache(64, 32768, 16),
    'pages_1': _Cache(4096, 1, 64),
    'pages_2': _Cache(4096, 1, 2048),
}
_LINE_SIZES = tuple({cache.line for cache in _CACHES.values()})
# Term -> nanoseconds each, before thunks and since.
NANOSECONDS: dict[str, tuple[float, float]] = {
    'call': (5500.0, 16000.0),
    'rounds': (0.4, 4.3),
    'loops': (0.31, 0.4),
    'tails': (0.0043, 0.033),
    'results': (0.048, 0.12),
    'functions': (0.094, 0.74),
    'narrow': (0.05, 0.42),
    'jumps': (0.12, 0.15),
    'splits': (0.08, 0.25),
    'extremes': (0.72, 0.18),
    'sums': (0.13, 0.42),
    'bytes': (0.012, 0.032),
    'lines_1': (0.086, 0.11),
    'lines_2': (0.1, 0.0),
    'lines_3': (0.056, 0.41),
    'pages_1': (0.061, 0.25),
    'pages_2': (0.12, 0.79),
    'products': (0.036, 0.076),
    'short_products': (0.063, 0.16),
    'thin_products': (0.036, 0.05),
    'convolutions': (0.2, 0.093),
    'positions': (8.6, 9.5),
    'windows': (300.0, 830.0),
}


class LoopCosts:
    """The columns of a split's configurations.

    Args:
        groups: the groups of the kernels' nodes.
    """

    names = tuple(f'exact_cost_{name}' for name in ('time', 'change', *NANOSECONDS))

    def __init__(self, groups: node_groups.NodeGroups):
        self._groups, self._fastest = groups, groups.fastest
        nodes, count = groups.nodes, len(groups.whole)
        is_array = nodes.dims[:, 0] > 0

        def any_of(chosen: np.ndarray) -> np.ndarray:
            # bool [nodes] -> [kernels]
            return np.bincount(nodes.kernel, chosen, count) > 0

        self._products = any_of(nodes.have(('dot',)))
        self._convolutions = any_of(nodes.have(('convolution',)))
        self._reduces = any_of(nodes.have(('reduce', 'reduce-window')))
        # A reduction applies operations of scalars.
        self._extremes = any_of(nodes.have(('maximum', 'minimum')) & ~is_array)
        self._functions = any_of(nodes.have(_FUNCTIONS) & is_array)
        self._narrow = any_of(nodes.raw[:, _BF16] > 0)
        rates = np.array(list(NANOSECONDS.values())).T  # [2, terms]
        self._rates = rates[groups.have_thunks.astype(int)]  # [kernels, terms]
        kernels = np.arange(count)
        untiled = self._predict_times(kernels, groups.cut(kernels, groups.whole))
        self._untiled = np.log(untiled.sum(axis=1))

    def __call__(self, kernels: np.ndarray, cut: node_groups.Cut) -> np.ndarray:
        """Computes the columns of cut kernels: float32 [rows, len(names)]."""
        times = self._predict_times(kernels, cut)
        total = times.sum(axis=1, keepdims=True)
        logs = np.log(total)
        change = logs - self._untiled[kernels, np.newaxis]
        columns = np.concatenate([logs, change, times / total], axis=1)
        return columns.astype(np.float32)

    def _predict_times(self, kernels: np.ndarray, cut: node_groups.Cut) -> np.ndarray:
        """Computes the nanoseconds of each term, float64 [rows, terms]."""
        counts = self.counts(kernels, cut)
        return np.stack([*counts.values()], axis=1) * self._rates[kernels]

    def counts(
        self, kernels: np.ndarray, cut: node_groups.Cut
    ) -> dict[str, np.ndarray]:
        """Computes the counts of all terms.

        Args:
            kernels: int [rows], the kernels.
            cut: their tiles.

        Returns:
            Term -> float64 [rows].
        """
        groups, rounds = self._groups, cut.rounds
        # [rows] each: elements of a tile, those of all rounds, and iterations inside a
        # round, which computes `reduced` operands into each element.
        outputs = cut.tile[:, :_RANK].prod(axis=1)
        reduced = cut.tile[:, _RANK:].prod(axis=1)
        results, inside = outputs * rounds, outputs * reduced
        iterations = inside * rounds
        operands = groups.bytes[kernels]  # [rows, 8]
        # No more of an operand is read than there are iterations.
        read = np.minimum(cut.elements, inside[:, np.newaxis]) * operands

        loop = node_groups.last_above_1(cut.tile)[:, np.newaxis]  # [rows, 1]
        length = np.take_along_axis(cut.tile, loop, axis=1)[:, 0]
        along = groups.source[kernels] == loop[..., np.newaxis]  # [rows, 8, 6]
        # An operand jumps if the innermost loop moves along another dimension than its
        # fastest; it splits if that loop covers several dimensions, as after a reshape.
        jumps = along.any(axis=2) & (self._fastest[kernels] != loop)
        splits_ = (along & (cut.part > 1)).sum(axis=2) > 1
        arrays = operands / _WIDTH

        is_product = self._products[kernels]
        is_convolution = self._convolutions[kernels]
        is_loop = ~is_product & ~is_convolution
        is_chain = self._reduces[kernels] & (reduced > 1)
        is_extreme = self._extremes[kernels]
        is_sum = reduced > 1
        is_thin = (cut.tile[:, :_RANK] > 1).sum(axis=1) < 2
        fetched = self._fetched(kernels, cut, inside)
        return {
            'call': np.ones(len(kernels)),
            'rounds': rounds,
            'loops': is_loop * iterations / length,
            'tails': groups.work(kernels, cut) * (length % _VECTOR / length),
            'results': results,
            'functions': self._functions[kernels] * results,
            'narrow': self._narrow[kernels] * results,
            'jumps': is_loop * iterations * (arrays * jumps).sum(axis=1),
            'splits': is_loop * iterations * (arrays * splits_).sum(axis=1),
            'extremes': (is_chain & is_extreme) * iterations,
            'sums': (is_chain & ~is_extreme) * iterations,
            'bytes': read.sum(axis=1) * rounds,
            **{name: is_loop * rounds * count for name, count in fetched.items()},
            'products': (is_product & is_sum) * iterations,
            'short_products': (is_product & is_sum & (reduced < _SHORT)) * iterations,
            'thin_products': (is_product & is_thin) * iterations,
            'convolutions': (is_convolution & is_sum) * iterations,
            'positions': is_convolution * results,
            'windows': is_convolution * rounds,
        }

    def _fetched(
        self, kernels: np.ndarray, cut: node_groups.Cut, inside: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Counts the lines that a round brings into each cache.

        Args:
            kernels: int [rows].
            cut: the tiles of the rows, and their rounds.
            inside: float64 [rows], iterations of a round.

        Returns:
            Name of a cache -> float64 [rows], of all operands and the output.
        """
        groups = self._groups
        whole = np.maximum(groups.whole[kernels, :_RANK], 1)

        def with_output(operands: np.ndarray, output: np.ndarray) -> np.ndarray:
            # [rows, 8, ...] and [rows, ...] -> [rows, 9, ...]
            return np.concatenate([operands, output[:, np.newaxis]], axis=1)

        # Elements of 4 bytes that the arrays of a group have in one place: [rows, 9].
        elements = with_output(groups.bytes[kernels], groups.result_width[kernels])
        elements = elements / _WIDTH
        # Of the 9, kernels have three or so: from here on [n, ...], those there are.
        row, number = np.nonzero(elements)
        place = np.broadcast_to(np.arange(_RANK), whole.shape)
        arrays = _Arrays(
            with_output(groups.source[kernels], place)[row, number],
            with_output(groups.size[kernels], whole)[row, number],
            with_output(cut.part, cut.tile[:, :_RANK])[row, number],
        )
        elements = elements[row, number]
        return {
            name: np.bincount(
                row, np.minimum(lines, inside[row]) * elements, len(kernels)
            )
            for name, lines in zip(_CACHES, _lines(arrays, cut.tile[row]))
        }


class _Arrays(NamedTuple):
    """N arrays and their tiles, [N, 6] each.

    Attributes:
        source: the loop along a dimension, or `WHOLE` of `node_tiles`.
        size: elements of the dimension.
        part: elements of the tile along it.
    """

    source: np.ndarray
    size: np.ndarray
    part: np.ndarray


def _lines(arrays: _Arrays, tile: np.ndarray) -> list[np.ndarray]:
    """Returns the lines of each array that a round brings into each of `_CACHES`.

    Args:
        arrays: the arrays.
        tile: float64 [N, 12], iterations of the loops, the outermost first.

    Returns:
        For each cache float64 [N].
    """
    count = len(tile)
    steps = np.full(arrays.size.shape, _WIDTH)  # bytes from an element to the next
    steps[:, :-1] *= np.cumprod(arrays.size[:, :0:-1], axis=1)[:, ::-1]
    boxes = {line: _Boxes(line, arrays.size, steps) for line in _LINE_SIZES}
    touched = np.ones(arrays.size.shape)  # the box that the loops so far touch
    fetched = [np.ones(count) for _ in _CACHES]
    fits = [np.ones(count, bool) for _ in _CACHES]
    for loop in range(node_tiles.WHOLE, -1, -1):  # what is needed whole, innermost
        moved = (arrays.source == loop) & (arrays.part > 1)  # [N, 6]
        moves = moved.any(axis=1)
        if loop < node_tiles.WHOLE:
            iterations = tile[:, loop]
        else:
            iterations = np.where(moved, arrays.part, 1).prod(axis=1)
        if not (iterations > 1).any():
            continue
        touched = np.where(moved, arrays.part, touched)
        occupied = {line: boxes[line].occupied(touched) for line in _LINE_SIZES}
        for number, cache in enumerate(_CACHES.values()):
            lines, places = occupied[cache.line]
            once = np.where(moves, lines, fetched[number])
            again = fetched[number] * iterations
            fetched[number] = np.where(fits[number], once, again)
            fits[number] &= lines <= places(cache)
    return fetched


class _Boxes:
    """What boxes of N arrays occupy in caches of one line size.

    Args:
        line: bytes.
        size: float64 [N, 6], elements of the arrays along their dimensions.
        steps: float64 [N, 6], bytes from an element to the next one.
    """

    def __init__(self, line: int, size: np.ndarray, steps: np.ndarray):
        self._line, self._size = line, size
        self._lines = steps / line  # of a step
        # A step of n lines, n a multiple of a power of two, skips as many sets.
        exact = (self._lines >= 1) & (self._lines == np.floor(self._lines))
        number = np.where(exact, self._lines, 1).astype(np.int64)
        self._skipped = number & -number

    def occupied(
        self, touched: np.ndarray
    ) -> tuple[np.ndarray, Callable[[_Cache], np.ndarray]]:
        """Returns how many lines boxes have, and the places for them.

        Args:
            touched: float64 [N, 6], sizes of the boxes.

        Returns:
            Lines, float64 [N]; and cache -> places in the sets that they fall into.
        """
        # Bytes that lie together: of the fastest dimensions up to the first cut one.
        together = np.ones(touched.shape, bool)
        is_whole = touched >= self._size
        together[:, :-1] = np.logical_and.accumulate(is_whole[:, :0:-1], 1)[:, ::-1]
        run = np.where(together, touched, 1).prod(axis=1) * _WIDTH
        run = np.ceil(run / self._line)
        # Along the others, steps of less than a line share lines.
        shared = np.minimum(touched, np.ceil(touched * self._lines))
        shared[together] = 1

        def places(cache: _Cache) -> np.ndarray:
            free = cache.sets / np.minimum(self._skipped, cache.sets)
            sets = np.minimum(shared, free).prod(axis=1)
            places: np.ndarray = cache.ways * np.minimum(sets * run, cache.sets)
            return places

        return run * shared.prod(axis=1), places
