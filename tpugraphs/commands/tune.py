"""Find a faster program by other configurations of its kernels, and prove it.

    tpugraphs tune my_program.py:step --output fast
    tpugraphs tune my_program.py:step --dir latest
    tpugraphs tune module.hlo --measure 20

XLA's optimised module is cut into kernels, as `tpugraphs collect` does it.  The
model scores all candidate configurations.  The most promising distinct ones are
measured in three rounds, whose times correct the model.  The best three are measured
again, interleaved with XLA's default under two names.  A gain is claimed only if its
paired 95 % interval lies above 1.03, and above that of the default against itself;
otherwise the default is kept.  Without --dir the pretrained model proposes;
--no_model draws at random, and the times decide alone.  Recorded configurations of a
kernel (`tpugraphs records`) count as measured, unless with --fresh.

Then the winning kernels are put into the whole program, which is timed next to the
original; those that do not make it faster are taken out again.

--output has program.hlo.pb, for tpugraphs.load_program('FOLDER'), and both modules of
each kernel with equal parameters and results, so that anyone can time them.
"""

import argparse
import functools
import json
import math

from baselines import command_line
from baselines.core import files
from baselines.core import settings as settings_lib
from baselines.hlo import reading
from baselines.runs import finding
from tpugraphs import ranking
from tpugraphs import tuning
from tpugraphs.programs import extras
from tpugraphs.records import arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    option = functools.partial(command_line.option, parser)
    about = 'FILE.py:FUNCTION, or a file (docs/guide/measure.md#programs)'
    parser.add_argument('program', metavar='PROGRAM', help=about)
    command_line.add_dir(parser)
    command_line.switch(parser, '--no_model', 'draw configurations at random')
    about = 'configurations to measure of each kernel'
    option('--measure', 10, about, metavar='N')
    about = 'configurations to choose from'
    option('--candidates', 1000, about, metavar='N')
    about = 'wall time for kernels and the whole program, about'
    option('--budget-minutes', math.inf, about, metavar='M')
    option('--json', '', 'write results', metavar='FILE')
    about = 'where the tuned program and the kernels go (default: nothing is kept)'
    option('--output', '', about, metavar='FOLDER')
    arguments.add(parser)
    about = 'measure again what is on record, and add to it'
    command_line.switch(parser, '--fresh', about)


@command_line.logged()
def run(args: argparse.Namespace) -> None:
    """Tunes, prints and writes."""
    extras.require()
    if args.no_model and args.dirs:
        raise ValueError('--no_model and --dir: give one of them')
    model_dir = command_line.run_of(args) if args.dirs else ''
    if model_dir and model_dir != finding.ESTIMATE:
        model_dir = finding.find_one(model_dir, reading.TILE)
    if args.json:
        files.check_file_writable(args.json, 'json')
    options = settings_lib.from_options(
        tuning.program_search.TuningOptions,
        args,
        output=files.expand(args.output) if args.output else '',
        minutes=args.budget_minutes,
    )
    model = None
    if model_dir:
        model = ranking.tile_scores.load(model_dir, args.platform)
    elif not args.no_model:
        model = ranking.tile_scores.pretrained(args.platform)
    program = tuning.program_search.tune_and_write(args.program, (), options, model)
    if args.json:
        with files.write_atomically(args.json, encoding='utf-8') as stream:
            json.dump(program.about, stream, indent=1)
        print(f'written: {files.expand(args.json)}')
    if not args.output:
        print('nothing written: --output FOLDER keeps the program')
