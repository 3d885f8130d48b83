"""Do two releases of XLA rank the tiles of a kernel alike, and do models carry over?

  PYTHON benchmarks/two_releases.py prepare FOLDER --kernels 225   # with each release
  PYTHON benchmarks/two_releases.py measure FOLDER --minutes 8     # with each release
  python benchmarks/two_releases.py table FOLDER
  python benchmarks/two_releases.py models FOLDER

`prepare` writes kernels of random programs of the families that the archive validates
and tests on, as the installed release cuts them, each untiled and with random tiles:
the same modules for every release.  `measure` times them.  `table` prints Kendall's tau
between the times of the two releases, next to that between halves of one release's
passes.  `models` grows trees as `kernel_kinds.py` does on the archive's training
kernels of one release, or all, and judges them on the times of each.
"""

import argparse
import collections
import json
import pathlib
import time
from typing import Any, Dict, List

import judging
import kernel_kinds
import numpy as np
import results
import time_saved
import tqdm
import xla_versions

import baselines
from baselines.data import families
from baselines.data import hardware
from baselines.data.tile import store as tile_store
from baselines.evaluation import metrics
from baselines.features import tile_table
from baselines.trees import scoring
from tpugraphs.clock import session as session_lib
from tpugraphs.clock import timing
from tpugraphs.collect import collection
from tpugraphs.collect import collection_folder
from tpugraphs.collect import random_programs
from tpugraphs.kernels import choices

_SEED = 41
_PER_PROGRAM = 3  # kernels, drawn as `collect --kernels` does


