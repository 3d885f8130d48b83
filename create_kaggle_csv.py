"""Makes a Kaggle submission: your predictions, merged into Kaggle's template.

Kaggle wants all 894 graphs of the five test collections in one file.  A model
ranks one collection; the other rows come from sample_submission.csv, which you
get from https://www.kaggle.com/competitions/predict-ai-model-runtime/data.
Merging is by ID: each row is yours where you have one, else the template's.

Example:

  python tiles_gen_predictions_csv.py --dir ~/out/tpugraphs_tiles/model_<hash>
  python create_kaggle_csv.py --sample ~/Downloads/sample_submission.csv

Several files, one per collection, go in together:

  python create_kaggle_csv.py --inputcsv tile.csv,xla_random.csv
"""

import os
import sys
from typing import List, Sequence

from absl import app
from absl import flags

from baselines import files
from baselines.commands import command_line
from baselines.ranking import merging
from baselines.ranking import submission

_SAMPLE_NAME = 'sample_submission.csv'
_SAMPLE_FOLDERS = ('.', '~/data/tpugraphs')


def define_flags() -> None:
    """Defines the script's flags; the script calls it, an import does not."""
    flags.DEFINE_multi_string(
        'inputcsv',
        'predictions_output_model.csv',
        'The predictions: a CSV of tiles_gen_predictions_csv.py or of '
        '`tpugraphs predict`. Several are separated by commas, or the flag is '
        'repeated; no ID may be in two of them.',
    )
    flags.DEFINE_string(
        'sample',
        '',
        f"Kaggle's {_SAMPLE_NAME}, or an earlier submission whose other rows you "
        'want to keep. If not given, it is looked for in the current folder and '
        f'in {_SAMPLE_FOLDERS[1]}.',
    )
    flags.DEFINE_string(
        'output', 'predictions_kaggle.csv', 'The submission to write.'
    )


def create(inputs: Sequence[str], sample: str, output: str) -> None:
    """Merges the files named and writes the submission.

    Args:
        inputs: paths of prediction files; each may hold several, by commas.
        sample: path of the template, or '' to look for it.
        output: path of the submission.

    Raises:
        ValueError: no template, a malformed file, IDs that do not fit
            together, or an output that is one of the inputs.
        OSError: a file cannot be read or written.
    """
    paths = _existing(inputs)
    sample = sample or _find_sample()
    for path in [sample, *paths]:
        if os.path.realpath(files.expand(path)) == os.path.realpath(
            files.expand(output)
        ):
            raise ValueError(f'--output {output} would replace its own input')
    template = submission.read_predictions(sample, padded=True)
    merged = merging.merge_into_template(
        template,
        merging.join_predictions(
            (path, submission.read_predictions(path)) for path in paths
        ),
    )
    submission.write_predictions(output, merged.rows, padded=True)
    for warning in merged.warnings:
        print(f'warning: {warning}', file=sys.stderr)
    for note in merged.notes:
        print(note)
    kept = len(merged.rows) - merged.predicted
    print(
        f'{output}: {len(merged.rows)} rows written, {merged.predicted} from '
        f'predictions, {kept} from the template'
    )


def _existing(inputs: Sequence[str]) -> List[str]:
    paths = [path.strip() for text in inputs for path in text.split(',')]
    paths = [path for path in paths if path]
    if not paths:
        raise ValueError('--inputcsv names no file')
    for path in paths:
        if not os.path.isfile(files.expand(path)):
            raise ValueError(
                f'--inputcsv {path}: there is no such file; '
                'tiles_gen_predictions_csv.py makes one from a model directory'
            )
    return paths


def _find_sample() -> str:
    for folder in _SAMPLE_FOLDERS:
        path = os.path.join(folder, _SAMPLE_NAME)
        if os.path.isfile(files.expand(path)):
            return path
    raise ValueError(
        f'{_SAMPLE_NAME} is neither in the current folder nor in '
        f'{_SAMPLE_FOLDERS[1]}: download it from https://www.kaggle.com/'
        'competitions/predict-ai-model-runtime/data and give its path as --sample'
    )


def main(argv: Sequence[str]) -> int:
    """Runs the script; `argv` is what absl has left."""
    values = flags.FLAGS

    def work():
        if argv[1:]:
            raise ValueError(
                f'{argv[1]!r} is not a flag: input files are named by --inputcsv'
            )
        create(values.inputcsv, values.sample, values.output)

    return command_line.guarded(work)


if __name__ == '__main__':
    define_flags()
    app.run(main)
