"""Rank the candidate configurations in raw files (.pb) with a trained model.

    tpugraphs rank my_kernels.pb
    tpugraphs rank my_kernels.pb --dir latest
    tpugraphs rank ~/raw --dir latest --output ranked.csv --top 3
    tpugraphs rank my_kernels.pb --dir estimate
    tpugraphs rank module.pb --candidates tiles.json

Without --dir, the latest run for files of that kind ranks them, or else the untrained
estimate, whose formulas are of a TPU v3; a note says which one. A tile model takes
tile files (TuningData), a layout model layout files (ModuleTuningData).  Every run
without error mark is a candidate, measured or not.  For each module the ten
configurations predicted fastest and the compiler's default are printed: `run` is the
number in the file, a lower score means predicted faster, and where runtimes are known,
slowdown is relative to the fastest.  The closing summary compares the choice with
random choice and with the default.

--output writes all configurations: *.csv has a row for each, *.json an object,
which --json prints.  A compiler gives its own candidates with --candidates, in
the format of that object: {"output_bounds": [8, 128], "kernel_bounds": [256]}.
They may be of a module without candidates: an HloModuleProto, HloProto or HloSnapshot.
Features are extracted as the model's training data was (--pad).
"""

import argparse
import functools

from baselines import config
from baselines.core import exits
from baselines.core import settings as settings_lib
from tpugraphs import ranking
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        'modules',
        nargs='+',
        metavar='MODULE',
        help='raw files, folders (searched for *.pb) or globs',
    )
    add_options(parser)
    _options.add_moved(parser, 'rank', '--measure', '--batch_size', '--seconds')


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options that do not depend on the form of the files."""
    option = functools.partial(_options.add_option, parser)
    _options.add_dir(parser)
    _options.add_collection(parser)
    about = 'print this many configurations of each module; 0: the summary alone '
    option('--top', int, f'{about}(default: 10, with --json all)')
    _options.add_json(parser, 'tables')
    about = 'rank these configurations instead of the runs in the files: '
    about += '[{"output_bounds": [8, 128]}, ...]'
    option('--candidates', str, about, metavar='FILE.json')
    about = 'write everything to FILE, *.csv or *.json'
    option('--output', str, about, metavar='FILE')
    option('--module', str, 'rank only the module of that name', metavar='NAME')
    _options.add_models_file(parser)
    needed = 'needed only for runs of the published code, which do not hold their '
    for name in ('data_root', 'cache_dir'):
        about = settings_lib.get_help(config.TileConfig, name)
        option(f'--{name}', '', f'{about}; {needed}normaliser')


@exits.log_progress()
def run(args: argparse.Namespace) -> int:
    """Ranks the configurations, prints and writes them."""
    return ranking.sources.rank_sources(args, _options.get_run_name(args, needed=False))
