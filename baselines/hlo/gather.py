"""Collects one field of many protobuf messages into an array.

`Fields` reads those of instructions, and `gather_timing` those of runs.

Attribute access dominates the time of reading a protobuf in Python, so every field is
read once per message, and NumPy does all arithmetic.
"""

from collections.abc import Callable, Iterable, Sequence
import dataclasses
from typing import Any

from google.protobuf import message
import numpy as np

from baselines.hlo import schema

_TYPES = np.array([kind.number for kind in schema.ELEMENT_TYPES])


class Ragged:
    """Rows of integers of different lengths, end to end in one array.

    Numbers are int64 and wrap around, as in C++.  They become float32 in one step:
    with float64 in between, some values above 2^53 would be rounded twice.

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

    def number_rows(self) -> np.ndarray:
        """Returns the row of every element, int64 [total]."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def spread_rows(self, size: int, rows: np.ndarray) -> 'Ragged':
        """Returns `size` rows: these at the places `rows`, ascending, others empty."""
        lengths = np.zeros(size, np.int64)
        lengths[rows] = self.lengths
        return Ragged(self.flat, lengths)

    def tabulate(
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
        present = places < self.lengths[:, None]  # bool [n, width]
        out = np.full((len(self.lengths), len(entries)), pad, np.int64)
        out[:, :width][present] = self.flat[(self.starts[:, None] + places)[present]]
        for column, entry in enumerate(entries[width:], width):
            out[:, column] = self._compute_totals(str(entry), empty_product)
        return out

    def _compute_totals(self, name: str, empty_product: int) -> np.ndarray:
        """Returns the sum, product, size or number of true elements of each row."""
        if name == 'size':
            return self.lengths
        if name == 'product':
            return self._reduce_rows(np.multiply.reduceat, empty_product)
        sums = self._reduce_rows(np.add.reduceat, 0)
        return self.lengths - sums if name == 'false_count' else sums

    def _reduce_rows(self, reduceat: Callable, empty: int) -> np.ndarray:
        """Reduces each row to a number; an empty row to `empty`."""
        out = np.full(len(self.lengths), empty, np.int64)
        present = self.lengths > 0
        if present.any():
            # Empty rows have no extent, so the next present row's start ends
            # each segment.
            out[present] = reduceat(self.flat, self.starts[present])
        return out


class Fields:
    """Integer fields of n messages and of their sub-messages, by path.

        fields.read_scalars('convolution_dimension_numbers.input_batch_dimension')
        fields.read_lists('shape.dimensions')            # a repeated field
        fields.read_lists('window.dimensions[].size')    # of each of repeated messages

    Asking each message once whether it has a sub-message is much cheaper than
    reading all the fields of an absent one.
    """

    def __init__(self, messages: Sequence[message.Message]):
        self.messages = messages
        self._present: dict[str, tuple[np.ndarray, Sequence[message.Message]]] = {
            '': (np.arange(len(messages)), messages)
        }

    def read_scalars(self, path: str) -> np.ndarray:
        """Returns an integer field, int64 [n]; 0 where its sub-message is absent."""
        parent, _, field = path.rpartition('.')
        rows, messages = self.find_messages(parent)
        out = np.zeros(len(self.messages), np.int64)
        values = (getattr(m, field) for m in messages)
        out[rows] = np.fromiter(values, np.int64, len(messages))
        return out

    def read_lists(self, path: str) -> Ragged:
        """Returns lists of integers, empty where their sub-message is absent."""
        parent, _, field = path.rpartition('.')
        rows, messages = self.find_messages(parent)
        if parent.endswith('[]'):
            lists = Ragged.from_rows([getattr(m, field) for m in ms] for ms in messages)
        else:
            # A slice makes a list in one call.
            lists = Ragged.from_rows(getattr(m, field)[:] for m in messages)
        return lists.spread_rows(len(self.messages), rows)

    def write(
        self,
        features: np.ndarray,
        columns: schema.Columns,
        fields: Iterable[schema.MessageField],
        pad: int,
    ) -> None:
        """Writes the columns of message fields into float32 [n, columns].

        Args:
            pad: value of list entries that a message does not have.
        """
        for field in fields:
            path = field.path or field.name
            if field.entries == schema.IS_TYPE:
                values = self.read_scalars(path)[:, np.newaxis] == _TYPES
            elif field.entries:
                values = self.read_lists(path).tabulate(field.entries, pad)
            else:
                values = self.read_scalars(path)[:, np.newaxis]
            first = columns.at(field.columns[0])
            features[:, first : first + values.shape[1]] = values

    def find_messages(self, path: str) -> tuple[np.ndarray, Sequence[message.Message]]:
        """Finds the messages that have a sub-message.

        Args:
            path: the path of the sub-message; with '[]' at its end, of a repeated one.

        Returns:
            int64, the numbers of these messages, and the sub-message of each; of a
            repeated one the list of them, which is not empty.
        """
        if path not in self._present:
            parent, _, field = path.rpartition('.')
            name = field.replace('[]', '')
            inner = []
            for row, message in zip(*self.find_messages(parent)):
                value = getattr(message, name)
                # A repeated field has a length, and no presence.
                is_there = len(value) if name != field else message.HasField(name)
                if is_there:
                    inner.append((row, value))
            rows = np.fromiter((row for row, _ in inner), np.int64, len(inner))
            self._present[path] = rows, [value for _, value in inner]
        return self._present[path]


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Configs:
    """The usable runs of a module, c of them, in stored order.

    Attributes:
        config_runtime: int64 [c], nanoseconds; 0 for a candidate that was not
            measured.
        normalizer: time of the first usable default run, nanoseconds; None where
            no default was measured.
        default: the default among the c (first measured, else first); or None.
        run_index: int64 [c], the positions of the usable runs among all runs.
        dropped: run counts by reason.
    """

    config_runtime: np.ndarray
    normalizer: int | None
    default: int | None
    run_index: np.ndarray
    dropped: dict[str, int]


def time_of(run: message.Message) -> int:
    """Returns the nanoseconds that a run took; 0 or less if it was not measured."""
    return run.profile.compute_time_ns


def gather_timing(
    usable: Sequence[tuple[int, message.Message]], least: int
) -> dict[str, Any]:
    """Returns fields of `Configs`: config_runtime, normalizer, default, run_index.

    Args:
        usable: (position among all runs, run) of c runs.
        least: nanoseconds; a run that took less counts as not measured.
    """
    times = np.array([time_of(run) for _, run in usable], np.int64)
    times[times < least] = 0
    defaults = [i for i, (_, run) in enumerate(usable) if run.is_default]
    default = next((i for i in defaults if times[i]), next(iter(defaults), None))
    measured = default is not None and times[default]
    return {
        'config_runtime': times,
        'normalizer': int(times[default]) if measured else None,
        'default': default,
        'run_index': np.array([index for index, _ in usable], np.int64),
    }
