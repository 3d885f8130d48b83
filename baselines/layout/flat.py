"""The table of a layout configuration: all that trees see of it.

    table = FlatTable(store)
    table.names                     # of the columns
    table.rows(graphs, configs)     # float32 [rows, columns]

The effects of layouts on a configurable instruction are those that `PaddedSAGE`
reads (`zoo.effects`, `zoo.products`).  A row is made of means over the program's
configurable instructions, weighted by amounts of work, and of single ones:

    <array>_<effect>            by the array's share of the program's bytes: its two
                                fastest dimensions' sizes and padding, whether they
                                are the last ones, or batch or features
    <array>_<effect>_products   the same by share of the multiply-adds
    padded_work                 share of multiply-adds x padding: the formula of
                                `zoo.products`; log_padded_work, of the logarithm
    followers_<effect>          output's effects by elements of what takes its layout
    reduced_<place>             share of what is reduced along a fast dimension
    copied_<array>              share of the operands' bytes that arrive in another
                                layout
    layout_<i>_<column>         of one instruction each, those whose padding can cost
                                most first: its share of the multiply-adds, their
                                padding, and the two fastest dimensions of each array
    log_<amount>                of the whole program

Arrays that no configuration lays out are row major.
"""

import itertools
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from baselines.data.layout import store as layout_store
from baselines.hlo import schema
from baselines.layout.zoo import arrays as arrays_lib
from baselines.layout.zoo import effects
from baselines.layout.zoo import instructions as instructions_lib
from baselines.layout.zoo import products as products_lib
from baselines.layout.zoo import spreading

_ARRAYS = schema.LAYOUT_ARRAYS
_EFFECTS = (
    *(f'log_size_{place}' for place in range(2)),
    *(f'log_waste_{place}' for place in range(2)),
    'log_waste',
    'waste',
    *(f'is_last_{place}' for place in range(2)),
    *(f'is_{role}_{place}' for place in range(2) for role in ('batch', 'feature')),
)
_OUTPUT_EFFECTS = slice(0, len(_EFFECTS))
_AMOUNTS = ('bytes', 'multiply_adds', 'followers', 'reduced', 'instructions')
_SINGLE = 64  # instructions with columns of their own; one of few can matter most
_OF_SINGLE = (
    'share',
    'log_padded',
    *(f'{array}_{place}' for array in _ARRAYS for place in range(2)),
)
_HOPS = 16
_MOST_WASTE = 4.0  # as in `zoo.padded`
CELLS = 1 << 19  # pairs of configurable instruction and configuration at once

NAMES: Tuple[str, ...] = (
    *(f'{array}_{effect}' for array in _ARRAYS for effect in _EFFECTS),
    *(f'{array}_{effect}_products' for array in _ARRAYS for effect in _EFFECTS),
    'padded_work',
    'log_padded_work',
    *(f'followers_{effect}' for effect in _EFFECTS),
    *(f'reduced_{place}' for place in range(2)),
    *(f'copied_{array}' for array in _ARRAYS[1:]),
    *(f'layout_{i}_{name}' for i in range(_SINGLE) for name in _OF_SINGLE),
    *(f'log_{amount}' for amount in _AMOUNTS),
)


class _Program(NamedTuple):
    """A program's k configurable instructions without their layouts.

    Attributes:
        instructions: their arrays; `there` and `last` are int64, `fixed` is bool.
        products: multiply-adds, `zoo.products.Products`.
        weights: float32 [k, 6], shares of the program's: bytes of output, of
            input, of kernel, multiply-adds, followers and reduced elements.
        source: int64 [k, 2], where input and kernel come from; -1: from no
            configurable instruction.
        single: int64 [s], those with columns of their own.
        totals: float32 [5], logarithms.
    """

    instructions: instructions_lib.Instructions
    products: products_lib.Products
    weights: np.ndarray
    source: np.ndarray
    single: np.ndarray
    totals: np.ndarray


