"""Rank the kernels or programs of a split with trained runs.

The same as tiles_gen_predictions_csv.py, for any split and for layouts too:

  tpugraphs predict --dir latest --split valid
  tpugraphs predict --dir ~/out/tpugraphs_layout/latest --output xla.csv
  tpugraphs predict --dir estimate --collection layout:xla:random

Each --dir needs its run file run_<hash>.jsonz next to it, which says which collection
it was trained on; `estimate` is a formula, not a run.  The CSV has a row per kernel,
its id and its five fastest configurations, or per program, its id and all
configurations, best first.  `tpugraphs combine` puts several into one.
"""

import argparse

from baselines import scoring
from baselines.core import exits
from baselines.core import settings as settings_lib
import tpugraphs
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    _options.add_run_arguments(parser)
    _options.add_beam_arguments(parser)
    _options.add_collection(parser)
    about = 'write this CSV (default: %(default)s); with several runs the '
    output = 'predictions_output_model.csv'
    _options.add_option(parser, '--output', output, f'{about}hash goes into the name')


@exits.log_progress()
def run(args: argparse.Namespace) -> None:
    """Writes the predictions."""
    names, score = _options.get_run_names(args), None
    if args.runner or args.beam_options:
        score = tpugraphs.beam.make_scoring(args)
    options = settings_lib.make_from_options(scoring.prediction.Options, args)
    scoring.prediction.write_predictions(names, options, args.output, args.split, score)
