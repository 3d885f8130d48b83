"""List finished runs: when, of what, how they differ, how good, and where.

  tpugraphs runs
  tpugraphs runs --out_dir ~/out/mine --sort score

By default the runs in the folders where trainings write are listed, the latest last.
The last column has names for --dir of all other commands, which also takes `latest`, a
whole directory or a --run_id.  Trainings that are running or were interrupted are
listed below.  `valid` is the ordered-pair accuracy on validation configurations, all
pairs pooled, for layouts Kendall's tau; `tpugraphs evaluate` measures runs on whole
splits.
"""

import argparse
import sys

from baselines.runs import finding
from baselines.runs import listing
from baselines.runs import run_files
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    about = f'list only these: each {finding.FORMS}'
    parser.add_argument('runs', nargs='*', metavar='RUN', help=about)
    parser.add_argument(
        '--out_dir',
        nargs='+',
        default=[],
        metavar='FOLDER',
        help='list the runs in these folders (default: where trainings write)',
    )
    about = 'order the lines by this column'
    _options.add_option(parser, '--sort', 'when', about, choices=listing.SORTS)
    _options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the table, and below it the trainings that are not finished.

    Raises:
        ValueError: there are no such runs.
    """
    folders = args.out_dir or finding.list_default_folders()
    unfinished: list[str] = []
    if args.runs:
        if len(args.out_dir) > 1:
            raise ValueError('--out_dir: one folder, where runs are named')
        where = args.out_dir[0] if args.out_dir else ''
        names = [finding.prefix_folder(where, name) for name in args.runs]
        rows = [listing.make_row(run_files.read(d)) for d in finding.find_all(names)]
    else:
        unfinished = list(listing.list_unfinished(folders))
        rows = listing.read_rows(folders)
    rows = listing.sort_rows(rows, args.sort)
    if args.json or rows:
        content = [row._asdict() for row in rows]
        shown = lambda: '\n'.join(listing.format_table(rows))
        _options.show(args, content, shown)
    elif not unfinished:
        raise ValueError(finding.explain_no_runs(folders))
    for line in unfinished:
        print(line, file=sys.stderr if args.json else sys.stdout)
