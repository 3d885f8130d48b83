"""Makes a Kaggle submission: your predictions, merged into Kaggle's template.

Kaggle wants all 894 graphs of the five test collections in one file.  A model
ranks one collection; the other rows come from sample_submission.csv, which you
get from https://www.kaggle.com/competitions/predict-ai-model-runtime/data.
Merging is by ID: each row is yours where you have one, else the template's.

Example:

  python tiles_gen_predictions_csv.py --dir latest
  python create_kaggle_csv.py --sample ~/Downloads/sample_submission.csv

Several files, one per collection, go in together:

  python create_kaggle_csv.py --inputcsv tile.csv,xla_random.csv

`tpugraphs combine` is the same, and also puts files together without a template.
"""

import baselines  # noqa: F401  says what is missing before the rest is imported

# isort: split
from collections.abc import Sequence
import os

from absl import flags

from baselines import scripts
from baselines.core import exits
from baselines.evaluation import kaggle

# The predictions of tiles_gen_predictions_csv.py: ours, and the course's.
_DEFAULTS = ('predictions_output_model.csv', 'predictions_model_output.csv')


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the script's flags; the script calls it, an import does not."""
    flags.DEFINE_multi_string(
        'inputcsv',
        _DEFAULTS[0],
        'read predictions from this CSV of tiles_gen_predictions_csv.py or '
        '`tpugraphs predict`, from several separated by commas, or repeat the flag; '
        f'no ID may be in two of them (default: also {_DEFAULTS[1]}, if only that is '
        'there)',
        flag_values=values,
    )
    flags.DEFINE_string(
        'sample',
        '',
        f"take the other rows from this file, Kaggle's {kaggle.TEMPLATE_NAME} or an "
        f'earlier submission (default: {kaggle.TEMPLATE_NAME} in the current folder '
        f'or in {kaggle.TEMPLATE_FOLDERS[1]})',
        flag_values=values,
    )
    flags.DEFINE_string(
        'output', 'predictions_kaggle.csv', 'write this submission', flag_values=values
    )


def _paths(inputs: Sequence[str]) -> list[str]:
    """The files named; each input may hold several, separated by commas."""
    paths = [path.strip() for text in inputs for path in text.split(',')]
    paths = [path for path in paths if path]
    if not paths:
        raise ValueError('--inputcsv names no file')
    return paths


def _default() -> list[str]:
    """Returns the predictions in the current folder, under either name."""
    found = [path for path in _DEFAULTS if os.path.exists(path)]
    if len(found) > 1:
        raise ValueError(
            f'{" and ".join(found)} are both here: choose one with --inputcsv'
        )
    return found or [_DEFAULTS[0]]


def main(argv: Sequence[str], values: flags.FlagValues = flags.FLAGS) -> int:
    """Runs the script; `argv` is what absl has left."""

    def work():
        if argv[1:]:
            raise ValueError(
                f'{argv[1]!r} is not a flag: input files are named by --inputcsv'
            )
        given = values['inputcsv'].present
        paths = _paths(values.inputcsv) if given else _default()
        kaggle.combine(paths, values.output, values.sample, '--inputcsv')

    return exits.run_guarded(work)


if __name__ == '__main__':
    define_flags()
    scripts.run_script(main, __doc__)
