"""Named float32 columns, put side by side."""

from typing import List, Tuple

import numpy as np

from baselines.hlo import ragged
from baselines.hlo import schema


class Columns:
    """Collects columns with their names; all have one value per row.

    Args:
        pad: what list columns hold where the list has no such entry.
    """

    def __init__(self, pad: int):
        self._pad = pad
        self._names: List[str] = []
        self._blocks: List[np.ndarray] = []

    def add(self, name: str, values: np.ndarray) -> None:
        """Adds one column: [n] of int64 or bool."""
        self.add_block([name], np.asarray(values)[:, None])

    def add_block(self, names: List[str], values: np.ndarray) -> None:
        """Adds [n, len(names)] of int64 or bool."""
        self._names += names
        self._blocks.append(values.astype(np.float32))

    def add_types(self, name: str, types: np.ndarray) -> None:
        """Adds `<name>_is_<type>` for each of `schema.ELEMENT_TYPES`.

        `types` are PrimitiveType numbers, int64 [n]; -1 gives all zeros.
        """
        numbers = np.array([kind.number for kind in schema.ELEMENT_TYPES])
        self.add_block(
            [f'{name}_is_{kind.name}' for kind in schema.ELEMENT_TYPES],
            types[:, None] == numbers,
        )

    def add_list(
        self,
        name: str,
        rows: ragged.Ragged,
        width: int,
        aggregates: bool = False,
        empty_product: int = 1,
    ) -> None:
        """Adds `<name>_<i>`, the first `width` entries of each list.

        With `aggregates` also `<name>_sum` and `<name>_product` over the whole list;
        the product of an empty one is `empty_product`.
        """
        names = [f'{name}_{i}' for i in range(width)]
        self.add_block(names, rows.head(width, self._pad))
        if aggregates:
            self.add(f'{name}_sum', rows.sums())
            self.add(f'{name}_product', rows.products(empty_product))

    def finish(self) -> Tuple[Tuple[str, ...], np.ndarray]:
        """Returns the names and the matrix, float32 [n, number of names]."""
        return tuple(self._names), np.concatenate(self._blocks, axis=1)
