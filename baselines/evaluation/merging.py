"""From prediction files to a submission: merging by ID."""

import collections
from typing import Dict, Iterable, List, NamedTuple, Sequence, Tuple

from baselines.data import collections as collections_lib
from baselines.evaluation import submission

_NAMED = 3


class Merged(NamedTuple):
    """Rows to submit, and what there is to say about them.

    Attributes:
        rows: in the order of the file.
        predicted: how many of them rank as predicted; the others are the
            template's.
        notes: what happened per collection, one line each.
        warnings: what is probably a mistake, one line each, with IDs.
    """

    rows: List[submission.Row]
    predicted: int
    notes: List[str]
    warnings: List[str]


def join_predictions(
    named_rows: Iterable[Tuple[str, Sequence[submission.Row]]],
) -> List[submission.Row]:
    """Puts the rows of several prediction files into one list.

    Args:
        named_rows: (file name, its rows), as from `submission.read_predictions`.

    Returns:
        All rows, in order.

    Raises:
        ValueError: an ID in two files; the ID and both are named.
    """
    rows: List[submission.Row] = []
    origin: Dict[str, str] = {}
    for name, some in named_rows:
        for row in some:
            if row.id in origin:
                raise ValueError(
                    f'{row.id} is predicted in both {origin[row.id]} and {name}: '
                    'give one file per collection'
                )
            origin[row.id] = name
        rows.extend(some)
    return rows


def merge_into_template(
    template_rows: Sequence[submission.Row], prediction_rows: Sequence[submission.Row]
) -> Merged:
    """Fills the predictions into a template, by ID and never by position.

    IDs without a prediction keep the template's row.  For a collection without
    any prediction that is what a submission for some collections means, and is
    noted; where only some IDs of a collection are missing, it is a warning.

    Kaggle wants five indices per tile kernel.  More are cut to the best five.
    Fewer (the kernel has fewer configurations) are filled up by repeating the
    best one: the score takes the fastest of the five, so a repeat changes
    nothing, and unlike a made-up index it names a configuration that exists.

    Args:
        template_rows: Kaggle's sample_submission.csv, or an earlier submission.
        prediction_rows: from `join_predictions`.

    Returns:
        A `Merged` with one row per template row, in the template's order.

    Raises:
        ValueError: predictions for IDs that the template lacks, or a layout row
            that ranks fewer configurations than the template.
    """
    template = {row.id: row for row in template_rows}
    predictions = {row.id: row for row in prediction_rows}
    unknown = [i for i in predictions if i not in template]
    if unknown:
        raise ValueError(
            f'{len(unknown)} of {len(predictions)} predicted IDs are not in the '
            f'template: {_first(unknown)}: they belong to another data set or '
            'split'
        )
    warnings: List[str] = []
    rows = []
    for row in template_rows:
        if row.id in predictions:
            rows.append(_fitted(predictions[row.id], row, warnings))
        else:
            rows.append(row)
    notes, missing = _per_collection(template, predictions)
    return Merged(rows, len(predictions), notes, warnings + missing)


def in_order_of_collections(prediction_rows: Sequence[submission.Row]) -> Merged:
    """Puts predictions, joined, into the form of a submission, without a template.

    For data whose IDs are not Kaggle's.  Tile kernels get five indices, as in
    `merge_into_template`.

    Returns:
        A `Merged` with the same rows, by collection in the order of Kaggle's
        template and within one as they are.
    """
    rows: List[submission.Row] = []
    notes = []
    for name in collections_lib.in_kaggle_order():
        some = [row for row in prediction_rows if row.collection == name]
        rows.extend(_five(row) if row.is_tile else row for row in some)
        notes.append(f'{name}: {len(some)} predicted')
    return Merged(rows, len(rows), notes, [])


def _fitted(
    row: submission.Row, template_row: submission.Row, warnings: List[str]
) -> submission.Row:
    """Gives a predicted row the length that Kaggle wants."""
    if row.is_tile:
        return _five(row)
    ranked, expected = len(row.configs), len(template_row.configs)
    if ranked < expected:
        raise ValueError(
            f'{row.id} ranks {ranked} configurations, the template has '
            f'{expected}: predict all configurations of the graph'
        )
    if ranked > expected:
        warnings.append(
            f'{row.id} ranks {ranked} configurations, the template has {expected}'
        )
    return row


def _five(row: submission.Row) -> submission.Row:
    """Gives a tile row five indices."""
    configs, wanted = row.configs, submission.TILE_CHOICES
    padding = (configs[0],) * (wanted - len(configs))
    return submission.Row(row.id, configs[:wanted] + padding)


def _per_collection(
    template: Dict[str, submission.Row], predictions: Dict[str, submission.Row]
) -> Tuple[List[str], List[str]]:
    members: Dict[str, List[str]] = collections.defaultdict(list)
    for row in template.values():
        members[row.collection].append(row.id)
    notes, warnings = [], []
    for name, ids in members.items():
        missing = [i for i in ids if i not in predictions]
        found = len(ids) - len(missing)
        notes.append(f'{name}: {found} predicted, {len(missing)} from the template')
        if found and missing:
            warnings.append(
                f'{name}: {len(missing)} of {len(ids)} IDs have no prediction and '
                f"keep the template's row: {_first(missing)}"
            )
    return notes, warnings


def _first(ids: Sequence[str]) -> str:
    shown = ', '.join(ids[:_NAMED])
    return shown if len(ids) <= _NAMED else f'{shown}, ... ({len(ids)} in all)'