class FlatTable:
    """The columns of a split's configurations, computed as they are asked for.

    Attributes:
        names: of the columns.

    Args:
        store: a split of programs.
        wanted: names of the columns to compute; None means all.

    Raises:
        ValueError: there is no such column.
    """

    def __init__(
        self, store: layout_store.LayoutStore, wanted: Optional[Sequence[str]] = None
    ):
        self._store = store
        self.names: List[str] = list(NAMES if wanted is None else wanted)
        for name in self.names:
            if name not in NAMES:
                raise ValueError(
                    f'there is no column {name[:40]!r}, which the trees look at'
                )
        self._used = [NAMES.index(name) for name in self.names]
        self._read: Dict[int, _Program] = {}  # the last one alone
        self._unscaled = arrays_lib.Unscaled(None)

    @property
    def counts(self) -> np.ndarray:
        """int64 [programs], configurations of each."""
        return self._store.config_counts

    def rows(self, graphs: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes rows.

        Args:
            graphs: int64 [r], programs; quickest where equal ones stand together.
            configs: int64 [r], a configuration of each.

        Returns:
            float32 [r, len(names)].
        """
        table = np.empty((len(graphs), len(self._used)), np.float32)
        for graph in np.unique(graphs):
            rows = np.flatnonzero(graphs == graph)
            width = len(self._store.part('node_config_ids', graph))
            most = max(1, CELLS // max(1, width))
            for start in range(0, len(rows), most):
                block = rows[start : start + most]
                columns = self._of_program(int(graph), configs[block])
                table[block] = columns[:, self._used]
        return table

    def _of_program(self, graph: int, configs: np.ndarray) -> np.ndarray:
        if graph not in self._read:
            self._read = {graph: self._program(graph)}
        program, store = self._read[graph], self._store
        groups = store.part('config_group', graph)[configs]
        codes = store.group_codes(graph)[groups]
        k, vectors = codes.shape[1], store.vectors(graph)
        node, code, cell = cells(codes, len(vectors))
        dims = program.instructions.dims[node]
        fastest = self._unscaled.fastest(vectors[code].astype(np.float32))
        fastest = effects.or_row_major(fastest, dims)
        of_cells = self._of_cells(program, node, dims, fastest)
        sums = np.zeros((len(codes), of_cells.shape[1]), np.float32)
        for i in range(k):
            sums += of_cells[cell[:, i]]
        places = np.clip(np.rint(fastest), 0, arrays_lib.RANK - 1)
        places = places.astype(np.int64)
        return np.concatenate(
            [
                sums,
                _copied(program, places, cell),
                self._single(program, node, places, fastest, cell),
                np.tile(program.totals, (len(codes), 1)),
            ],
            axis=1,
        )

    def _of_cells(
        self, program: _Program, node: np.ndarray, dims: np.ndarray, fastest: np.ndarray
    ) -> np.ndarray:
        """Computes weighted columns of cells, to be summed over instructions."""
        places = effects.hat(fastest)
        roles = program.instructions.roles[node]
        of_arrays = effects.of_layouts(fastest, places, dims, roles, _MOST_WASTE)
        weights = program.weights[node]
        by_array = np.repeat(weights[:, :3], len(_EFFECTS), axis=1)
        padded = _padded(program, node, fastest)
        reduced = program.instructions.reduced[node][:, np.newaxis]
        reduced = (places[:, 0] * reduced).sum(axis=-1)
        output = of_arrays[:, _OUTPUT_EFFECTS]
        return np.concatenate(
            [
                of_arrays * by_array,
                of_arrays * weights[:, 3:4],
                padded * weights[:, 3:4],
                np.log(padded) * weights[:, 3:4],
                output * weights[:, 4:5],
                reduced * weights[:, 5:6],
            ],
            axis=1,
        )

    def _single(
        self,
        program: _Program,
        node: np.ndarray,
        places: np.ndarray,
        fastest: np.ndarray,
        cell: np.ndarray,
    ) -> np.ndarray:
        """Computes the columns of single instructions; -1 for none."""
        columns = np.full((len(cell), _SINGLE, len(_OF_SINGLE)), -1, np.float32)
        log_padded = np.log(_padded(program, node, fastest))
        of_cells = np.concatenate([log_padded, places.reshape(len(node), -1)], axis=1)
        for i, number in enumerate(program.single):
            columns[:, i, 0] = program.weights[number, 3]
            columns[:, i, 1:] = of_cells[cell[:, number]]
        return columns.reshape(len(cell), -1)

    def _program(self, graph: int) -> _Program:
        part = self._store.part
        feats = np.asarray(part('node_feat', graph), np.float32)
        op = np.asarray(part('node_opcode', graph), np.int32)
        arrays = arrays_lib.make_arrays(op, self._unscaled.nodes(feats))
        consumer, producer = np.asarray(part('edge_index', graph), np.int32).T
        edges = consumer, producer
        chosen = np.asarray(part('node_config_ids', graph), np.int32)
        k, n = len(chosen), len(op)
        origin = spreading.spread(arrays, chosen, edges, _HOPS)
        operands = spreading.operands(arrays, edges)
        reductions = spreading.reductions(arrays, origin, edges)
        followers = spreading.followers(arrays, origin, np.ones([n, 1], np.float32))
        products = products_lib.find(
            arrays, operands, chosen, np.ones([k, 1], np.float32)
        )
        described = instructions_lib.describe(
            arrays, operands, origin, reductions, chosen
        )
        moved = instructions_lib.bytes_moved(arrays, operands, chosen)
        moved = moved.astype(np.float64)
        others = np.stack([followers[:, 0], reductions.elements], axis=1)
        others = others[chosen].astype(np.float64)
        share = products.share.astype(np.float64)
        share /= max(share.sum(), 1e-9)
        weights = [
            moved / max(moved.sum(), 1),
            share,
            others / np.maximum(others.sum(axis=0), 1),
        ]
        totals = [moved.sum(), products.total[0, 0] if k else 0, *others.sum(axis=0), k]
        costs = share[:, 0] * _most_padded(products, described.dims[:, 0])
        return _Program(
            instructions=described._replace(
                there=described.there.astype(np.int64),
                last=np.maximum(described.last, 0).astype(np.int64),
                fixed=described.fixed > 0,
            ),
            products=products,
            weights=np.concatenate(weights, axis=1).astype(np.float32),
            source=_sources(chosen, operands, origin, n),
            # The others, reshapes, by what they move.
            single=np.lexsort([-moved[:, 0], -costs])[:_SINGLE],
            totals=np.log1p(np.array(totals)).astype(np.float32),
        )


def cells(
    codes: np.ndarray, num_vectors: int
) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finds the different layouts that each instruction has.

    Args:
        codes: int [c, k], the vector of k instructions in c configurations.
        num_vectors: how many there are.

    Returns:
        Of each cell, an instruction with one of its layouts, int64 [cells] its
        instruction and its vector; and int64 [c, k], the cell of each code.
    """
    keys = codes + np.arange(codes.shape[1]) * num_vectors
    keys, cell = np.unique(keys, return_inverse=True)
    node, code = np.divmod(keys, max(num_vectors, 1))
    return node, code, cell.reshape(codes.shape)


def _padded(program: _Program, node: np.ndarray, fastest: np.ndarray) -> np.ndarray:
    """Computes how many times as much work padding makes of products: [cells, 1]."""
    of_node = products_lib.at(program.products, node)
    return products_lib.padded(of_node, fastest[:, 0])


def _most_padded(products: products_lib.Products, dims: Any) -> np.ndarray:
    """Computes the padded work of products in their worst layout: [k]."""
    exists = np.asarray(dims) > 0
    worst = np.zeros(len(exists))
    for pair in itertools.permutations(range(arrays_lib.RANK), 2):
        fastest = np.tile(np.array([pair], np.float32), [len(exists), 1])
        more = products_lib.padded(products, fastest)[:, 0]
        worst = np.maximum(worst, np.where(exists[:, pair].all(axis=1), more, 0))
    return worst


def _sources(
    chosen: np.ndarray,
    operands: Sequence[spreading.Operand],
    origin: spreading.Origin,
    n: int,
) -> np.ndarray:
    """Finds the place in `chosen` of the origin of operands, -1 for none: [k, 2]."""
    place = np.full(n, -1)
    place[chosen] = np.arange(len(chosen))
    sources = []
    for operand in operands:
        source = origin.node[operand.node[chosen]]
        exists = operand.exists[chosen] > 0
        sources.append(np.where(exists & (source >= 0), place[source], -1))
    return np.stack(sources, axis=1)


def _copied(program: _Program, places: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """Computes the share of operand bytes that arrive in another layout: [c, 2].

    Args:
        program: of k instructions.
        places: int64 [cells, 3, 2], the two fastest dimensions of each array.
        cell: int64 [c, k], the cell of each instruction in each configuration.
    """
    copied = np.zeros((len(cell), 2), np.float32)
    for operand in range(2):
        weights = program.weights[:, 1 + operand]
        comparable = (program.source[:, operand] >= 0) | program.instructions.fixed[
            :, operand
        ]
        for i in np.flatnonzero(comparable & (weights > 0)):
            there = program.instructions.there[i, operand]
            wanted = there[places[cell[:, i], 1 + operand]]  # [c, 2]
            source = program.source[i, operand]
            if source >= 0:
                arrives = places[cell[:, source], 0]
            else:
                arrives = program.instructions.last[i, operand]
            copied[:, operand] += weights[i] * (wanted != arrives).any(axis=1)
    return copied
