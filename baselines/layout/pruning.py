"""Finds the cells, nodes in distinct states, that scoring a program has to compute.

After l layers of message passing a node depends on the layouts of the
configurable nodes within l hops, and on nothing else.  A configurable node has
few different layouts in all configurations, so most nodes look the same in
most configurations: they are in one of a few *states*.  A node in a state is a
*cell*, and each layer is computed once per cell:

    structure = Structure.build(matrices, affected)     # once per program
    states = structure.find_states(codes)               # for some configurations
    arrays = structure.list_cells(codes, states)        # indices for TensorFlow

No approximation: cells hold what the whole program's nodes would, and a node
with too many states gets one per configuration.  Only numpy and scipy here;
nodes are numbered by hops, configurable ones first.
"""

from collections.abc import Sequence
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from baselines.core import arrays


class SparseMatrix(NamedTuple):
    """A sparse matrix as coordinates."""

    rows: np.ndarray  # int [entries]
    cols: np.ndarray  # int [entries]
    values: np.ndarray  # float32 [entries]


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class States:
    """The states of groups of nodes, at one layer."""

    of_config: np.ndarray  # int32 [groups, c], the state in each configuration
    # int64 [groups + 1]; states are numbered through all groups, and group g has
    # start[g] .. start[g + 1]
    start: np.ndarray
    example: np.ndarray  # int64 [states], a configuration with that state

    @property
    def counts(self) -> np.ndarray:
        """Number of states of each group."""
        return np.diff(self.start)


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Structure:
    """The configurable nodes that each node depends on, layer by layer.

    Attributes:
        affected: a_l, how many nodes vary at layer l = 0, 1, ..
        entries: per layer but the first and per matrix, the entries from nodes
            that vary.
        group: per layer int [a_l]; nodes of one group depend on the same
            configurable nodes.
        depends_on: per layer and group, numbers of configurable nodes, ascending.
    """

    affected: list[int]
    entries: list[list[SparseMatrix]]
    group: list[np.ndarray]
    depends_on: list[list[np.ndarray]]

    @classmethod
    def build(
        cls, matrices: Sequence[SparseMatrix], affected: Sequence[int]
    ) -> 'Structure':
        """Finds the nodes that depend on configurable ones.

        Args:
            matrices: the factors of messages, with nodes sorted by hops.
            affected: number of nodes that vary in each layer; they begin with the nodes
                that vary in the layer before.
        """
        k = affected[0]
        reach = scipy.sparse.identity(k, np.int32, 'csr')
        group, depends_on, entries = [np.arange(k)], [list(np.arange(k)[:, None])], []
        for before, now in zip(affected, affected[1:]):
            kept = [
                SparseMatrix(*[column[m.cols < before] for column in m])
                for m in matrices
            ]
            rows = np.concatenate([m.rows for m in kept])
            cols = np.concatenate([m.cols for m in kept])
            steps = scipy.sparse.csr_matrix(
                (np.ones(len(rows), np.int32), (rows, cols)), (now, before)
            )
            reach = steps @ reach
            reach.data[:] = 1  # only whether there is a path, not the number of paths
            numbers, sets = _group_rows(reach)
            group.append(numbers)
            depends_on.append(sets)
            entries.append(kept)
        return cls(list(affected), entries, group, depends_on)

    def find_states(self, codes: np.ndarray) -> list[States]:
        """Finds the states of all groups in the given configurations.

        Args:
            codes: int [c, k], equal in a column where layouts are equal.

        Returns:
            Per layer the states.
        """
        configs = len(codes)
        local, counts = _rank_columns(codes)
        of_sets: dict[bytes, tuple[np.ndarray, int]] = {}
        layers = []
        for sets in self.depends_on:
            of_config = np.empty((len(sets), configs), np.int32)
            sizes = np.empty(len(sets), np.int64)
            for g, nodes in enumerate(sets):
                key = nodes.tobytes()
                if key not in of_sets:
                    of_sets[key] = _number_joint_states(local, counts, nodes)
                of_config[g], sizes[g] = of_sets[key]
            start = np.concatenate([[0], np.cumsum(sizes)])
            example = np.empty(start[-1], np.int64)
            # Any configuration with the state will do: the last one stays.
            example[of_config + start[:-1, None]] = np.arange(configs)
            layers.append(States(of_config, start, example))
        return layers

    def count_cells(self, states: Sequence[States]) -> tuple[int, int]:
        """Returns the numbers of cells and of messages in the largest layer."""
        cells = [s.counts[g].sum() for s, g in zip(states, self.group)]
        messages = [
            sum(s.counts[g[m.rows]].sum() for m in kept)
            for s, g, kept in zip(states[1:], self.group[1:], self.entries)
        ]
        return int(max(cells)), int(max(messages, default=0))

    def list_cells(self, codes: np.ndarray, states: Sequence[States]) -> dict[str, Any]:
        """Lists the cells of configurations, and the messages between cells.

        Returns:
            `codes`: [cells of layer 0], the code of each.  `layers`: per layer
            node [cells]: the node of each cell;
            first [cells of configurable nodes]: each one's cell of layer 0;
            previous [cells of nodes that vary in the layer before]: each one's
            cell there;
            messages: per matrix the entries, from cell to cell.
            `pool`: of the last layer
            state [cells]: group and state of each, as one number below
            num_states [];
            first_cells []: as many are of configurable nodes, and come first;
            of_config [c, groups]: that number for each configuration and group;
            first_groups []: as many groups have configurable nodes, and come first.
            In every layer the cells of configurable nodes come first, then
            those of other nodes that vary in the layer before.
        """
        # Cells of a layer are numbered node by node, and states count up inside a
        # node.  So the cell of (node, configuration) is the node's first cell plus
        # the state of its group in that configuration: no search, no table.
        k = self.affected[0]
        layers: list[dict[str, Any]] = []
        starts: list[np.ndarray] = []

        def cell(layer: int, nodes: np.ndarray, configs: np.ndarray):
            in_state = states[layer].of_config[self.group[layer][nodes], configs]
            return starts[layer][nodes] + in_state

        for layer, (state, group) in enumerate(zip(states, self.group)):
            sizes = state.counts[group]  # [a_l], cells of each node
            starts.append(arrays.find_starts(sizes))
            node = np.repeat(np.arange(len(group), dtype=np.int32), sizes)
            # [cells]: state of each, numbered across groups as in `state.start`.
            number = np.arange(len(node)) + np.repeat(
                state.start[group] - starts[layer], sizes
            )
            example = state.example[number]  # [cells], a configuration with that state
            before = max(layer - 1, 0)
            first = slice(sizes[:k].sum())
            previous = slice(sizes[: self.affected[before]].sum())
            messages = []
            for m in self.entries[layer - 1] if layer else []:
                # An entry (row, column) becomes one message per cell of the row.
                # Equal states of a row imply equal states of what it depends on, so
                # any configuration with that state finds the column's cell.
                many = sizes[m.rows]  # [entries]
                rows = arrays.concatenate_ranges(starts[layer][m.rows], many)
                rows = rows.astype(np.int32)
                cols = cell(before, np.repeat(m.cols, many), example[rows])
                messages.append(SparseMatrix(rows, cols, np.repeat(m.values, many)))
            cells = {
                'node': node,
                'first': cell(0, node[first], example[first]),
                'previous': cell(before, node[previous], example[previous]),
                'messages': messages,
            }
            if not layer:
                cells['code'] = codes[example, node]
            layers.append(cells)
        return {
            'codes': layers[0].pop('code'),
            'layers': layers,
            'pool': {
                'state': number,
                'num_states': state.start[-1],
                'first_cells': sizes[:k].sum(),
                'of_config': (state.of_config + state.start[:-1, None]).T,
                'first_groups': group[:k].max(initial=-1) + 1,
            },
        }


