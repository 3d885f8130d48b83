"""The table of a layout configuration, which trees see.

    table = LayoutTable(store)
    table.names                     # of the columns
    table.rows(graphs, configs)     # float32 [rows, columns]

A row is made of means over the program's configurable instructions, weighted by
amounts of work, and of single ones:

    <array>_<effect>            by the array's share of the program's bytes: its two
                                fastest dimensions' sizes and padding, whether they
                                are the last ones, or batch or features
    <array>_<effect>_products   the same by share of the multiply-adds
    padded_work                 share of multiply-adds x padding: the formula of
                                `padding`; log_padded_work, of the logarithm
    layout_<i>_<column>         of one instruction each, those whose padding can cost
                                most first: its share of the multiply-adds, their
                                padding, and the two fastest dimensions of each array
    log_<amount>                of the whole program
    is_<source>_<search>        flags of a training on several collections

Arrays that no configuration lays out are row major.
"""

from collections.abc import Sequence
import itertools
from typing import NamedTuple

import numpy as np
import scipy  # loads `sparse`, which takes a tenth of a second, on first use

from baselines.data.layout import store as layout_store
from baselines.hlo import schema
from baselines.layout import padding
from baselines.layout import shapes

_ARRAYS = schema.LAYOUT_ARRAYS
_EFFECTS = (
    *(f'log_size_{place}' for place in range(2)),
    *(f'log_waste_{place}' for place in range(2)),
    'log_waste',
    'waste',
    *(f'is_last_{place}' for place in range(2)),
    *(f'is_{role}_{place}' for place in range(2) for role in ('batch', 'feature')),
)
_AMOUNTS = ('bytes', 'multiply_adds', 'instructions')
_SINGLE = 64  # instructions with their own columns, as a few can dominate
_OF_SINGLE = (
    'share',
    'log_padded',
    *(f'{array}_{place}' for array in _ARRAYS for place in range(2)),
)
_NO_ROLE = -9  # no dimension, nor that of an absent one
PAIRS = 1 << 19  # most pairs of instruction and configuration in memory at once

# Columns that are sums over instructions.
_SUMS = (
    *(f'{array}_{effect}' for array in _ARRAYS for effect in _EFFECTS),
    *(f'{array}_{effect}_products' for array in _ARRAYS for effect in _EFFECTS),
    'padded_work',
    'log_padded_work',
)
NAMES: tuple[str, ...] = (
    *_SUMS,
    *(f'layout_{i}_{name}' for i in range(_SINGLE) for name in _OF_SINGLE),
    *(f'log_{amount}' for amount in _AMOUNTS),
)


class _Instructions(NamedTuple):
    """A program's k configurable instructions without their layouts."""

    dims: np.ndarray  # float32 [k, 3, 6], sizes of output, input and kernel; 0 for none
    # int64 [k, 3, 2], batch and feature dimension of each array of a convolution;
    # _NO_ROLE else
    roles: np.ndarray
    products: padding.Products  # multiply-adds
    # float32 [k, 4], shares of the program's: bytes of output, of input and of kernel,
    # and multiply-adds
    weights: np.ndarray
    single: np.ndarray  # int64 [s], the instructions with their own columns
    totals: np.ndarray  # float32 [3], logarithms of the program's `_AMOUNTS`
    flags: np.ndarray  # float32, of its collection; empty for a split of one


