"""Turn raw HLO protobufs (.pb) into npz files for training and ranking.

    tpugraphs extract ~/raw/tuning_data.pb ~/data/mine/train
    tpugraphs extract ~/raw 'more/*.pb' ~/data/mine/train --pad=-1

A raw file is a TuningData (tile collection: many kernels) or a
ModuleTuningData (layout collection: one program); which one it is shows in its
bytes.  Each module becomes OUT/<module name>_<fingerprint>.npz, in the schema
of the published dataset; files appear whole or not at all.

Modules whose file is in OUT already are not extracted again, so a broken-off
job goes on where it was; --overwrite replaces them.  A file or module that is
wrong is named, the others are extracted, and the exit code is 1.

More than 64 files, or any --runner, go through Apache Beam: its local runner
uses all cores, any other installed one works too if its workers see the same
folders:

    tpugraphs extract ~/raw OUT --runner=FlinkRunner \\
        --beam_options='--flink_master=host:8081'
"""

import argparse
import glob
import os
import sys
from typing import List

import tqdm

from baselines import files
from baselines.commands import command_line
from baselines.extraction import beam as extract_beam
from baselines.extraction import files as extract_file
from baselines.extraction import report as extract_report
from baselines.hlo import reading

# Beam's workers take a few seconds to start.
_MANY_FILES = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument(
        'inputs',
        nargs='+',
        metavar='IN.pb',
        help='raw files, folders (searched for *.pb) or globs',
    )
    parser.add_argument('output', metavar='OUT', help='folder of the npz files')
    parser.add_argument(
        '--kind',
        choices=reading.KINDS,
        help='collection of the raw files (default: that of the first file)',
    )
    parser.add_argument(
        '--pad',
        type=int,
        choices=(0, -1),
        default=0,
        help='what absent list entries hold; published: 0, but dimension 0 '
        'looks the same (default: %(default)s)',
    )
    parser.add_argument(
        '--extra',
        action='store_true',
        help='add columns that the published 140 leave out; their names go '
        'into the npz (docs/raw-files.md)',
    )
    parser.add_argument('--overwrite', action='store_true', help='replace files in OUT')
    parser.add_argument(
        '--runner', help='run with this Apache Beam runner, e.g. DirectRunner'
    )
    parser.add_argument(
        '--beam_options', default='', help='options for the Beam runner, in one string'
    )


def run(args: argparse.Namespace) -> int:
    """Extracts, and prints what became of it."""
    paths = find_inputs(args.inputs)
    output = files.expand(args.output)
    if os.path.exists(output) and not os.path.isdir(output):
        raise ValueError(
            f'{output}: is a file; the last argument is the folder for the npz files'
        )
    if args.beam_options and not args.runner:
        raise ValueError('--beam_options is for a Beam runner: add --runner')
    options = extract_file.Options(
        output=output,
        kind=args.kind or _first_kind(paths),
        pad=args.pad,
        extra=args.extra,
        overwrite=args.overwrite,
    )
    total = extract_report.Report()
    if args.runner or len(paths) > _MANY_FILES:
        reports = iter(
            extract_beam.extract_files(paths, options, args.runner, args.beam_options)
        )
    else:
        bar = tqdm.tqdm(paths, desc='extract', unit='file', disable=None)
        reports = (extract_file.extract_file(path, options) for path in bar)
    for report in reports:
        total.add(report)
        if report.fatal:
            break
    for message in sorted(total.failed):
        print(f'error: {message}', file=sys.stderr)
    if total.fatal:
        raise ValueError(total.fatal)
    print(extract_report.summary(total))
    return 1 if total.failed else 0


def find_inputs(patterns: List[str]) -> List[str]:
    """Returns the files that arguments name, absolute, each once.

    Args:
        patterns: files, folders (searched for *.pb) and globs; `~` is expanded.

    Raises:
        ValueError: an argument names nothing.
    """
    found = []
    for pattern in patterns:
        path = files.expand(pattern)
        if os.path.isdir(path):
            inside = os.path.join(glob.escape(path), '**', '*.pb')
            matches = sorted(glob.glob(inside, recursive=True))
            if not matches:
                raise ValueError(f'{path}: has no *.pb files in it')
        elif os.path.exists(path):
            matches = [path]
        else:
            matches = sorted(glob.glob(path, recursive=True))
            if not matches:
                raise ValueError(f'{path}: no such file')
        found += matches
    return list(dict.fromkeys(found))


def _first_kind(paths: List[str]):
    """Returns the collection of the first file that shows it.

    Both collections in one folder would make neither readable, so files of the
    other one are errors.
    """
    for path in paths:
        try:
            return reading.read_tuning(path).kind
        except (ValueError, OSError):
            continue
    return None


if __name__ == '__main__':
    sys.exit(command_line.run_command('baselines.commands.extract'))
