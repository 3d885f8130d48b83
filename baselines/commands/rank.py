"""Rank the candidate configurations in raw files (.pb) with a trained model.

    tpugraphs rank my_kernels.pb --dir ~/out/tpugraphs_tiles/model_<hash>
    tpugraphs rank ~/raw --dir model_<hash> --output ranked.csv --top 3

A tile model takes tile files (TuningData), a layout model layout files.
Every run without error mark is a candidate, measured or not.  Printed are, for
each module, the ten predicted fastest and the compiler's default: `run` is the
place in the file, a lower score means predicted faster, and where runtimes are
known, slowdown is over the fastest.  The closing summary compares the choice
with random choice and with the default.

--output writes all configurations: *.csv has a row for each, *.json an object.
Features are extracted as the model's training data was (--pad, --extra).
"""

import argparse
import contextlib
import sys

import tqdm

from baselines import config
from baselines import files
from baselines.commands import command_line
from baselines.commands import extract
from baselines.extraction import report as extract_report
from baselines.ranking import choices_output as rank_output
from baselines.ranking import choices_text as rank_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument(
        'modules',
        nargs='+',
        metavar='MODULE.pb',
        help='raw files, folders (searched for *.pb) or globs',
    )
    parser.add_argument(
        '--dir',
        required=True,
        metavar='MODEL_DIR',
        help='model directory, model_<hash>, that a training left',
    )
    parser.add_argument(
        '--top',
        type=int,
        default=10,
        help='configurations to print of each module; 0 prints the summary '
        'alone (default: %(default)s)',
    )
    parser.add_argument(
        '--output', metavar='FILE', help='write everything to FILE, *.csv or *.json'
    )
    parser.add_argument(
        '--module', metavar='NAME', help='rank only the module of that name'
    )
    parser.add_argument(
        '--models_file',
        default='',
        help=config.help_of(config.TileConfig, 'models_file'),
    )
    for name in ('data_root', 'cache_dir'):
        parser.add_argument(
            f'--{name}',
            default='',
            help=f'{config.help_of(config.TileConfig, name)} Needed for runs '
            'of the published code only, which do not hold their normaliser',
        )


def run(args: argparse.Namespace) -> int:
    """Ranks, prints and writes."""
    if args.top < 0:
        raise ValueError(f'--top is {args.top}; it counts rows')
    if args.output:
        rank_output.check_suffix(args.output)
    paths = extract.find_inputs(args.modules)
    model_dir = files.expand(args.dir)
    command_line.start_tensorflow()
    from baselines.ranking import choices
    from baselines.tasks import prediction
    from baselines.tasks import rank

    outcome, summary = rank.Outcome(), choices.Summary()
    data = prediction.DataOptions(args.data_root, args.cache_dir)
    with contextlib.ExitStack() as stack:
        written = args.output and stack.enter_context(
            rank_output.writer(args.output, model_dir)
        )
        for ranked in rank.rank_files(
            paths, model_dir, data, outcome, args.models_file, args.module
        ):
            summary.add(ranked)
            if written:
                written.add(ranked)
            if args.top:
                # A progress bar may be there, on the same terminal.
                tqdm.tqdm.write(rank_text.module_table(ranked, args.top) + '\n')
        _check_any(summary.modules, outcome)
        if written:
            written.finish(summary.to_json())
    for message in outcome.failed:
        print(f'error: {message}', file=sys.stderr)
    print(rank_text.summary_table(summary.to_json()))
    for line in rank_text.remarks(outcome.skipped, outcome.unknown_opcodes):
        print(line)
    if args.output:
        print(f'written: {files.expand(args.output)}')
    return 1 if outcome.failed else 0


def _check_any(ranked: int, outcome) -> None:
    """Raises unless a module was ranked."""
    if not ranked:
        reasons = extract_report.reasons(outcome.skipped)
        *others, last = outcome.failed or [f'nothing to rank: {reasons}']
        for message in others:
            print(f'error: {message}', file=sys.stderr)
        raise ValueError(last)


if __name__ == '__main__':
    sys.exit(command_line.run_command('baselines.commands.rank'))