def _group_rows(reach: scipy.sparse.csr_matrix) -> tuple[np.ndarray, list[np.ndarray]]:
    """Numbers the distinct rows of a 0-1 matrix; returns their columns, too."""
    reach.sort_indices()
    numbers = np.empty(reach.shape[0], np.int64)
    number_of: dict[bytes, int] = {}
    sets: list[np.ndarray] = []
    ends = reach.indptr
    columns = reach.indices.astype(np.int64)
    for row in range(reach.shape[0]):
        of_row = columns[ends[row] : ends[row + 1]]
        number = number_of.setdefault(of_row.tobytes(), len(sets))
        if number == len(sets):
            sets.append(of_row)
        numbers[row] = number
    return numbers, sets


def _rank_columns(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Replaces codes by ranks in their column, int32 [k, c]; counts them, int64 [k]."""
    k, configs = codes.shape[1], len(codes)
    columns = np.ascontiguousarray(codes.T)
    highest = int(columns.max(initial=0))
    if highest >= 4 * configs:
        # Too many codes to have a place for each: sort instead.
        from scipy import stats  # takes half a second to import

        ranks = stats.rankdata(columns, 'dense', axis=1).astype(np.int32) - 1
        return ranks, ranks.max(axis=1).astype(np.int64) + 1
    # A mark for each code that a column has; the marks up to a code are its rank.
    present = np.zeros((k, highest + 1), bool)
    present[np.arange(k)[:, None], columns] = True
    ranks = np.cumsum(present, axis=1, dtype=np.int32) - 1
    return np.take_along_axis(ranks, columns.astype(np.int64), 1), present.sum(1)


def _number_joint_states(
    local: np.ndarray, counts: np.ndarray, nodes: np.ndarray
) -> tuple[np.ndarray, int]:
    """Numbers the joint states of configurable nodes, configuration by configuration.

    Returns:
        int [c], and the number of states; if that is above c / 2, every configuration
        gets its own state.
    """
    configs = local.shape[1]
    state, count = local[nodes[0]], int(counts[nodes[0]])
    for node in nodes[1:]:
        # The joint states are at least as many, so they are above c / 2, too.
        if 2 * max(count, counts[node]) > configs:
            count = configs
            break
        span = count * int(counts[node])
        # Both states as one number below `span`, then numbered without gaps.
        state = state * np.int64(counts[node]) + local[node]
        present = np.zeros(span, bool)
        present[state] = True
        ranks = np.cumsum(present, dtype=np.int32) - 1
        state, count = ranks[state], int(ranks[-1]) + 1
    if len(nodes) > 1 and 2 * count > configs:
        return np.arange(configs, dtype=np.int32), configs
    return state, count
