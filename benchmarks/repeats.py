"""How much of graphs repeats, and what it saves to compute it once.

  python benchmarks/repeats.py                     # a few minutes
  python benchmarks/repeats.py --record
  python benchmarks/repeats.py --what scoring --widths 128

graphs:  the share of nodes that are equal to an earlier one of their graph:
         opcode and features at depth 0, and all neighbours within l hops at
         depth l; and the share of graphs that are copies of an earlier one of
         their split (same opcodes, features and edges).
scoring: all configurations of the test programs, by PrunedScorer without and
         with merging of equal cells, in turn in one process.  Seconds of CPU,
         building of indices included; `largest difference` is relative to the
         largest score.  PrunedScorer merges by itself where the model is wide and
         many configurable nodes look alike: the programs that `by itself` counts.

The simulated samples, and the real files where they are at hand (--real_root).
"""

import argparse
import glob
import os
import statistics
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# pylint: disable=wrong-import-position
from baselines import config
from baselines.commands import command_line
from baselines.data import structural_hash
from baselines.data.layout import store as layout_store
from baselines.features import normalizer as normalizer_lib
from baselines.simulated import layout as layout_sample
from baselines.simulated import tile as sample

_PARTS = ('graphs', 'scoring')
_LAYOUT = ('xla/random', 'xla/default', 'nlp/random', 'nlp/default')
_SPLITS = ('train', 'valid', 'test')
_NUM_OPS = 128
_REAL_ROOT = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), '../../shared/data/npz'
)


def roots(args):
    """Yields (name, folder with the splits, whether it is of layouts)."""
    yield 'tile sample', sample.ensure_sample(), False
    for collection in _LAYOUT:
        folder = os.path.join(layout_sample.ensure_layout_sample(), collection)
        yield f'{collection} sample', folder, True
    for name, part, is_layout in (
        ('real tile', 'tile/xla', False),
        ('real layout', 'layout/xla/random', True),
    ):
        folder = os.path.normpath(os.path.join(args.real_root, part))
        if os.path.isdir(folder):
            yield name, folder, is_layout
        else:
            print(f'no real files in {folder}: no row for them', file=sys.stderr)


def graphs(args):
    """Counts repeats; returns rows for results.csv."""
    depths = range(args.depth + 1)
    print(
        '| | graphs | nodes | copies | '
        + ' | '.join(f'depth {depth}' for depth in depths)
        + ' |'
    )
    print('|' + '---|' * (args.depth + 5))
    rows = []
    for name, folder, _ in roots(args):
        for split in _SPLITS:
            counts, seen = [], set()
            for path in sorted(glob.glob(os.path.join(folder, split, '*.npz'))):
                with np.load(path, allow_pickle=False) as arrays:
                    parts = [
                        arrays[key]
                        for key in ('node_opcode', 'node_feat', 'edge_index')
                    ]
                seen.add(tuple(part.tobytes() for part in parts))
                classes = structural_hash.node_classes(*parts, args.depth)
                equal = structural_hash.repeated_shares(classes)
                nodes = len(parts[0])
                counts.append([nodes, *(nodes * share for share in equal)])
            nodes, *equal = np.sum(counts, axis=0)
            shares = [part / nodes for part in equal]
            copies = 1 - len(seen) / len(counts)
            print(
                f'| {name}, {split} | {len(counts):,} | {nodes:,.0f} '
                f'| {copies:.1%} | '
                + ' | '.join(f'{share:.1%}' for share in shares)
                + ' |'
            )
            rows.append((f'{name}, {split}: graphs that are copies', copies, ''))
            rows += [
                (f'{name}, {split}: nodes repeated at depth {depth}', share, '')
                for depth, share in zip(depths, shares)
            ]
    return rows


