"""List finished runs: when, of what, how they differ, how good, and where.

  tpugraphs runs
  tpugraphs runs --out_dir ~/out/mine --sort score

By default those in the folders that trainings write to are listed, the latest
last.  What stands in the last column is a name for --dir of all other commands,
which also takes `latest`, a whole directory, a --run_id or a pattern.  Interrupted
trainings are named on stderr.  `best
valid` is the best epoch's ordered-pair accuracy on validation configurations, for
layouts Kendall's tau; `tpugraphs evaluate` measures runs on whole splits.
"""

import argparse

from baselines import command_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    from baselines.runs import listing

    parser.add_argument(
        '--out_dir',
        nargs='+',
        default=[],
        metavar='FOLDER',
        help='folders of runs (default: those that trainings write to)',
    )
    about = 'what the lines are ordered by'
    command_line.option(parser, '--sort', 'when', about, choices=listing.SORTS)
    command_line.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the table."""
    from baselines.runs import finding
    from baselines.runs import listing

    folders = args.out_dir or finding.default_folders()
    listing.note_unfinished(folders)
    rows = listing.ordered(listing.rows(folders), args.sort)
    if not rows and not args.json:
        raise ValueError(finding.no_runs_message(folders))
    content = [row._asdict() for row in rows]
    command_line.show(args, content, lambda: '\n'.join(listing.table(rows)))
