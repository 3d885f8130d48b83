"""Prediction files of the collections -> one file to submit.

combine(['tile.csv', 'xla_random.csv'], 'all.csv', 'sample_submission.csv')
"""

import collections
from collections.abc import Collection, Container, Sequence
import os
import sys
from typing import NamedTuple

from baselines.core import files
from baselines.core import text
from baselines.data import collections as collections_lib
from baselines.evaluation import submission

TEMPLATE_NAME = 'sample_submission.csv'
TEMPLATE_FOLDERS = ('.', '~/data/tpugraphs')
KAGGLE_PAGE = 'https://www.kaggle.com/competitions/predict-ai-model-runtime/data'
_ADVICE = f'download {TEMPLATE_NAME} from {KAGGLE_PAGE} and give its path as --sample'


def combine(
    paths: Sequence[str], output: str, template: str | None = '', given_as: str = ''
) -> int:
    """Writes the template with the predicted rows in it; prints counts of both.

    Args:
        paths: prediction files; no ID may be in two of them.
        template: Kaggle's, an earlier submission, or '' to look for
            Kaggle's in `TEMPLATE_FOLDERS`.  None, for data whose IDs are not Kaggle's:
            the predicted rows alone are written, collection by collection.
        given_as: the flag of create_kaggle_csv.py that the paths were given by, for
            messages; '' for `tpugraphs combine`.

    Returns:
        The number of rows.

    Raises:
        ValueError: no template, a malformed file, IDs that do not fit
            together, or an output that is one of the inputs.
        OSError: a file cannot be read or written.
    """
    maker = 'python tiles_gen_predictions_csv.py' if given_as else 'tpugraphs predict'
    for path in paths:
        if not os.path.isfile(files.expand(path)):
            raise ValueError(
                f'{f"{given_as} {path}".strip()}: there is no such file; `{maker}` '
                'makes one from a model directory'
            )
    if template == '':
        template = _find_template()
    rows = read_template(template) if template else []
    inputs = [*paths, template] if template else paths
    files.check_file_writable(output, 'output', [submission.HEADER], inputs)
    predicted = _read_all(paths)
    if template is None:
        merged, origin = Merged([], [], []), 'all from predictions'
        names = (*collections_lib.KAGGLE_NAMES, *(row.collection for row in predicted))
        for name in dict.fromkeys(names):  # collections that Kaggle lacks come last
            of_collection = [row for row in predicted if row.collection == name]
            merged.rows.extend(map(_fill_to_five, of_collection))
            merged.notes.append(f'{name}: {len(of_collection)} predicted')
    else:
        merged, kept = merge_into_template(rows, predicted), len(rows) - len(predicted)
        origin = f'{len(predicted)} from predictions, {kept} from the template'
    submission.write_predictions(output, merged.rows, padded=True)
    for warning in merged.warnings:
        print(f'warning: {warning}', file=sys.stderr)
    for note in merged.notes:
        print(note)
    count = text.count(len(merged.rows), 'row')
    print(f'{text.printable(output)}: {count} written, {origin}')
    return len(merged.rows)


def read_template(path: str) -> list[submission.RankingRow]:
    """Reads Kaggle's template, or an earlier submission.

    Raises:
        ValueError: there is no such file, or it is malformed.
        OSError: it cannot be read.
    """
    if not os.path.isfile(files.expand(path)):
        raise ValueError(f'--sample {path}: there is no such file; {_ADVICE}')
    return submission.read_predictions(path, padded=True)


class Merged(NamedTuple):
    """Rows to submit, in order."""

    rows: list[submission.RankingRow]  # in the order of the file
    notes: list[str]  # numbers of rows, a line for each collection, and the like
    warnings: list[str]  # probable mistakes, one line each, with IDs


def merge_into_template(
    template: Sequence[submission.RankingRow],
    predicted: Sequence[submission.RankingRow],
) -> Merged:
    """Fills the predictions into a template, by ID and never by position.

    IDs without a prediction keep the template's row.  If a whole collection has no
    predictions, that is a note, as submissions for some collections are allowed; if
    only some IDs of a collection are missing, it is a warning.

    Args:
        template: Kaggle's sample_submission.csv, or an earlier submission.
        predicted: rows of different IDs; rows of kernels are filled up to five indices.

    Raises:
        ValueError: predictions for IDs that the template lacks, or a layout row
            that ranks fewer configurations than the template.
    """
    # The template has every ID of the competition, with as many configurations.
    lengths = {row.id: len(row.configs) for row in template}
    predictions = {row.id: row for row in predicted}
    check_ids(predictions, lengths)
    notes: list[str] = []
    warnings: list[str] = []
    for row in predicted:
        ranked, expected = len(row.configs), lengths[row.id]
        # Of kernels only the first five count, however many there are.
        if row.is_tile or ranked == expected:
            continue
        mismatch = f'{row.id} ranks {ranked} configurations, the template {expected}'
        if ranked < expected:
            raise ValueError(f'{mismatch}: predict all configurations of the graph')
        # Two graphs have 1,001 configurations, of which the template lists 1,000.
        (notes if ranked == expected + 1 else warnings).append(mismatch)
    # Counts by collection, in the order of the template.
    ids_of: dict[str, list[str]] = collections.defaultdict(list)
    for row in template:
        ids_of[row.collection].append(row.id)
    for name, ids in ids_of.items():
        missing = [i for i in ids if i not in predictions]
        count = len(ids) - len(missing)
        notes.append(f'{name}: {count} predicted, {len(missing)} from the template')
        if count and missing:
            warnings.append(
                f'{name}: {len(missing)} of {len(ids)} IDs have no prediction and '
                f"keep the template's row: {text.list_names(missing, 3)}"
            )
    merged = [_fill_to_five(predictions.get(row.id, row)) for row in template]
    return Merged(merged, notes, warnings)


def check_ids(predicted: Collection[str], template: Container[str]) -> None:
    """Raises ValueError for IDs that a template lacks."""
    unknown = [row_id for row_id in predicted if row_id not in template]
    if unknown:
        raise ValueError(
            f'{len(unknown)} of {len(predicted)} predicted IDs are not in the template'
            f': {text.list_names(unknown, 3)}; they are of other data or another split'
        )


def _read_all(paths: Sequence[str]) -> list[submission.RankingRow]:
    """Reads the rows of all files; raises ValueError for an ID in two of them."""
    rows: list[submission.RankingRow] = []
    origin: dict[str, str] = {}
    for path in paths:
        for row in submission.read_predictions(path):
            if row.id in origin:
                raise ValueError(
                    f'{row.id} is in {origin[row.id]} and {path}: give one of them'
                )
            origin[row.id] = path
            rows.append(row)
    return rows


def _find_template() -> str:
    """Returns the path of Kaggle's template; raises ValueError if it is nowhere."""
    for folder in TEMPLATE_FOLDERS:
        path = os.path.join(folder, TEMPLATE_NAME)
        if os.path.isfile(files.expand(path)):
            return path
    raise ValueError(
        f'{TEMPLATE_NAME} is neither here nor in {TEMPLATE_FOLDERS[1]}: {_ADVICE}'
    )


def _fill_to_five(row: submission.RankingRow) -> submission.RankingRow:
    """Returns a row in which a kernel has the five indices that Kaggle wants."""
    if not row.is_tile:
        return row
    # The score takes the fastest of the five, so that a repeat changes nothing; a
    # made-up index might not exist.
    padding = (row.configs[0],) * (submission.TILE_CHOICES - len(row.configs))
    return row._replace(configs=row.configs[: submission.TILE_CHOICES] + padding)