def scoring(args):
    """Times scoring; returns rows for results.csv."""
    from baselines.layout import models
    from baselines.layout import programs as programs_lib
    from baselines.layout import pruned

    print(
        '| | width | by itself | cells merged | indices | plain | merged '
        '| speed-up | of single programs | largest difference |'
    )
    print('|' + '---|' * 10)
    rows = []
    for name, folder, is_layout in roots(args):
        if not is_layout:
            continue
        train, test = (
            layout_store.open_layout_split(os.path.join(folder, split), args.cache_dir)
            for split in ('train', 'test')
        )
        programs = programs_lib.StoredPrograms(
            test, normalizer_lib.Normalizer.fit(train)
        )
        for width in args.widths:
            model = models.ResModel(4, _NUM_OPS, hidden_dim=width)
            pair = [pruned.PrunedScorer(model, merge=merge) for merge in (False, True)]
            found = [compare(pair, program, args.repeats) for program in programs]
            cells, kept, build, build_merged = np.sum(
                [merging(pair[1], program) for program in programs], axis=0
            )
            own = pruned.PrunedScorer(model)
            chosen = sum(
                own._plan(program).likeness is not None  # pylint: disable=protected-access
                for program in programs
            )
            plain, merged = (sum(f[i] for f in found) for i in (0, 1))
            single = [before / after for before, after, _ in found]
            off = max(f[2] for f in found)
            print(
                f'| {name} | {width} | {chosen} of {len(programs)} '
                f'| {1 - kept / cells:.0%} | {build:.3f} to {build_merged:.3f} s '
                f'| {plain:.3f} s | {merged:.3f} s | {plain / merged:.2f} '
                f'| {min(single):.2f} to {max(single):.2f} | {off:.0e} |',
                flush=True,
            )
            what = f'{name}, width {width}'
            rows += [
                (f'{what}: cells merged', 1 - kept / cells, ''),
                (f'{what}: indices, plain', build, 's of CPU'),
                (f'{what}: indices, merged', build_merged, 's of CPU'),
                (f'{what}: speed-up', plain / merged, ''),
                (f'{what}: scoring, plain', plain, 's of CPU'),
                (f'{what}: scoring, merged', merged, 's of CPU'),
                (f'{what}: largest relative difference', off, ''),
            ]
    return rows


def compare(pair, program, repeats: int):
    """Returns median seconds of CPU without, and with merging, and how far off."""
    plain, merged = (scorer.score(program) for scorer in pair)
    seconds = [[], []]
    for _ in range(repeats):
        for scorer, taken in zip(pair, seconds):
            start = time.process_time()
            scorer.score(program)
            taken.append(time.process_time() - start)
    off = np.abs(plain - merged).max() / np.abs(plain).max()
    return (*map(statistics.median, seconds), float(off))


def merging(scorer, program):
    """Returns what merging does to a first slice.

    Returns:
        The number of cells before and after; seconds to build the indices
        without and with it.
    """
    plan = scorer._plan(program)  # pylint: disable=protected-access
    codes = np.asarray(program.codes[:2048])
    states = plan.structure.states(codes)
    counts, seconds = [], []
    for likeness in (None, plan.likeness):
        start = time.process_time()
        layers = plan.structure.cells(codes, states, likeness)['layers']
        seconds.append(time.process_time() - start)
        counts.append(sum(len(layer['node']) for layer in layers))
    return [*counts, *seconds]


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--what', nargs='+', default=_PARTS, choices=_PARTS)
    parser.add_argument('--depth', type=int, default=3)
    parser.add_argument('--widths', nargs='+', type=int, default=[32, 64, 128])
    parser.add_argument('--repeats', type=int, default=5)
    parser.add_argument(
        '--cache_dir',
        default=config.LayoutConfig.cache_dir,
        help='where packed splits are kept',
    )
    parser.add_argument(
        '--real_root',
        default=_REAL_ROOT,
        help='folder with tile/xla and layout/xla/random of real graphs',
    )
    parser.add_argument('--record', action='store_true', help='keep the figures')
    args = parser.parse_args()
    command_line.start_tensorflow()
    rows = []
    for what in args.what:
        rows += {'graphs': graphs, 'scoring': scoring}[what](args)
    if args.record:
        import results

        results.record(rows)
    return 0


if __name__ == '__main__':
    sys.exit(command_line.guarded(main))
