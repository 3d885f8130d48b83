"""Measure a trained run: top-k error or slowdown, ordered pairs, Kendall's tau.

  tpugraphs evaluate --dir latest

prints a table of all runs, next to random choice and the untrained estimate
(`--dir estimate` measures it alone): for tiles top-k error and the Kaggle score, for
layouts tau and slowdown@1/10/100.  --by_program prints the figures of each program
below, and --json all of them as JSON, for several runs an object with an entry for
each.  Names of runs say how they differ; runs that differ in nothing but seed or fold
have their mean and standard deviation below.  --output writes the table to a file, as
.csv, or the JSON, as .json.  By default the validation split is measured, for runs of a
--fold their fold; the published test split has no runtimes.  Published figures of
layouts are of 1,000 fixed configurations of each validation graph: --protocol=published
takes these, and is the default where the graphs are the published ones; --protocol=all
takes all.

  tpugraphs evaluate --predictions scores.npz --collection layout:xla:random

measures what any model predicts: graph ID -> scores (float, one per configuration,
lower is faster), or a CSV of the competition.

  tpugraphs evaluate --compare wide latest

tells whether one model is better than another, by a paired test over programs; a
shared --run_id, or the name of a model, names runs that differ in their seeds.
"""

import argparse

from baselines.core import exits
import tpugraphs
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    _options.add_run_arguments(parser, split='valid')
    _options.add_collection(parser)
    parser.add_argument(
        '--compare',
        nargs=2,
        metavar=('A', 'B'),
        help='test whether A is better than B: runs, or a shared --run_id or model '
        'for all its seeds, instead of --dir',
    )
    about = 'measure a CSV (ID,TopConfigs) or .npz (graph ID -> scores) of graphs of '
    about += '--collection (default: tile:xla)'
    _options.add_option(parser, '--predictions', '', about, metavar='FILE')
    about = 'measure layouts on the 1,000 published configurations per graph, or all'
    protocols = ('published', 'all')
    _options.add_option(parser, '--protocol', '', about, choices=protocols)
    about = 'also print a table of programs (of layouts: of graphs) for each run'
    _options.add_switch(parser, '--by_program', about)
    _options.add_json(parser)
    about = 'also write a table (.csv) or the JSON (.json) to this file'
    parser.add_argument('--output', help=about)


@exits.log_progress()
def run(args: argparse.Namespace) -> None:
    """Prints the measurements of each run, or compares two models."""
    if args.compare:
        tpugraphs.run_reports.compare_runs(args)
    else:
        names = _options.get_run_names(args, needed=not args.predictions)
        tpugraphs.run_reports.evaluate_runs(args, names)