def prepare(args: argparse.Namespace) -> None:
    """Writes kernels as the installed release cuts them: modules and configurations."""
    release = baselines.version('jaxlib')
    options = collection_folder.CollectionOptions('', kernels=_PER_PROGRAM, seed=_SEED)
    skipped: collections.Counter[str] = collections.Counter()
    programs = random_programs.names(args.kernels // _PER_PROGRAM, _SEED, _untrained())
    written = 0
    with session_lib.Session(args.core) as session:
        for name in tqdm.tqdm(programs, mininterval=10):
            program = random_programs.load(name)
            kernels = choices.kernels_of(program, 'tile', session, set(), skipped)
            for kernel in collection.draw_kernels(kernels, options):
                place = args.folder / 'kernels' / f'{release}_{kernel.name}'
                rng = np.random.default_rng(_SEED)
                written += xla_versions.write(place, kernel, rng, fewest=4)
    print(f'{written} kernels of {release}')


def _untrained() -> List[str]:
    """Returns the families of random programs that the archive does not train on."""
    names = {
        families.family(graph.program).removeprefix('random_')
        for graph in judging.load('tile')
        if graph.split != 'train' and graph.program.startswith('random_')
    }
    return sorted(name.removesuffix('_seed') for name in names)


def measure(args: argparse.Namespace) -> None:
    """Times the kernels with the installed release, in an order that is the same."""
    release = baselines.version('jaxlib')
    places = sorted((args.folder / 'kernels').iterdir())
    order = np.random.default_rng(_SEED).permutation(len(places))
    ends = time.monotonic() + args.minutes * 60
    times: Dict[str, Any] = {}
    with session_lib.Session(args.core) as session:
        for done, number in enumerate(tqdm.tqdm(order, mininterval=10)):
            left = ends - time.monotonic()
            if left < 0:
                break
            seconds = min(args.seconds, left / (len(order) - done))
            protocol = timing.Protocol(
                *(timing.LARGE_PASSES, 12, seconds), compiling=4 * args.seconds
            )
            place = places[number]
            measured = xla_versions.timed(session, place, protocol)
            if measured is None:
                continue
            halves = [measured.passes[half::2].min(0).tolist() for half in (0, 1)]
            times[place.name] = {'kept': measured.kept, 'halves': halves}
    (args.folder / f'{release}.json').write_text(json.dumps(times))
    print(f'{len(times)} of {len(places)} kernels with {release}')


def times_of(folder: pathlib.Path) -> Dict[str, Dict[str, Any]]:
    """Returns release -> kernel -> its measurement, the earlier release first."""
    paths = folder.glob('*.json')
    runs = {path.stem: json.loads(path.read_text()) for path in paths}
    return dict(sorted(runs.items(), key=lambda run: hardware.release_number(run[0])))


def table(args: argparse.Namespace) -> None:
    """Prints how alike two releases rank, by the kernels' time with the later one."""
    first, second = times_of(args.folder).values()
    rows: Dict[str, List[List[float]]] = {}
    for name in sorted(first.keys() & second.keys()):
        one, two = (dict(zip(t['kept'], np.transpose(t['halves'])))
                    for t in (first[name], second[name]))  # fmt: skip
        both = [index for index in one if index in two]
        if len(both) < 4:
            continue
        a, b = (np.array([t[index] for index in both]) for t in (one, two))
        size = time_saved.size_class(b[0].min())
        # What choosing the best tile of one release costs with the other.
        loss = b[a.min(1).argmin()].min() / b.min() - 1
        row = [
            timing.kendall_tau(*a.T),
            timing.kendall_tau(*b.T),
            # Of halves, so that noise is that of the columns before.
            timing.kendall_tau(a[:, 0], b[:, 1]),
            loss,
            a[0].min() / b[0].min(),
        ]
        cut_with = name.partition('_')[0]
        for group in ('all', f'cut with {cut_with}', size):
            rows.setdefault(group, []).append(row)
    results.head(
        'kernels', 'number', 'tau between halves, earlier', 'tau between halves, later',
        'tau between releases: median', 'lowest tenth', 'highest tenth',
        'slowdown with the other release\'s fastest: mean', 'default, earlier / later',
    )  # fmt: skip
    order = ('all', *sorted(g for g in rows if g.startswith('cut')))
    for group in (*order, *time_saved.SIZE_CLASSES):
        if group not in rows:
            continue
        values = np.array(rows[group])
        low, middle, high = np.quantile(values[:, 2], [0.1, 0.5, 0.9])
        results.row(
            *(group, str(len(values))),
            *(f'{median:.2f}' for median in np.median(values[:, :2], axis=0)),
            *(f'{middle:.2f}', f'{low:.2f}', f'{high:.2f}'),
            f'{values[:, 3].mean():.1%}',
            f'{np.median(values[:, 4]):.2f}',
        )


def models(args: argparse.Namespace) -> None:
    """Prints the OPA of trees of one release's kernels on the times of each."""
    runs = times_of(args.folder)
    stores = {}
    for release, times in runs.items():
        places = [args.folder / 'kernels' / name for name in times]
        records = [xla_versions.record_of(place, release) for place in places]
        stores[release] = tile_store.TileStore.of_records(release, records)
    grower = kernel_kinds.Grower()
    early = np.array([kernel_kinds.is_early(graph) for graph in grower.graphs])
    everything = np.ones_like(early)
    kept = {'0.4.30': early, '0.12.0.1': ~early, 'both': everything}
    results.head('training kernels', *(f'OPA, {release}' for release in runs))
    for title, mask in kept.items():
        trees = grower.grow(mask, 0)
        cells = []
        for release, times in runs.items():
            table = tile_table.TreeTable(stores[release], trees.used)
            shares = []
            for scores, of in zip(scoring.scores(trees, table), times.values()):
                judge = np.array(of['halves'][1])
                right, pairs = metrics.ordered_pairs(scores[of['kept']], judge)
                shares.append(right / max(pairs, 1))
            cells.append(f'{np.mean(shares):.3f}')
        results.row(f'{title}: {mask.sum():,}', *cells)


def main() -> None:
    """Runs the command that the first argument names."""
    commands = {f.__name__: f for f in (prepare, measure, table, models)}
    parser = results.parser(__doc__)
    parser.add_argument('command', choices=commands)
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--kernels', type=int, default=225)
    parser.add_argument('--minutes', type=float, default=8.0)
    parser.add_argument('--seconds', type=float, default=3.0, help='of a kernel')
    parser.add_argument('--core', type=int, default=-1, help='of the measurements')
    args = parser.parse_args()
    commands[args.command](args)


if __name__ == '__main__':
    results.run(main)
