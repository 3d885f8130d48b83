"""Average the scores of several runs into one ranking, and measure it.

  tpugraphs ensemble --dirs ~/out/a/model_<hash> ~/out/b/model_<hash>

The runs may be of different models, but are of one collection.  --by says what
is averaged: scores, each run's mapped to 0..1 per graph, or ranks.  The CSV is
as `tpugraphs predict` writes it.  Where runtimes are known (--split valid), a
table compares the ensemble with its members, and says what it gains over each,
with an interval from drawing programs at random.  --evaluate prints what
`tpugraphs evaluate` prints for the ensemble and each member, too.
"""

import argparse
import sys

from baselines import files
from baselines.commands import command_line
from baselines.ranking import ensembles


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    command_line.add_run_arguments(parser)
    parser.add_argument(
        '--by',
        default='scores',
        choices=ensembles.WAYS,
        help='what is averaged (default: %(default)s)',
    )
    parser.add_argument(
        '--weights',
        nargs='+',
        type=float,
        metavar='WEIGHT',
        help='one for each run (default: all alike)',
    )
    parser.add_argument(
        '--output',
        default='predictions_ensemble.csv',
        help='the CSV to write (default: %(default)s)',
    )
    parser.add_argument(
        '--evaluate',
        action='store_true',
        help='measure per program, too; runtimes must be known',
    )
    parser.add_argument('--json', help='write all measurements to this file')


def run(args: argparse.Namespace) -> None:
    """Writes the ranking and prints the measurements."""
    command_line.start_tensorflow()
    from baselines.ranking import comparison
    from baselines.ranking import report
    from baselines.tasks import ensemble
    from baselines.tasks import prediction
    from baselines.training import runs

    ensembles.check_weights(args.weights, len(args.dirs))
    runs.check_file_writable(args.output, 'output')
    if args.json:
        runs.check_file_writable(args.json, 'json')
    scored = ensemble.score(
        args.dirs,
        prediction.data_options(args),
        args.models_file,
        args.split,
        must_measure=args.evaluate or bool(args.json),
    )
    averaged = ensemble.average(scored, args.weights, args.by)
    rows = ensemble.write(scored, averaged, args.output)
    print(f'{files.expand(args.output)}: {rows} rows')
    if not scored.store.has_runtimes:
        return
    found = ensemble.measure(scored, averaged, args.by)
    if args.evaluate:
        for name, summary in [
            *found['members'].items(),
            (f'{len(args.dirs)} runs', found['ensemble']),
        ]:
            print(f'\n{summary["model"]} on {summary["split"]}, {name}')
            print(report.format_table(summary))
    print(f'\n{comparison.format_ensemble(found)}')
    if args.json:
        with files.write_atomically(args.json) as stream:
            stream.write(report.to_json(found) + '\n')


if __name__ == '__main__':
    sys.exit(command_line.run_command('baselines.commands.ensemble'))
