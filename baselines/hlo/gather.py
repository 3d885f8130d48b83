"""One field of many protobuf messages, as an array.

Attribute access is what reading a protobuf in Python costs, so every field is
read once per message and all arithmetic is left to numpy.
"""

from typing import Any, List, Sequence

import numpy as np

from baselines.hlo import ragged


def scalars(messages: Sequence[Any], field: str) -> np.ndarray:
    """Returns an integer field of every message, int64 [n]."""
    return np.fromiter((getattr(m, field) for m in messages), np.int64, len(messages))


def lists(messages: Sequence[Any], field: str) -> ragged.Ragged:
    """Returns a repeated integer field of every message."""
    return ragged.Ragged.of([getattr(m, field)[:] for m in messages])


class Present:
    """The few instructions that have a certain sub-message.

    Asking each instruction once whether it has one is much cheaper than
    reading all the fields of an absent one.

    Args:
        instructions: n instructions.
        field: the sub-message; repeated fields count when they are not empty.
    """

    def __init__(self, instructions: Sequence[Any], field: str):
        self._size = len(instructions)
        repeated = _is_repeated(instructions, field)
        self.rows: List[int] = [
            row
            for row, i in enumerate(instructions)
            if (len(getattr(i, field)) if repeated else i.HasField(field))
        ]
        self.messages = [getattr(instructions[row], field) for row in self.rows]

    def scalars(self, field: str) -> np.ndarray:
        """Returns an integer field, 0 where the sub-message is absent."""
        out = np.zeros(self._size, np.int64)
        out[self.rows] = scalars(self.messages, field)
        return out

    def lists(self, field: str) -> ragged.Ragged:
        """Returns a repeated integer field, empty where the sub-message is absent."""
        return self._spread([getattr(m, field)[:] for m in self.messages])

    def of_each(self, field: str, part: str = 'dimensions') -> ragged.Ragged:
        """Returns a field of each part of the sub-messages; of themselves for ''."""
        parts = [getattr(m, part) if part else m for m in self.messages]
        return self._spread([[getattr(d, field) for d in some] for some in parts])

    def _spread(self, rows: List[List[int]]) -> ragged.Ragged:
        return ragged.Ragged.of(rows).spread(self._size, self.rows)


def _is_repeated(instructions: Sequence[Any], field: str) -> bool:
    if not instructions:
        return False
    described = instructions[0].DESCRIPTOR.fields_by_name[field]
    return described.label == described.LABEL_REPEATED
