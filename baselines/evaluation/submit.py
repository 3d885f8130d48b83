"""Prediction files of the collections -> one file to submit.

combine(['tile.csv', 'xla_random.csv'], 'all.csv', 'sample_submission.csv')
"""

import os
import sys
from typing import List, Optional, Sequence

from baselines import files
from baselines.evaluation import merging
from baselines.evaluation import submission

TEMPLATE_NAME = 'sample_submission.csv'
TEMPLATE_FOLDERS = ('.', '~/data/tpugraphs')
KAGGLE_PAGE = 'https://www.kaggle.com/competitions/predict-ai-model-runtime/data'


def combine(
    paths: Sequence[str], output: str, template: Optional[str] = '', given_as: str = ''
) -> None:
    """Writes the template with the predicted rows in it, and says what is whose.

    Args:
        paths: prediction files; no ID may be in two of them.
        output: the submission to write.
        template: Kaggle's, an earlier submission, or '' to look for
            Kaggle's in `TEMPLATE_FOLDERS`.  None, for data whose IDs are not Kaggle's:
            the predicted rows alone are written, collection by collection.
        given_as: the flag that the paths were given by, for messages.

    Raises:
        ValueError: no template, a malformed file, IDs that do not fit
            together, or an output that is one of the inputs.
        OSError: a file cannot be read or written.
    """
    _check_files(paths, given_as)
    if template is None:
        _check_output(output, paths)
        merged = merging.in_order_of_collections(_read(paths))
        told = 'all from predictions'
    else:
        template = template or _find_template()
        _check_output(output, [template, *paths])
        rows = submission.read_predictions(template, padded=True)
        merged = merging.merge_into_template(rows, _read(paths))
        kept = len(merged.rows) - merged.predicted
        told = f'{merged.predicted} from predictions, {kept} from the template'
    submission.write_predictions(output, merged.rows, padded=True)
    for warning in merged.warnings:
        print(f'warning: {warning}', file=sys.stderr)
    for note in merged.notes:
        print(note)
    print(f'{output}: {len(merged.rows)} rows written, {told}')


def _check_files(paths: Sequence[str], given_as: str) -> None:
    for path in paths:
        if not os.path.isfile(files.expand(path)):
            raise ValueError(
                f'{given_as}{" " if given_as else ""}{path}: there is no such '
                'file; `tpugraphs predict` makes one from a model directory'
            )


def _find_template() -> str:
    for folder in TEMPLATE_FOLDERS:
        path = os.path.join(folder, TEMPLATE_NAME)
        if os.path.isfile(files.expand(path)):
            return path
    raise ValueError(
        f'{TEMPLATE_NAME} is neither in the current folder nor in '
        f'{TEMPLATE_FOLDERS[1]}: download it from {KAGGLE_PAGE} and give its path '
        'as --sample'
    )


def _check_output(output: str, inputs: Sequence[str]) -> None:
    real = os.path.realpath(files.expand(output))
    if real in [os.path.realpath(files.expand(path)) for path in inputs]:
        raise ValueError(f'--output {output} would replace its own input')


def _read(paths: Sequence[str]) -> List[submission.Row]:
    return merging.join_predictions(
        (path, submission.read_predictions(path)) for path in paths
    )
