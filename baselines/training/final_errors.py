"""The errors of a finished training, of each of its collections."""

import numpy as np

from baselines.core import text
from baselines.data import collections
from baselines.data.packed import splits
from baselines.evaluation import report


class FinalErrors:
    """The errors of a training's splits, as the run file keeps them.

    With several collections, `final_error_by_collection` has those of each.
    """

    def __init__(self, collection: collections.Collection):
        self._collection = collection
        names = [collection.name, *(part.name for part in collection.parts)]
        self._errors: dict[str, text.JsonObject] = {
            name: {'val': None, 'test': None} for name in names
        }

    def measure(
        self, split: str, store: splits.PackedSplit, results: list[report.GraphResult]
    ) -> None:
        """Measures the scored graphs of a split, 'val' or 'test'."""
        collection = self._collection
        numbers_of = {collection.name: np.arange(len(results))}
        for number, part in enumerate(collection.parts):
            numbers_of[part.name] = np.flatnonzero(store.collection_of == number)
        for name, numbers in numbers_of.items():
            chosen = [results[number] for number in numbers]
            self._errors[name][split] = report.final_error(collection.task, chosen)

    def lines(self) -> list[str]:
        """Returns the lines to print: one for each split, and for each collection."""
        lines = []
        for name, of_splits in self._errors.items():
            where = '' if name == self._collection.name else f'{name} '
            for split, errors in of_splits.items():
                if errors:
                    about = report.format_final_error(self._collection.task, errors)
                    lines.append(f'{where}{split} {about}')
        return lines

    def to_json(self) -> text.JsonObject:
        """Returns entries of the run file."""
        of_parts = dict(self._errors)
        entries = {'final_error': of_parts.pop(self._collection.name)}
        if of_parts:
            entries['final_error_by_collection'] = of_parts
        return entries