class LayoutTable:
    """The columns of a split's configurations, computed as they are asked for.

    Attributes:
        names: the names of the columns.

    Args:
        names: the columns to compute; None means all.

    Raises:
        ValueError: there is no such column.
    """

    def __init__(
        self, store: layout_store.LayoutStore, names: Sequence[str] | None = None
    ):
        self._store = store
        every = [*NAMES, *store.flags]
        self.names: list[str] = list(every if names is None else names)
        for name in self.names:
            if name not in every:
                raise ValueError(
                    f'there is no column {name[:40]!r} for the trees: train again'
                )
        used = np.array([every.index(name) for name in self.names], int)
        # Places of the columns that are sums, and of the others.
        self._sums, self._others = (
            np.flatnonzero(part) for part in (used < len(_SUMS), used >= len(_SUMS))
        )
        self._used = used
        self._last: dict[int, _Instructions] = {}  # the program that was read last

    @property
    def counts(self) -> np.ndarray:
        """int64 [programs], configurations of each."""
        return self._store.config_counts

    def rows(self, graphs: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes rows: float32 [r, len(names)].

        Args:
            graphs: int64 [r], programs; fastest if equal ones are adjacent.
            configs: int64 [r], a configuration of each.
        """
        table = np.empty((len(graphs), len(self.names)), np.float32)
        for graph in np.unique(graphs):
            rows = np.flatnonzero(graphs == graph)
            width = len(self._store.part('node_config_ids', graph))
            most = max(1, PAIRS // max(1, width))
            for start in range(0, len(rows), most):
                block = rows[start : start + most]
                table[block] = self._compute_rows(int(graph), configs[block])
        return table

    def _compute_rows(self, graph: int, configs: np.ndarray) -> np.ndarray:
        """Computes the columns of configurations of one program."""
        if graph not in self._last:
            self._last = {graph: self._read_program(graph)}
        program, store = self._last[graph], self._store
        groups = store.part('config_group', graph)[configs]  # [r]
        codes = store.group_codes(graph)[groups]  # [r, k]
        vectors = store.vectors(graph)  # [d, 18]
        # An instruction has few layouts in all of these configurations, so columns are
        # computed once for each of its a assignments, and looked up in `assigned`.
        node, code, assigned = find_assignments(codes, len(vectors))  # [a], [a], [r, k]
        fastest = padding.read_fastest_dimensions(vectors[code], program.dims[node])
        padded = padding.pad_work(program.products, node, fastest[:, 0])  # [a]
        of_assignments = _compute_assigned_columns(program, node, fastest, padded)
        table = np.empty((len(codes), len(self.names)), np.float32)
        # [r, a], a 1 for each instruction: [r, k, columns] would not fit into memory.
        ones = np.ones(assigned.size, np.float32)
        ends = np.arange(len(codes) + 1) * codes.shape[1]
        chosen = scipy.sparse.csr_matrix(
            (ones, assigned.ravel(), ends), shape=(len(codes), len(node))
        )
        table[:, self._sums] = chosen @ of_assignments[:, self._used[self._sums]]
        places = fastest.clip(0, schema.RANK - 1)  # [a, 3, 2]
        others = np.concatenate(
            [
                _compute_single_columns(program, places, padded, assigned),
                np.tile(program.totals, (len(codes), 1)),
                np.tile(program.flags, (len(codes), 1)),
            ],
            axis=1,
        )
        table[:, self._others] = others[:, self._used[self._others] - len(_SUMS)]
        return table

    def _read_program(self, graph: int) -> _Instructions:
        """Computes what all configurations of a program share."""
        part = self._store.part
        arrays, flags = shapes.Arrays.from_store(self._store, graph)
        edges = np.asarray(part('edge_index', graph)).T  # [2, m]
        chosen = np.asarray(part('node_config_ids', graph))  # [k]
        operands = shapes.find_operands(arrays, *edges)
        products = padding.count_products(arrays, operands, chosen)
        # Bytes of output, input and kernel, 0 for an operand that is not there: [k, 3].
        sizes = [arrays.bytes, *(arrays.bytes[o.node] * o.exists for o in operands)]
        moved = np.stack(sizes, axis=1)[chosen].astype(np.float64)
        share = products.share.astype(np.float64)[:, np.newaxis]  # [k, 1]
        share /= max(share.sum(), 1e-9)
        weights = [moved / max(moved.sum(), 1), share]
        amounts = [moved.sum(), products.total, len(chosen)]
        dims = [arrays.dims[o.node] * o.exists[:, np.newaxis] for o in operands]
        is_convolution = arrays.has_opcode('convolution')[:, np.newaxis, np.newaxis]
        # By the work that a layout can cost; where that is equal, as the 0 of all but
        # products is, by bytes of the output.
        worst = share[:, 0] * _compute_worst_padding(products)
        costliest = np.lexsort([-moved[:, 0], -worst])
        return _Instructions(
            dims=np.stack([arrays.dims, *dims], axis=1)[chosen],
            roles=np.where(is_convolution, arrays.roles, _NO_ROLE)[chosen],
            products=products,
            weights=np.concatenate(weights, axis=1).astype(np.float32),
            single=costliest[:_SINGLE],
            totals=np.log1p(np.array(amounts)).astype(np.float32),
            flags=flags,
        )


def _compute_assigned_columns(
    program: _Instructions, node: np.ndarray, fastest: np.ndarray, padded: np.ndarray
) -> np.ndarray:
    """Computes weighted columns of assignments, to be summed over instructions."""
    of_arrays = padding.get_effects(fastest, program.dims[node], program.roles[node])
    weights = program.weights[node]
    by_array = np.repeat(weights[:, :3], len(_EFFECTS), axis=1)
    work = np.stack([padded, np.log(padded)], axis=1)
    share = weights[:, 3:]
    columns = [of_arrays * by_array, of_arrays * share, work * share]
    return np.concatenate(columns, axis=1)


def _compute_single_columns(
    program: _Instructions, places: np.ndarray, padded: np.ndarray, assigned: np.ndarray
) -> np.ndarray:
    """Computes the columns of single instructions; -1 for none."""
    columns = np.full((len(assigned), _SINGLE, len(_OF_SINGLE)), -1, np.float32)
    of_assignments = np.column_stack([np.log(padded), places.reshape(len(places), -1)])
    for i, number in enumerate(program.single):
        columns[:, i, 0] = program.weights[number, 3]
        columns[:, i, 1:] = of_assignments[assigned[:, number]]
    return columns.reshape(len(assigned), -1)


def find_assignments(
    codes: np.ndarray, num_vectors: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finds the a assignments: an instruction with one of its layouts each.

    Args:
        codes: int [c, k], the vectors of k instructions in c configurations.

    Returns:
        int64 [a], the instruction of each assignment; int64 [a], its vector; and
        int64 [c, k], the assignment of each code.
    """
    # A pair of instruction and vector is one number below k * vectors.
    pairs = codes + np.arange(codes.shape[1]) * num_vectors  # [c, k]
    most = codes.shape[1] * num_vectors
    if most > 4 * pairs.size:  # of few configurations: sort
        present, assigned = np.unique(pairs, return_inverse=True)
    else:  # the same from a mark for each possible pair, in a tenth of the time
        is_present = np.zeros(most, bool)
        is_present[pairs] = True
        present = np.flatnonzero(is_present)
        assigned = (np.cumsum(is_present) - 1)[pairs]
    node, code = np.divmod(present, max(num_vectors, 1))
    return node, code, assigned.reshape(codes.shape)


def _compute_worst_padding(products: padding.Products) -> np.ndarray:
    """Computes the largest padding factor that a layout can give products: [k]."""
    every = np.arange(len(products.dims))
    worst = np.zeros(len(every))
    # Any two dimensions of the output may be the fastest.
    for pair in itertools.permutations(range(schema.RANK), 2):
        factor = padding.pad_work(products, every, np.tile(pair, (len(every), 1)))
        exists = (products.dims[:, pair] > 0).all(axis=1)
        worst = np.maximum(worst, np.where(exists, factor, 0))
    return worst
