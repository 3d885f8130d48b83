"""The errors of a finished training, of each of its collections."""

from typing import Any, Dict, List, Tuple

import numpy as np

from baselines.data import collections
from baselines.data.packed import splits
from baselines.evaluation import report


def _by_collection(
    collection: collections.Collection, store: splits.PackedSplit
) -> List[Tuple[collections.Collection, np.ndarray]]:
    """Returns the collections of a training, each with the numbers of its graphs.

    Args:
        collection: of the training.
        store: one of its splits.
    """
    return [
        (part, np.flatnonzero(store.collection_of == number))
        for number, part in enumerate(collection.parts)
    ]


class FinalErrors:
    """The errors of a training's splits, as the run file keeps them.

    Of several collections those of each are kept, too, under
    `final_error_by_collection`.

    Args:
        collection: of the training.
    """

    def __init__(self, collection: collections.Collection):
        self._collection = collection
        names = [collection.name, *(part.name for part in collection.parts)]
        self._errors: Dict[str, Dict[str, Any]] = {
            name: {'val': None, 'test': None} for name in names
        }

    def measure(
        self, split: str, store: splits.PackedSplit, results: List[report.GraphResult]
    ) -> None:
        """Measures the scored graphs of a split, 'val' or 'test'."""
        collection = self._collection
        parts = _by_collection(collection, store)
        numbers_of = {part.name: numbers for part, numbers in parts}
        numbers_of.setdefault(collection.name, np.arange(len(results)))
        for name, numbers in numbers_of.items():
            chosen = [results[number] for number in numbers]
            self._errors[name][split] = report.final_error(collection.task, chosen)

    def lines(self) -> List[str]:
        """Returns the lines to print: a split each, also of each collection."""
        lines = []
        for name, of_splits in self._errors.items():
            where = '' if name == self._collection.name else f'{name} '
            for split, errors in of_splits.items():
                if errors:
                    about = report.format_final_error(self._collection.task, errors)
                    lines.append(f'{where}{split} {about}')
        return lines

    def to_json(self) -> Dict[str, Any]:
        """Returns entries of the run file."""
        overall, *_ = self._errors.values()
        if len(self._errors) == 1:
            return {'final_error': overall}
        names = [part.name for part in self._collection.parts]
        of_parts = {name: self._errors[name] for name in names}
        return {'final_error': overall, 'final_error_by_collection': of_parts}
