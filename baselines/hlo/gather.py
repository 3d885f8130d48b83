"""One field of many protobuf messages, as an array.

Attribute access is what reading a protobuf in Python costs, so every field is
read once per message and all arithmetic is left to numpy.
"""

from typing import Any, Dict, Sequence, Tuple

import numpy as np

from baselines.hlo import arrays


class Fields:
    """Integer fields of n messages and of their sub-messages, by path.

        fields.scalars('convolution_dimension_numbers.input_batch_dimension')
        fields.lists('shape.dimensions')            # a repeated field
        fields.lists('window.dimensions[].size')    # of each of repeated messages

    Asking each message once whether it has a sub-message is much cheaper than
    reading all the fields of an absent one.
    """

    def __init__(self, messages: Sequence[Any]):
        self.messages = messages
        self._present: Dict[str, Tuple[np.ndarray, Sequence[Any]]] = {
            '': (np.arange(len(messages)), messages)
        }

    def scalars(self, path: str) -> np.ndarray:
        """Returns an integer field, int64 [n]; 0 where its sub-message is absent."""
        way, _, field = path.rpartition('.')
        rows, messages = self.present(way)
        out = np.zeros(len(self.messages), np.int64)
        values = (getattr(m, field) for m in messages)
        out[rows] = np.fromiter(values, np.int64, len(messages))
        return out

    def lists(self, path: str) -> arrays.Ragged:
        """Returns lists of integers, empty where their sub-message is absent."""
        way, _, field = path.rpartition('.')
        rows, messages = self.present(way)
        if way.endswith('[]'):
            lists = arrays.Ragged.of([getattr(m, field) for m in ms] for ms in messages)
        else:
            lists = arrays.Ragged.of(getattr(m, field)[:] for m in messages)
        return lists.spread(len(self.messages), rows)

    def present(self, way: str) -> Tuple[np.ndarray, Sequence[Any]]:
        """Returns the numbers of messages with a sub-message, and their sub-messages.

        `way` is its path; behind '[]' there are lists of sub-messages, none empty.
        """
        if way not in self._present:
            above, _, field = way.rpartition('.')
            name = field.replace('[]', '')
            has = len if name != field else None
            inner = [
                (row, getattr(m, name))
                for row, m in zip(*self.present(above))
                if (has(getattr(m, name)) if has else m.HasField(name))
            ]
            rows = np.fromiter((row for row, _ in inner), np.int64, len(inner))
            self._present[way] = rows, [m for _, m in inner]
        return self._present[way]
