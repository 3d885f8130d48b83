"""Write simulated kernels in the published layout, to try everything without data.

The kernels are random fusions over invented programs (their names begin with
sim_), and their runtimes come from an analytical TPU v3 model plus 1 % noise:
SIMULATED, not measured.  Programs of the valid and test splits do not occur in
train, as in the real collection.  docs/sample-data.md has the formulas.

Example: a small sample, and a model trained on it:

    python -m baselines.commands.sample --output /tmp/sample --train 200
    python tiles_train.py --data_root=/tmp/sample --epochs=20

Other than in the published data the test files hold their (simulated) runtimes,
so that test metrics can be computed; --hide_test_runtimes writes zeros as
published.  `tiles_train.py --sample_data` makes and uses the default sample by
itself.  About the real collection's size (5,709 kernels, 11 million configurations)
takes some minutes and 0.2 GB of disk:

    python -m baselines.commands.sample --output /tmp/big --train 5709 \\
        --valid 676 --test 844 --configs_mean 1946

Whole programs with simulated layouts, the four layout collections (xla and nlp,
random and default) in one folder; docs/sample-data-layout.md has the formulas:

    python -m baselines.commands.sample --collection layout --output /tmp/layout
"""

import argparse
import sys

from baselines import files
from baselines.commands import command_line
from baselines.simulated.layout import dataset as layout_dataset
from baselines.simulated.tile import dataset


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options; what is left out is the collection's default."""
    tile, layout = dataset.Sizes(), layout_dataset.LayoutSizes()
    parser.add_argument(
        '--collection',
        choices=('tile', 'layout'),
        default='tile',
        help='kernels with tile sizes, or programs with layouts (default: %(default)s)',
    )
    parser.add_argument(
        '--output',
        help='folder to write; an older sample there is replaced, anything else '
        f'is refused (default: {dataset.DEFAULT_ROOT}; layout: '
        f'{layout_dataset.DEFAULT_ROOT})',
    )
    for split in ('train', 'valid', 'test'):
        parser.add_argument(
            f'--{split}',
            type=int,
            metavar='N',
            help=f'kernels in the {split} split (default: {getattr(tile, split)}); '
            f'layout: programs, of xla and nlp each ({getattr(layout, split)})',
        )
    parser.add_argument(
        '--seed', type=int, help=f'same seed, same arrays (default: {tile.seed})'
    )
    parser.add_argument(
        '--configs_mean',
        type=float,
        help='tile: configurations per kernel on average, about '
        f'(default: {tile.configs_mean:g})',
    )
    for end, words in (('min', 'fewest'), ('max', 'most')):
        parser.add_argument(
            f'--configs_{end}',
            type=int,
            help=f'layout: {words} configurations of a program '
            f'(default: {getattr(layout, "configs_" + end)})',
        )
    parser.add_argument(
        '--hide_test_runtimes',
        action='store_true',
        help='write runtimes 0 (and normalisers 1) to test files, as published',
    )


def run(args: argparse.Namespace) -> None:
    """Writes the sample and says what it holds."""
    if args.collection == 'layout':
        _write_layout(args)
    else:
        _write_tile(args)


def _sizes(args: argparse.Namespace, kind: type, other: type):
    """Returns the options as `kind`; those that only `other` has are mistakes."""
    for field in other._fields:
        if field not in kind._fields and getattr(args, field) is not None:
            raise ValueError(
                f'--{field} is no option of --collection {args.collection}; '
                'leave it out'
            )
    given = {field: getattr(args, field) for field in kind._fields}
    return kind(**{field: v for field, v in given.items() if v is not None})


def _write_layout(args: argparse.Namespace) -> None:
    sizes = _sizes(args, layout_dataset.LayoutSizes, dataset.Sizes)
    root = files.expand(args.output or layout_dataset.DEFAULT_ROOT)
    summaries = layout_dataset.generate_layout_dataset(root, sizes)
    print(
        f'SIMULATED sample (no measurements) in {root}: of each source train '
        f'{sizes.train}, valid {sizes.valid}, test {sizes.test} programs'
    )
    for name, summary in summaries.items():
        print(
            f'{name:12} {summary.programs} programs, {summary.nodes:,} nodes, '
            f'{summary.configs:,} configurations ({summary.duplicates:,} repeat '
            f'another); worst / best {summary.worst_to_best:.2f}, median over programs'
        )


def _write_tile(args: argparse.Namespace) -> None:
    sizes = _sizes(args, dataset.Sizes, layout_dataset.LayoutSizes)
    root = files.expand(args.output or dataset.DEFAULT_ROOT)
    summary = dataset.generate_dataset(root, sizes)
    print(
        f'SIMULATED sample (no measurements) in {root}: '
        f'train {sizes.train}, valid {sizes.valid}, test {sizes.test} kernels\n'
        f'{summary.kernels:,} kernels, {summary.configs:,} configurations '
        f'({summary.configs / summary.kernels:.0f} per kernel), '
        f'{summary.nodes / summary.kernels:.1f} nodes per kernel\n'
        f'runtimes, median over kernels: median / best '
        f'{summary.median_to_best:.2f}, worst / best {summary.worst_to_best:.1f}'
    )


if __name__ == '__main__':
    sys.exit(command_line.run_command('baselines.commands.sample'))
