"""Named float32 columns, put side by side."""

from typing import Iterable, List, Tuple

import numpy as np

from baselines.hlo import arrays
from baselines.hlo import gather
from baselines.hlo import schema


class ColumnBuilder:
    """Collects columns with their names; all have one value per row.

    Args:
        pad: what list columns hold where the list has no such entry.
        empty_product: the product of an empty list.
    """

    def __init__(self, pad: int, empty_product: int = 1):
        self._pad, self._empty_product = pad, empty_product
        self._names: List[str] = []
        self._blocks: List[np.ndarray] = []

    def add(self, name: str, values: np.ndarray) -> None:
        """Adds one column: [n] of int64 or bool."""
        self._add(schema.Field(name), np.asarray(values)[:, None])

    def add_types(self, field: schema.Field, types: np.ndarray) -> None:
        """Adds a column for each of `schema.ELEMENT_TYPES`, 1 where it is that.

        `types` are PrimitiveType numbers, int64 [n]; -1 gives all zeros.
        """
        numbers = np.array([kind.number for kind in schema.ELEMENT_TYPES])
        self._add(field, types[:, None] == numbers)

    def add_list(self, field: schema.Field, rows: arrays.Ragged) -> None:
        """Adds the first entries of each list, and totals over the whole list."""
        totals = {
            'size': lambda: rows.lengths,
            'sum': rows.sums,
            'product': lambda: rows.products(self._empty_product),
            'true_count': rows.sums,
            'false_count': lambda: rows.lengths - rows.sums(),
        }
        found = [totals[e]()[:, None] for e in field.entries if isinstance(e, str)]
        head = rows.head(len(field.entries) - len(found), self._pad)
        self._add(field, np.concatenate([head, *found], axis=1))

    def add_fields(self, names: Iterable[schema.Field], fields: gather.Fields) -> None:
        """Adds the columns of fields of instructions."""
        for field in names:
            path = field.path or field.name
            if field.entries == schema.IS_TYPE:
                self.add_types(field, fields.scalars(path))
            elif field.entries:
                self.add_list(field, fields.lists(path))
            else:
                self.add(field.name, fields.scalars(path))

    def finish(self) -> Tuple[Tuple[str, ...], np.ndarray]:
        """Returns the names and the matrix, float32 [n, number of names]."""
        return tuple(self._names), np.concatenate(self._blocks, axis=1)

    def _add(self, field: schema.Field, values: np.ndarray) -> None:
        self._names += field.columns
        self._blocks.append(values.astype(np.float32))
