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
    name, kind = f'tpugraphs train {args.task}', config.CONFIGS[args.task]
    values = scripts.parse_flags([kind], name, __doc__, args.flags, scripts.BASIC)
    return 0 if values is None else scripts.train(kind, [name], values)
