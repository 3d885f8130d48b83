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

from baselines import command_line
from baselines.core import exits
from baselines.evaluation import ensembles
import tpugraphs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    command_line.add_run_arguments(parser)
    command_line.add_collection(parser, estimate=False)
    ways = ensembles.WAYS
    command_line.option(parser, '--by', 'scores', 'average these', choices=ways)
    about = 'weight the runs by these numbers, one each (default: all alike)'
    rules = {'nargs': '+', 'metavar': 'WEIGHT'}
    command_line.option(parser, '--weights', float, about, **rules)
    output = 'predictions_ensemble.csv'
    command_line.option(parser, '--output', output, 'write this CSV')
    about = 'measure per program, too; runtimes must be known'
    command_line.switch(parser, '--evaluate', about)
    command_line.add_json(parser)


@exits.log_progress()
def run(args: argparse.Namespace) -> None:
    """Writes the ranking and prints the measurements."""
    tpugraphs.run_reports.average_runs(args)
