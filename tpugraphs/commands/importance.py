"""List the columns that the trees of a run look at, the most important first.

    tpugraphs importance --dir latest

The gain of a column is what its splits took off the squared error of the training, as
a share of all; of columns that say nearly the same, one may have the others' gain.
Runs that were trained before gains were kept have the numbers of splits alone.
"""

import argparse

from baselines.core import text
from baselines.runs import finding
from baselines.trees import booster
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    _options.add_runs(parser)
    about = 'show this many columns'
    _options.add_option(parser, '--top', 20, about, metavar='N')
    _options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the table."""
    run_file = finding.load(_options.get_run_name(args))
    if not run_file.has_trees:
        raise ValueError(
            f'{run_file.model_dir} must have trees (--model=Trees, --trees)'
        )
    trees = booster.Trees.read(run_file.trees_file)
    rows = trees.compute_importances()
    if args.json:
        print(text.to_json([row._asdict() for row in rows]))
        return
    columns = text.count(len(rows), 'column')
    print(f'{run_file.model_dir}: {text.count(trees.count, "tree")}, {columns}')
    if trees.prior:
        prior = trees.prior
        print(f'they correct {prior.weight:g} x the ranks of {prior.column}')
    cells = [
        [row.column, text.format_value(row.gain, '.1%'), f'{row.splits:,}']
        for row in rows[: args.top]
    ]
    table = text.format_table([['column', 'gain', 'splits'], *cells], rules=[1])
    print(*table, sep='\n')
    if len(rows) > args.top:
        print(f'{len(rows) - args.top:,} more: --top')
