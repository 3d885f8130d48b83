"""Combine the prediction files of several collections into one submission.

Kaggle wants the graphs of all five test collections in one file, a model ranks
one of them.  Name one file per collection that you have predicted; the other
rows come from sample_submission.csv, which you get from
https://www.kaggle.com/competitions/predict-ai-model-runtime/data:

  tpugraphs combine tile.csv xla_random.csv --sample sample_submission.csv

For --sample an earlier submission does as well: its other rows are kept.
Without --sample, sample_submission.csv is looked for in the current folder and
in ~/data/tpugraphs.

The IDs of the data that ship, or of your own, are not Kaggle's.  Put their files
into one without a template:

  tpugraphs combine tile.csv xla_random.csv --no_template --output all.csv

Rows are matched by ID, never by position.  create_kaggle_csv.py does the same
under the published flags.
"""

import argparse

from baselines.evaluation import kaggle
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        'predictions',
        nargs='+',
        metavar='CSV',
        help='prediction files, of a training or of `tpugraphs predict`; no ID '
        'may be in two of them',
    )
    template = parser.add_mutually_exclusive_group()
    about = 'take the other rows from sample_submission.csv or an earlier submission'
    _options.add_option(template, '--sample', '', about, metavar='CSV')
    about = 'write the predicted rows alone, collection by collection'
    _options.add_switch(template, '--no_template', about)
    _options.add_option(parser, '--output', 'submission.csv', 'write this CSV')


def run(args: argparse.Namespace) -> None:
    """Writes the submission."""
    template = None if args.no_template else args.sample
    kaggle.combine(args.predictions, args.output, template)
