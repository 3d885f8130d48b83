"""List finished runs: when, of what, how they differ, how good, and where.

  tpugraphs runs
  tpugraphs runs --out_dir ~/out/mine --sort score
  tpugraphs runs latest --note "wider, for the report"
  tpugraphs runs --delete 0123 seed7

By default those in the folders that trainings write to are listed, the latest
last.  What stands in the last column is a name for --dir of all other commands,
which also takes `latest`, a whole directory, a --run_id or a pattern.  Trainings that
are running or were interrupted are named on stderr.  `valid` is the
ordered-pair accuracy on validation configurations, all pairs pooled, for layouts
Kendall's tau; `tpugraphs evaluate` measures runs on whole splits.

--note keeps a remark in the directory of a run.  --delete removes model_<hash>/,
run_<hash>.jsonz and the results_<time>.csv of the training, after a question.
"""

import argparse
import sys

from baselines import command_line
from baselines.core import files
from baselines.core import text
from baselines.runs import deletion
from baselines.runs import finding
from baselines.runs import listing
from baselines.runs import notes
from baselines.runs import run_files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    about = f'list only these: each {finding.FORMS}'
    parser.add_argument('runs', nargs='*', metavar='RUN', help=about)
    parser.add_argument(
        '--out_dir',
        nargs='+',
        default=[],
        metavar='FOLDER',
        help='folders of runs (default: those that trainings write to)',
    )
    about = 'what the lines are ordered by'
    command_line.option(parser, '--sort', 'when', about, choices=listing.SORTS)
    about = "keep this remark with the runs; '' removes it"
    command_line.option(parser, '--note', str, about, metavar='TEXT')
    command_line.switch(parser, '--delete', 'delete the runs')
    command_line.switch(parser, '--yes', 'delete them without a question')
    command_line.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the table.

    Raises:
        ValueError: there are no such runs, or they may not be changed.
        OSError: a note or a run cannot be written or removed.
    """
    folders = args.out_dir or finding.default_folders()
    names = _named(args)
    if args.delete:
        if args.json or args.note is not None:
            raise ValueError(
                '--delete prints no table, and keeps no note: leave out '
                '--json and --note'
            )
        _delete(names, args.yes)
        return
    if names:
        runs = [run_files.read(model_dir) for model_dir in names]
        if args.note is not None:
            for model_dir in names:
                notes.write(model_dir, args.note)
        rows = [listing.row(run) for run in runs]
    else:
        listing.note_unfinished(folders)
        rows = listing.rows(folders)
    rows = listing.ordered(rows, args.sort)
    if not rows and not args.json:
        raise ValueError(finding.no_runs_message(folders))
    content = [row._asdict() for row in rows]
    command_line.show(args, content, lambda: '\n'.join(listing.table(rows)))


def _named(args: argparse.Namespace) -> list[str]:
    """Returns the directories of the runs that are named; raises ValueError."""
    if (args.delete or args.note is not None) and not args.runs:
        where = ' before --out_dir' if args.out_dir else ''
        raise ValueError(f'name the runs{where}; each is {finding.FORMS}')
    if args.runs and len(args.out_dir) > 1:
        raise ValueError('--out_dir: one folder, where runs are named')
    folders = args.out_dir or ['']
    return finding.find_all([finding.in_folder(folders[0], n) for n in args.runs])


def _delete(model_dirs: list[str], is_sure: bool) -> None:
    """Deletes runs if the user agrees; raises ValueError or OSError."""
    paths = [path for one in model_dirs for path in deletion.paths_of(one)]
    count = text.count(len(model_dirs), 'run')
    if not is_sure:
        if not sys.stdin.isatty():
            raise ValueError(f'--delete: add --yes to delete {count}')
        print('\n'.join(map(files.shown, paths)))
        if input(f'delete {count}? [y/N] ').strip().lower() not in ('y', 'yes'):
            print('nothing was deleted')
            return
    for model_dir in model_dirs:
        deletion.delete(model_dir)
    print(f'deleted {count}: {", ".join(map(files.shown, paths))}')
