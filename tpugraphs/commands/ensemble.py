"""Average the scores of several runs into one ranking, and measure it.

  tpugraphs ensemble --dirs ~/out/a/latest ~/out/b/latest

The runs may be of different models, but must be of one collection.  --by chooses the
numbers to average: scores, each run's mapped to 0..1 per graph, or ranks.  The CSV is
as `tpugraphs predict` writes it.  Where runtimes are known (--split valid), a
table compares the ensemble with its members, and shows its gain over their mean,
with an interval from drawing programs at random.  --evaluate prints what
`tpugraphs evaluate` prints for the ensemble and each member, too; --json prints all
measurements.
"""

import argparse

from baselines.core import exits
from baselines.evaluation import ensembles
import tpugraphs
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    _options.add_run_arguments(parser)
    _options.add_collection(parser, estimate=False)
    ways = ensembles.WAYS
    _options.add_option(parser, '--by', 'scores', 'average these', choices=ways)
    about = 'weight the runs by these numbers, one each (default: all alike)'
    rules = {'nargs': '+', 'metavar': 'WEIGHT'}
    _options.add_option(parser, '--weights', float, about, **rules)
    output = 'predictions_ensemble.csv'
    _options.add_option(parser, '--output', output, 'write this CSV')
    about = 'measure per program, too; runtimes must be known'
    _options.add_switch(parser, '--evaluate', about)
    _options.add_json(parser)


@exits.log_progress()
def run(args: argparse.Namespace) -> None:
    """Writes the ranking and prints the measurements."""
    tpugraphs.run_reports.average_runs(args, _options.get_run_names(args))
