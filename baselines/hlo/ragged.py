"""Rows of integers of different lengths, end to end in one array; opcode numbers.

Numbers of `Ragged` stay int64 with wrap-around, as in C++, and go to float32 in one
step: by way of float64 some values above 2^53 would be rounded twice.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from baselines.hlo import schema


class Ragged:
    """Rows of integers, stored end to end.

    Attributes:
        flat: int64 [total], all rows one after another.
        lengths: int64 [n], the number of elements of each row.
    """

    def __init__(self, flat: np.ndarray, lengths: np.ndarray):
        self.flat = flat
        self.lengths = lengths

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[int]]) -> 'Ragged':
        """Joins rows of integers, each of which fits into int64."""
        flat: list[int] = []
        lengths: list[int] = []
        for row in rows:
            lengths.append(len(row))
            flat += row
        return cls(np.array(flat, np.int64), np.array(lengths, np.int64))

    @property
    def starts(self) -> np.ndarray:
        """Where each row begins in `flat`, int64 [n]."""
        return np.cumsum(self.lengths) - self.lengths

    def row_numbers(self) -> np.ndarray:
        """Returns the row of every element, int64 [total]."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def spread(self, size: int, rows: np.ndarray) -> 'Ragged':
        """Returns `size` rows: these at the places `rows`, ascending, others empty."""
        lengths = np.zeros(size, np.int64)
        lengths[rows] = self.lengths
        return Ragged(self.flat, lengths)

    def columns(
        self, entries: schema.Entries, pad: int, empty_product: int = 1
    ) -> np.ndarray:
        """Returns the first elements of each row, and totals over the whole row.

        Args:
            entries: the entries of a `schema.MessageField`: places in a row, then
                names of totals.
            pad: value of elements that a row does not have.
            empty_product: the product of an empty row.

        Returns:
            int64 [n, entries]; sums and products wrap around.
        """
        width = sum(isinstance(entry, int) for entry in entries)
        places = np.arange(width)
        present = places < self.lengths[:, None]
        out = np.full((len(self.lengths), len(entries)), pad, np.int64)
        out[:, :width][present] = self.flat[(self.starts[:, None] + places)[present]]
        for column, entry in enumerate(entries[width:], width):
            out[:, column] = self._totals(str(entry), empty_product)
        return out

    def _totals(self, name: str, empty_product: int) -> np.ndarray:
        """Returns the sum, product, size or number of true elements of each row."""
        if name == 'size':
            return self.lengths
        if name == 'product':
            return self._reduced(np.multiply.reduceat, empty_product)
        sums = self._reduced(np.add.reduceat, 0)
        return self.lengths - sums if name == 'false_count' else sums

    def _reduced(self, reduceat: Callable, empty: int) -> np.ndarray:
        """Reduces each row to a number; an empty row to `empty`."""
        out = np.full(len(self.lengths), empty, np.int64)
        present = self.lengths > 0
        if present.any():
            # Empty rows have no extent, so the next present row's start ends
            # each segment.
            out[present] = reduceat(self.flat, self.starts[present])
        return out


def opcode_numbers(opcodes: Iterable[str]) -> np.ndarray:
    """Returns the numbers of opcode names, uint8; `schema.UNKNOWN_OPCODE` of others.

    Names are matched exactly, case included.
    """
    numbers = [schema.OPCODE_NUMBERS.get(o, schema.UNKNOWN_OPCODE) for o in opcodes]
    return np.array(numbers, np.uint8)
