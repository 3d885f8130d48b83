"""One row of numbers per (program, configuration), for models that take no graphs.

What `layout_simulated.py` gives its gradient-boosted trees: sums over the
configurable nodes, by kind of instruction, of what their layouts do to the
arrays, each relative to all bytes that the configurable nodes touch.  Made from
the published arrays alone.

  per tensor (output, input, kernel)
    padded     bytes that the array fills in registers of 8 x 128
    minor      bytes of arrays whose fastest dimension is the last, the one
               before, ...; and roots of bytes, which count small arrays too
    second     the same for the second fastest
    role       of the fastest and second fastest dimension of a convolution's
               arrays: batch (input features), features, image or window
  columns      of the matrix unit that the output leaves empty, in bytes
  copies       bytes whose layout is not the one in which they arrive, from
               another configurable node or from a row-major array, following
               the first operand of the same shape upwards
  reshapes     bytes of those that are not row major on both sides
"""

from typing import Dict, List, NamedTuple, Tuple

import numpy as np

from baselines.hlo import schema

CONVOLUTION, DOT, RESHAPE = map(
    schema.OPCODE_NUMBERS.get, ('convolution', 'dot', 'reshape')
)
_KINDS = (CONVOLUTION, DOT, RESHAPE)
_RANKS = 4  # positions that are told apart
_ROLES = 3
_PER_TENSOR = 1 + 3 * _RANKS + 2 * _ROLES
_PER_KIND = 3 * _PER_TENSOR + 1 + 2 * 3 * 2 + 1
_COUNTED = 1e-3
_FAR = 64  # nodes followed upwards at most
# Columns of a convolution's batch and feature dimension, per tensor.
_CONVOLUTION_DIMS = (
    (schema.OUTPUT_BATCH, schema.OUTPUT_FEATURE),
    (schema.INPUT_BATCH, schema.INPUT_FEATURE),
    (schema.KERNEL_INPUT, schema.KERNEL_OUTPUT),
)


class Rows(NamedTuple):
    """What is known about configurations of one program.

    Attributes:
        graph_id: the program.
        sums: float64 [c, f], sums over its configurable nodes.
        runtimes: float64 [c], ns; 0 where they are not published.
    """

    graph_id: str
    sums: np.ndarray
    runtimes: np.ndarray


def rows_of(store, graph: int, merged: bool) -> Rows:
    """Computes the rows of a program of a `LayoutStore`.

    Args:
        store: the split.
        graph: the program's index.
        merged: one row for equal configurations, with their mean runtime.
    """
    program = _Program(store, graph)
    sums, runtimes = program.sums(), store.group_runtime[store.rows('group', graph)]
    if not merged:
        of_config = store.rows('config', graph)
        sums = sums[np.asarray(store.config_group[of_config])]
        runtimes = store.config_runtime[of_config]
    return Rows(store.graph_ids[graph], sums, np.asarray(runtimes, np.float64))


