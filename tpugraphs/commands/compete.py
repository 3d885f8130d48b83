"""Take part in the Kaggle competition: train, rank and estimate all collections.

  tpugraphs compete
  tpugraphs compete --data_root ~/data/tpugraphs/npz --out_dir ~/out/compete
  tpugraphs compete --dir ~/out/my_tiles/latest

For each of the five collections that has data, a model is trained with --recipe, or
the run is taken that --dir names; its ranking of the test split goes into
OUT_DIR/<collection>.csv, all of them into OUT_DIR/submission.csv.  The table has what
each reaches on the validation split: for tiles 1 minus the top-5 error, for layouts
Kendall's tau.  Kaggle's score is the mean over the five collections, so the mean of
the table estimates it; validation chose the best epoch, which flatters it a little.

The same command goes on where it was broken off.  --sample fills in collections
that have no data here.
"""

import argparse
import functools

from baselines.core import exits
from baselines.core import settings as settings_lib
import tpugraphs
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    option = functools.partial(_options.add_option, parser)
    about = 'take these runs instead of training, one per collection'
    parser.add_argument(
        '--dir', '--dirs', dest='dirs', nargs='+', default=[], metavar='RUN', help=about
    )
    about = 'read tile/xla and layout/{xla,nlp}/{random,default} from this folder'
    option('--data_root', '~/data/tpugraphs/npz', about, metavar='FOLDER')
    about = 'write runs, CSVs and the submission to this folder'
    option('--out_dir', '~/out/compete', about, metavar='FOLDER')
    option('--recipe', 'strong', 'train with this recipe')
    option('--epochs', 0, "train for this many epochs; 0: the recipe's")
    _options.add_switch(parser, '--toy_data', 'use only a few graphs of each split')
    about = 'take rows of collections without data from sample_submission.csv'
    option('--sample', '', about, metavar='CSV')
    _options.add_json(parser)


@exits.log_progress()
def run(args: argparse.Namespace) -> None:
    """Trains, writes the submission, and prints the table."""
    kind = tpugraphs.competition.CompetitionOptions
    options = settings_lib.make_from_options(kind, args)
    results = tpugraphs.competition.compete(options, args.dirs)
    _options.show(args, results.to_json(), results.to_text)
