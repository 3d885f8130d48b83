"""Check a models.py, and a trained model, before you hand them in.

  tpugraphs check my_models.py
  tpugraphs check my_models.py:MyModel
  tpugraphs check baselines/tiles/models.py --dir ~/out/tpugraphs_tiles/model_<hash>

Each class is tried on made-up kernels: any number of configurations, in any order,
alone and in a batch, gradients, saving and loading.  With --dir the file also takes the
place of models.py in a temporary copy of this package, which loads the directory and
ranks the test kernels, as a grader does; the result is compared with the training's.

There is a line for each rule: `ok`, or `FIX` and what to change; then the exit code
is 1.  The file is run, so use one you trust.
"""

import argparse

from baselines import command_line
from tpugraphs import handin


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    about = 'the models.py of tiles; with :NAME one of its classes'
    parser.add_argument('models_file', metavar='MODELS.PY', help=about)
    about = 'the run to hand in: a model directory, next to its run file'
    command_line.option(parser, '--dir', '', about)
    about = 'folder with the splits (default: where the run was trained)'
    command_line.option(parser, '--data_root', '', about)


def run(args: argparse.Namespace) -> int:
    """Prints the lines; returns the exit code."""
    code = 0
    for line in handin.grading.check(args.models_file, args.dir, args.data_root):
        print(line)
        code |= not line.ok
    return code
