"""Collects one field of many protobuf messages into an array.

Attribute access is what reading a protobuf in Python costs, so every field is
read once per message and all arithmetic is left to numpy.
"""

from collections.abc import Iterable, Sequence

from google.protobuf import message
import numpy as np

from baselines.hlo import ragged
from baselines.hlo import schema

_TYPES = np.array([kind.number for kind in schema.ELEMENT_TYPES])


class Fields:
    """Integer fields of n messages and of their sub-messages, by path.

        fields.scalars('convolution_dimension_numbers.input_batch_dimension')
        fields.lists('shape.dimensions')            # a repeated field
        fields.lists('window.dimensions[].size')    # of each of repeated messages

    Asking each message once whether it has a sub-message is much cheaper than
    reading all the fields of an absent one.
    """

    def __init__(self, messages: Sequence[message.Message]):
        self.messages = messages
        self._present: dict[str, tuple[np.ndarray, Sequence[message.Message]]] = {
            '': (np.arange(len(messages)), messages)
        }

    def scalars(self, path: str) -> np.ndarray:
        """Returns an integer field, int64 [n]; 0 where its sub-message is absent."""
        parent, _, field = path.rpartition('.')
        rows, messages = self.submessages(parent)
        out = np.zeros(len(self.messages), np.int64)
        values = (getattr(m, field) for m in messages)
        out[rows] = np.fromiter(values, np.int64, len(messages))
        return out

    def lists(self, path: str) -> ragged.Ragged:
        """Returns lists of integers, empty where their sub-message is absent."""
        parent, _, field = path.rpartition('.')
        rows, messages = self.submessages(parent)
        if parent.endswith('[]'):
            lists = ragged.Ragged.from_rows(
                [getattr(m, field) for m in ms] for ms in messages
            )
        else:
            lists = ragged.Ragged.from_rows(getattr(m, field)[:] for m in messages)
        return lists.spread(len(self.messages), rows)

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
                values = self.scalars(path)[:, np.newaxis] == _TYPES
            elif field.entries:
                values = self.lists(path).columns(field.entries, pad)
            else:
                values = self.scalars(path)[:, np.newaxis]
            first = columns.at(field.columns[0])
            features[:, first : first + values.shape[1]] = values

    def submessages(self, path: str) -> tuple[np.ndarray, Sequence[message.Message]]:
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
            for row, message in zip(*self.submessages(parent)):
                value = getattr(message, name)
                is_there = len(value) if name != field else message.HasField(name)
                if is_there:
                    inner.append((row, value))
            rows = np.fromiter((row for row, _ in inner), np.int64, len(inner))
            self._present[path] = rows, [value for _, value in inner]
        return self._present[path]
