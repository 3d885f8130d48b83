"""The errors of a finished training, of each of its collections."""

from collections.abc import Iterator, Mapping

import numpy as np

from baselines.core import text
from baselines.data import collections
from baselines.data.packed import splits
from baselines.evaluation import report

Errors = dict[str, text.JsonObject]  # name of a collection -> its errors


def measure(
    collection: collections.Collection,
    store: splits.PackedSplit,
    results: list[report.GraphResult],
) -> Errors:
    """Measures the scored graphs of a split: all together, and each collection."""
    chosen = {collection.name: results}
    for number, part in enumerate(collection.parts):
        numbers = np.flatnonzero(store.collection_of == number)
        chosen[part.name] = [results[number] for number in numbers]
    task = collection.task
    return {name: report.final_error(task, part) for name, part in chosen.items()}


def by_collection(
    collection: collections.Collection, errors: Mapping[str, Errors]
) -> dict[str, text.JsonObject]:
    """Returns the errors of splits by collection, as the run file keeps them.

    Args:
        errors: by split, 'val' and 'test'; {} for one that was not measured.
    """
    names = dict.fromkeys([collection.name, *(p.name for p in collection.parts)])
    return {n: {s: found.get(n) for s, found in errors.items()} for n in names}


def describe(
    collection: collections.Collection, by_name: Mapping[str, text.JsonObject]
) -> Iterator[str]:
    """Yields the lines to print: one for each split, and for each collection."""
    for name, splits_of in by_name.items():
        where = '' if name == collection.name else f'{name} '
        for split, errors in splits_of.items():
            if errors:
                about = report.format_final_error(collection.task, errors)
                yield f'{where}{split} {about}'
