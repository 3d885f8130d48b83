"""Write simulated kernels in the published layout, to try everything without data.

The kernels are random fusions over invented programs (their names begin with
sim_), and their runtimes come from an analytical TPU v3 model plus 1 % noise:
SIMULATED, not measured: docs/simulated-data.md.  No program is in two splits.

    tpugraphs sample --output /tmp/small --train 200
    python tiles_train.py --data_root=/tmp/small --epochs=20

Other than in the published data the test files hold their (simulated) runtimes,
so that test metrics can be computed; --hide_test_runtimes writes zeros.
`tiles_train.py --sample_data` makes and uses the default by itself.  The size of
the real collection (11 million configurations, some minutes, 0.2 GB); kernels of a
second simulator with other programs, machine and rules (another --seed is another
machine); a raw file as a compiler would write it; whole programs with layouts:

    tpugraphs sample --output /tmp/big --train 5709 --valid 676 --test 844 \\
        --configs_mean 1946
    tpugraphs sample --collection tile_other --output /tmp/other
    tpugraphs sample --raw kernels.pb --test 4 --configs_mean 40
    tpugraphs sample --collection layout --output /tmp/layout
"""

import argparse
import dataclasses
import functools
from typing import Dict

from baselines import command_line
from baselines import commands
from baselines import files
from baselines.data.collections import SPLITS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options; what is left out is the collection's default."""
    datasets = _datasets()
    tile, layout = datasets['tile'](), datasets['layout']()
    option = functools.partial(command_line.option, parser)
    about = 'kernels with tile sizes, the same of another simulator, or programs with '
    option('--collection', 'tile', f'{about}layouts', choices=tuple(datasets))
    roots = '; '.join(f'{key}: {d.default_root}' for key, d in datasets.items())
    about = 'folder to write; older simulated data there are replaced, all else is '
    option('--output', str, f'{about}refused (default: {roots})')
    for split in SPLITS:
        about = f'kernels in the {split} split (default: {getattr(tile, split)}); '
        about += f'layout: programs, of xla and nlp each ({getattr(layout, split)})'
        option(f'--{split}', int, about, metavar='N')
    option('--seed', int, f'same seed, same arrays (default: {tile.seed})')
    for name, kind, words in (
        ('configs_mean', float, 'tile: configurations per kernel on average, about'),
        ('configs_min', int, 'layout: fewest configurations of a program'),
        ('configs_max', int, 'layout: most configurations of a program'),
        ('rules', str, 'layout: roofline, products or drawn costs'),
    ):
        default = getattr(tile if words.startswith('tile') else layout, name)
        shown = f'{default:g}' if kind is float else default
        option(f'--{name}', kind, f'{words} (default: {shown})')
    about = 'tile: write the test kernels, and these alone, to a raw file'
    option('--raw', str, about, metavar='FILE.pb')
    about = 'write runtimes 0 (and normalisers 1) to test files, as published'
    command_line.switch(parser, '--hide_test_runtimes', about)


def run(args: argparse.Namespace) -> None:
    """Writes the data and says what they are."""
    dataset = _datasets()[args.collection]
    given = {name: value for name, value in vars(args).items() if value is not None}
    known = {field.name for field in dataclasses.fields(dataset)}
    for name in sorted(given.keys() - known - {'collection', 'output', 'raw'}):
        raise ValueError(
            f'--{name} is no option of --collection {args.collection}; leave it out'
        )
    if args.raw and args.collection != 'tile':
        raise ValueError('--raw is for --collection tile')
    wanted = dataset(**{name: given[name] for name in known & given.keys()})
    if args.raw:
        return print(wanted.write_raw(files.expand(args.raw)))
    root = files.expand(args.output or dataset.default_root)
    print(wanted.write(root))


def _datasets() -> Dict[str, type]:
    from baselines.simulated.layout import dataset as layout
    from baselines.simulated.tile import dataset as tile
    from baselines.simulated.tile_other import dataset as tile_other

    found = (tile.Kernels, tile_other.Kernels, layout.Programs)
    return {dataset.collection: dataset for dataset in found}


if __name__ == '__main__':
    commands.main('sample')
