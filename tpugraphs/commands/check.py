"""Check a models.py, and a trained model, before you hand them in.

  tpugraphs check my_models.py
  tpugraphs check my_models.py:MyModel
  tpugraphs check baselines/tiles/models.py --dir ~/out/tpugraphs_tiles/model_<hash>
  tpugraphs check my_models.py --dir RUN --published ~/tpu_graphs

Each class is tried on made-up kernels: any number of configurations, in any order,
alone and in a batch, gradients, saving and loading.  With --dir the class of the run is
made, given its weights and asked for a ranking of the test kernels as the course's
tiles_gen_predictions_csv.py does it; the result is compared with the training's.  With
--published the course's script itself runs in a temporary copy of your clone of the
published repository, and its exit code decides.

There is a line for each rule: `ok`, or `FIX` and what to change; then the exit code
is 1.  The last line is the verdict.  The file is run, so use one you trust.
"""

import argparse

from tpugraphs import handin
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    about = 'the models.py of tiles; with :NAME one of its classes'
    parser.add_argument('models_file', metavar='MODELS.PY', help=about)
    about = 'the run to hand in: a model directory, next to its run file'
    _options.add_option(parser, '--dir', '', about)
    about = 'folder with the splits (default: where the run was trained)'
    _options.add_option(parser, '--data_root', '', about)
    about = 'rank only the first 100 test kernels, with a run of toy data'
    _options.add_switch(parser, '--toy_data', about)
    about = 'a clone of the published repository, whose own code then judges'
    _options.add_option(parser, '--published', '', about, metavar='TREE')
    about = "the course's script (default: the one in TREE)"
    _options.add_option(parser, '--script', '', about, metavar='FILE')


def run(args: argparse.Namespace) -> int:
    """Prints the lines and the verdict; returns the exit code."""
    hand_in = handin.grading.find_hand_in(
        args.models_file, args.dir, args.data_root, args.toy_data
    )
    if args.published or args.script:
        checked = handin.published_script.check(hand_in, args.published, args.script)
    else:
        checked = handin.grading.check(hand_in)
    lines = []
    for line in checked:
        print(line)
        lines.append(line)
    print(handin.verdict.write_verdict(lines, hand_in))
    return int(not all(line.ok for line in lines))
