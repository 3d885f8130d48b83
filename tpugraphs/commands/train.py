"""Train a model of tiles or of layouts, and rank the test split with it.

    tpugraphs train tile --sample_data
    tpugraphs train layout --source=nlp --search=default --out_dir=~/out/layout
    tpugraphs train tile --config=run.toml --seed=1

`tpugraphs train tile` is tiles_train.py, `tpugraphs train layout` is
layout_train.py: they take the same flags.  --help after the word shows the
basic ones, --help-all all of them.
"""

import argparse

from baselines import config
from baselines import scripts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument('task', choices=tuple(config.CONFIGS), help='what is ranked')
    scripts.add_flags(parser, '`tpugraphs train tile --help` shows them')


def run(args: argparse.Namespace) -> int:
    """Trains a model."""
    name = f'tpugraphs train {args.task}'
    return scripts.train_command(config.CONFIGS[args.task], name, __doc__, args.flags)
