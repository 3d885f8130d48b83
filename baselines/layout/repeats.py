"""Merges cells that hold the same: equal states of equal blocks of a program.

A cell (see `pruning`) is what its node's rows of the bases, its cell one layer
before and its messages make of it.  Where these are equal, so are the
cells, whatever the model computes from them: transformer layers that have been
given the same layouts are computed once.  Equal messages means equal sums up to
the order of summation.  `structural_hash` says how they are compared.
"""

import dataclasses
from typing import Any, Dict, List, Sequence

import numpy as np

from baselines.data import structural_hash


@dataclasses.dataclass(frozen=True, eq=False)
class Likeness:
    """What is alike in a program, before its configurations are known.

    Attributes:
        rows: int [a_L], equal for nodes with equal rows in all bases.
        weights: per layer but the first and per matrix, odd uint64 [entries],
            equal for equal values of the same matrix.
    """

    rows: np.ndarray
    weights: List[List[np.ndarray]]

    @classmethod
    def build(cls, bases: Sequence[np.ndarray], entries) -> 'Likeness':
        """Compares bit by bit.

        Models may use any of the bases in any layer.

        Args:
            bases: float32 [a_L, any], what cells take from their nodes.
            entries: of `pruning.Structure`.
        """
        return cls(
            structural_hash.number_rows(np.concatenate(bases, 1)),
            [
                [_weights(m.values, number) for number, m in enumerate(kept)]
                for kept in entries
            ],
        )

    def repeated(self, count: int) -> float:
        """The share of the first `count` nodes whose row an earlier one has."""
        return 1 - len(np.unique(self.rows[:count])) / max(count, 1)


def _weights(values: np.ndarray, matrix: int) -> np.ndarray:
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.int64)
    return structural_hash.mix(bits + (matrix << 32)) | np.uint64(1)


class CellMerger:
    """Merges the cells of one layer after the other.

    Args:
        likeness: of the program.
    """

    def __init__(self, likeness: Likeness):
        self._likeness = likeness
        self._layer = -1
        self._hashes = np.zeros(0, np.uint64)
        self._configurable = np.zeros(0, np.int64)
        self.merged = np.zeros(0, np.int64)

    def merge(
        self, cells: Dict[str, Any], kind: np.ndarray, times: Sequence[np.ndarray]
    ) -> Dict[str, Any]:
        """Merges the cells of the next layer.

        Afterwards `merged` says which of the cells that are left is each one,
        int [cells].

        Args:
            cells: a layer of `pruning.Structure.cells`; the first has `code`
                int [cells], too.
            kind: int [cells]; cells of different kinds are not merged, and if
                those of one kind come first they still do.
            times: per matrix int [entries], the messages along each.

        Returns:
            The same layer with one cell for all that are equal.
        """
        self._layer += 1
        row = self._likeness.rows[cells['node']]
        hashes = structural_hash.mix(4 * row + kind)
        if self._layer:
            weights = self._likeness.weights[self._layer - 1]
            for m, weight, many in zip(cells['messages'], weights, times):
                hashes += structural_hash.sum_messages(
                    m.rows, m.cols, np.repeat(weight, many), self._hashes, len(row)
                )
            before = cells['previous']
            hashes[: len(before)] += structural_hash.mix(self._hashes[before])
        else:
            hashes += structural_hash.mix(structural_hash.mix(cells['code']))
        hashes = structural_hash.mix(hashes)
        first = structural_hash.first_equal(hashes, 4 * row + kind)
        is_first = first == np.arange(len(first))
        number = np.cumsum(is_first, dtype=np.int32) - 1
        kept, sources = np.flatnonzero(is_first), self.merged
        self._hashes, self.merged = hashes, number[first]
        if not self._layer:
            self._configurable = sources = self.merged
        messages = []
        for m in cells['messages']:
            stay = np.flatnonzero(is_first[m.rows])
            messages.append(
                type(m)(number[m.rows[stay]], sources[m.cols[stay]], m.values[stay])
            )
        return {
            **{name: cells[name][kept] for name in cells if name in ('node', 'code')},
            'first': self._configurable[_of(cells['first'], kept)],
            'previous': sources[_of(cells['previous'], kept)],
            'messages': messages,
        }


def _of(column: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Rows in `kept`, which ascend, of a column of the first cells."""
    return column[kept[: np.searchsorted(kept, len(column))]]
