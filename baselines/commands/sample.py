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
itself.  The real collection's size (5,709 kernels, 11 million configurations)
takes some minutes and 1 GB:

    python -m baselines.commands.sample --output /tmp/big --train 5709 \\
        --valid 676 --test 844 --configs_mean 1946
"""

import argparse
import sys

from baselines import files
from baselines.commands import command_line
from baselines.data.sample import dataset


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    default = dataset.Sizes()
    parser.add_argument(
        '--output',
        default=dataset.DEFAULT_ROOT,
        help='folder to write; an older sample there is replaced, anything else '
        'is refused (default: %(default)s)',
    )
    for split in ('train', 'valid', 'test'):
        parser.add_argument(
            f'--{split}',
            type=int,
            default=getattr(default, split),
            metavar='N',
            help=f'kernels in the {split} split (default: %(default)s)',
        )
    parser.add_argument(
        '--seed', type=int, default=default.seed,
        help='same seed, same arrays (default: %(default)s)',
    )  # fmt: skip
    parser.add_argument(
        '--configs_mean', type=float, default=default.configs_mean,
        help='configurations per kernel on average, about (default: %(default)g)',
    )  # fmt: skip
    parser.add_argument(
        '--hide_test_runtimes', action='store_true',
        help='write runtimes 0 and normalisers 1 to test files, as published',
    )  # fmt: skip


def run(args: argparse.Namespace) -> None:
    """Writes the sample and says what it holds."""
    sizes = dataset.Sizes(
        **{field: getattr(args, field) for field in dataset.Sizes._fields}
    )
    root = files.expand(args.output)
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