class _Program:
    """Shapes and operands of a program, and what its configurations do."""

    def __init__(self, store, graph):
        node = store.rows('node', graph)
        self._feat = np.asarray(store.node_feat[node])
        self._opcode = np.asarray(store.node_opcode[node])
        self._nodes = np.asarray(
            store.node_config_ids[store.rows('config_node', graph)]
        )
        self._codes = np.asarray(store.group_codes(graph))
        self._vectors = store.vectors(graph).astype(int).reshape(-1, 3, 6)
        sizes = self._feat[:, schema.DIMENSIONS]
        self._dims = [tuple(int(s) for s in row if s) for row in sizes]
        self._operands: List[List[int]] = [[] for _ in self._dims]
        for consumer, producer in np.asarray(
            store.edge_index[store.rows('edge', graph)]
        ).tolist():
            self._operands[consumer].append(producer)
        self._position = {int(n): i for i, n in enumerate(self._nodes)}
        self._keys: Dict[Tuple[int, int], np.ndarray] = {}
        self._known: Dict[Tuple, np.ndarray] = {}

    def sums(self) -> np.ndarray:
        """Sums over configurable nodes: [different configurations, f]."""
        sums = np.zeros((len(self._codes), len(_KINDS), _PER_KIND))
        total = 1.0
        for place, node in enumerate(self._nodes.tolist()):
            if self._opcode[node] not in _KINDS:
                continue
            kind = _KINDS.index(self._opcode[node])
            arrays = [node, *self._ordered_operands(node, place)][:3]
            total += sum(self._bytes(a) for a in arrays)
            used, which = np.unique(self._codes[:, place], return_inverse=True)
            per_code = [self._of_vector(node, arrays, code) for code in used]
            into = sums[:, kind]
            start = 3 * _PER_TENSOR + 1
            into[:, :start] += np.array(per_code)[which.ravel()]
            for t, array in enumerate(arrays[1:], 1):
                at = start + 6 * (t - 1)
                into[:, at : at + 6] += self._copies(place, t, array)
            if self._opcode[node] == RESHAPE:
                odd = np.zeros(len(self._codes), bool)
                for t, array in enumerate(arrays[:2]):
                    rank = len(self._dims[array])
                    odd |= self._key(t, rank)[self._codes[:, place]] != _key(
                        range(rank)[::-1]
                    )
                into[:, -1] += odd * self._bytes(node)
        return sums.reshape(len(sums), -1) / total

    def _bytes(self, array: int) -> float:
        kind = schema.ELEMENT_TYPES[np.argmax(self._feat[array, schema.TYPES])]
        return float(np.prod(self._dims[array])) * kind.bytes

    def _ordered_operands(self, node: int, place: int) -> List[int]:
        """Input first.  Edges are sorted by number, which need not be so."""
        operands = self._operands[node][:2]
        if len(operands) < 2:
            return operands
        a, b = (self._dims[o] for o in operands)
        if self._opcode[node] == CONVOLUTION:
            row = self._feat[node].astype(int)
            batch = self._dims[node][row[105] :][:1]
            fits = [bool(batch) and d[row[93] :][:1] == batch for d in (a, b)]
        else:
            rank = int((self._vectors[self._codes[0, place], 1] >= 0).sum())
            fits = [len(a) == rank, len(b) == rank]
        return operands[::-1] if fits == [False, True] else operands

    def _of_vector(self, node: int, arrays: List[int], code: int) -> np.ndarray:
        """What one configuration vector does to a node's arrays."""
        found = np.zeros((3, _PER_TENSOR + 1))
        for t, array in enumerate(arrays):
            if len(self._dims[array]) > 1:
                found[t] = self._of_tensor(node, array, t, self._vectors[code, t])
        return np.append(found[:, :-1], found[0, -1])

    def _of_tensor(self, node, array, t, listed) -> np.ndarray:
        """What a layout does to one array; the last value for outputs only."""
        dims, size = self._dims[array], self._bytes(array)
        pair = ()
        if self._opcode[node] == CONVOLUTION:
            pair = tuple(int(self._feat[node, c]) for c in _CONVOLUTION_DIMS[t])
        key = dims, size, pair, *listed.tolist()
        if key not in self._known:
            row = np.zeros(_PER_TENSOR + 1)
            layout = _full(listed, len(dims))
            row[0] = size * _padded(dims, layout)
            for i, dim in enumerate(layout[:2]):
                place = min(len(dims) - 1 - dim, _RANKS - 1)
                row[1 + i * _RANKS + place] = size
                if not i:
                    row[1 + 2 * _RANKS + place] = _COUNTED * size**0.5
                if pair:
                    role = pair.index(dim) if dim in pair else 2
                    row[1 + 3 * _RANKS + i * _ROLES + role] = size
            fastest = dims[layout[0]]
            row[-1] = size * (-fastest % 128) / fastest
            self._known[key] = row
        return self._known[key]

    def _copies(self, place: int, t: int, array: int) -> np.ndarray:
        """Bytes that arrive in another layout: [configurations, 6].

        From a configurable node: any, and a new fastest dimension; from a
        row-major array: the same; and both again after a reshape of it.
        """
        found = np.zeros((len(self._codes), 6))
        rank = len(self._dims[array])
        if rank < 2:
            return found
        wanted = self._key(t, rank)[self._codes[:, place]]
        source = self._source(array)
        if source is None:
            comes, at = np.full(len(wanted), _key(range(rank)[::-1])), 2
        else:
            comes = self._key(0, rank)[self._codes[:, source]]
            at = 4 if self._opcode[self._nodes[source]] == RESHAPE else 0
        size = self._bytes(array)
        found[:, at] = (wanted != comes) * size
        found[:, at + 1] = (wanted % 7 != comes % 7) * size
        return found

    def _source(self, array: int):
        """Place of the configurable node whose layout an array has, or None."""
        dims = self._dims[array]
        for _ in range(_FAR):
            if array in self._position:
                return self._position[array]
            array = next(
                (o for o in self._operands[array] if self._dims[o] == dims), None
            )
            if array is None:
                return None
        return None

    def _key(self, t: int, rank: int) -> np.ndarray:
        """A number for the layout of a tensor in each vector."""
        if (t, rank) not in self._keys:
            self._keys[t, rank] = np.array(
                [_key(_full(v, rank)) for v in self._vectors[:, t]]
            )
        return self._keys[t, rank]


def _full(listed: np.ndarray, rank: int) -> List[int]:
    """Completes a layout that lists only the fastest dimensions."""
    row = [d for d in listed.tolist() if 0 <= d < rank]
    return row + [d for d in range(rank)[::-1] if d not in row]


def _key(layout) -> int:
    return sum(d * 7**i for i, d in enumerate(layout))


def _padded(dims: Tuple[int, ...], layout: List[int]) -> float:
    """Elements in registers per element."""
    first, second = dims[layout[0]], dims[layout[1]]
    return -(-first // 128) * 128 / first * -(-second // 8) * 8 / second
