"""Do two releases of XLA rank the tiles of a kernel alike, and do models carry over?

  PYTHON benchmarks/two_releases.py prepare FOLDER --kernels 540           # with each
  PYTHON benchmarks/two_releases.py prepare FOLDER --kernels 330 --small   # release
  PYTHON benchmarks/two_releases.py measure FOLDER --minutes 14            # with each
  python lab/benchmarks/two_releases.py table FOLDER
  python lab/benchmarks/two_releases.py models FOLDER

`prepare` writes kernels of random programs of the families that the archive validates
and tests on, as the installed release cuts them, each untiled and with random tiles:
the same modules for every release.  `measure` times them.  `table` prints Kendall's tau
between the times of the two releases, next to that between halves of one release's
passes.  `models` grows trees as `kernel_kinds.py` does on the archive's training
kernels of one release, or all, and judges them on the times of each.
"""

import argparse
import collections
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
import json
import pathlib
import time
from typing import Any

import numpy as np
import tqdm

import baselines
from baselines.data import families
from baselines.data import hardware
from baselines.data.tile import store as tile_store
from baselines.evaluation import metrics
from baselines.features import tree_table
from baselines.trees import tree_scores
from benchmarks import results
from lab.benchmarks import judging
from lab.benchmarks import kernel_kinds
from lab.benchmarks import time_saved
from lab.benchmarks import xla_versions
from tpugraphs_lab.kernels import preparation
from tpugraphs_lab.kernels import tile_choices
from tpugraphs_lab.measure import collection
from tpugraphs_lab.measure import collection_folder
from tpugraphs_lab.measure import drawing
from tpugraphs_lab.measure import random_programs
from tpugraphs_lab.measure.clock import session as session_lib
from tpugraphs_lab.measure.clock import timing

_SEED = 41
_SMALL_SEED = 42  # of programs whose sizes are those of the smallest
_PER_PROGRAM = 3  # kernels, drawn as `collect --kernels` does
_FEWEST = 4  # configurations of a kernel


def prepare(args: argparse.Namespace) -> None:
    """Writes kernels as the installed release cuts them: modules and configurations."""
    release = baselines.version('jaxlib')
    options = collection_folder.CollectionOptions('', kernels=_PER_PROGRAM, seed=_SEED)
    skipped: collections.Counter[str] = collections.Counter()
    seed, largest = (_SMALL_SEED, 1) if args.small else (_SEED, drawing.LARGEST)
    programs = random_programs.random_names(
        args.kernels // _PER_PROGRAM, seed, _untrained()
    )
    written = 0
    with session_lib.Session(args.cores[0]) as session:
        for name in tqdm.tqdm(programs, mininterval=10):
            program = random_programs.load_random(name, largest=largest)
            module = preparation.optimise(program, session.optimise)
            kernels = tile_choices.kernels_of(module, name, set(), skipped)
            for kernel in collection.draw_kernels(kernels, options):
                place = args.folder / 'kernels' / f'{release}_{kernel.name}'
                rng = np.random.default_rng(_SEED)
                written += xla_versions.write(place, kernel, rng, fewest=_FEWEST)
    print(f'{written} kernels of {release}')


def _untrained() -> list[str]:
    """Returns the families of random programs that the archive does not train on."""
    names = {
        families.find_family(graph.program).removeprefix('random_')
        for graph in judging.load('tile')
        if graph.split != 'train' and graph.program.startswith('random_')
    }
    return sorted(name.removesuffix('_seed') for name in names)


def measure(args: argparse.Namespace) -> None:
    """Times the kernels with the installed release, in an order that is the same.

    Kernels that were timed before with enough configurations keep their times.
    """
    release = baselines.version('jaxlib')
    places = sorted((args.folder / 'kernels').iterdir())
    order = np.random.default_rng(_SEED).permutation(len(places))
    path = args.folder / f'{args.name or release}.json'
    times = json.loads(path.read_text()) if path.exists() else {}
    todo = collections.deque(
        place
        for place in (places[number] for number in order)
        if not _is_enough(times.get(place.name))
    )
    ends = time.monotonic() + args.minutes * 60

    def time_on(core: int) -> None:
        """Times what is left to do, on one core."""
        with session_lib.Session(core) as session:
            while todo and time.monotonic() < ends:
                share = (ends - time.monotonic()) * len(args.cores) / len(todo)
                protocol = timing.Protocol(
                    *(timing.LARGE_PASSES, 12, min(args.seconds, share)),
                    compiling=4 * args.seconds,
                    least_configs=_FEWEST,
                )
                place = todo.popleft()
                measured = xla_versions.timed(session, place, protocol)
                if measured is not None:
                    halves = [measured.passes[h::2].min(0).tolist() for h in (0, 1)]
                    times[place.name] = {'kept': measured.kept, 'halves': halves}

    with futures.ThreadPoolExecutor(len(args.cores)) as pool:
        list(pool.map(time_on, args.cores))
    path.write_text(json.dumps(times))
    print(f'{len(times)} of {len(places)} kernels with {release}')


def _is_enough(times: dict[str, Any] | None) -> bool:
    """Returns whether a kernel was timed, with enough configurations to rank."""
    return times is not None and len(times['kept']) >= _FEWEST


def times_of(folder: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Returns release -> kernel -> its measurement, the earlier release first."""
    paths = folder.glob('*.json')
    runs = {path.stem: json.loads(path.read_text()) for path in paths}
    return dict(sorted(runs.items(), key=lambda run: hardware.parse_release(run[0])))


def table(args: argparse.Namespace) -> None:
    """Prints how alike two releases rank, by the kernels' time with the later one."""
    first, second = times_of(args.folder).values()

    def groups_of(name: str) -> tuple[str, str]:
        cut_with = name.partition('_')[0]
        sizes = 'small' if f'_seed{_SMALL_SEED}_' in name else 'real'
        return f'{sizes} sizes', f'cut with {cut_with}'

    print_agreement(first, second, groups_of)


def print_agreement(
    first: dict[str, Any],
    second: dict[str, Any],
    groups_of: Callable[[str], Sequence[str]] = lambda name: (),
) -> None:
    """Prints how alike two runs rank, by groups and by the time in the second one.

    Args:
        first: kernel -> its measurement.
        second: as `first`.
        groups_of: name of a kernel -> the groups that it is in.
    """
    rows: dict[str, list[list[float]]] = {}
    for name, _, a, b in pairs_of(first, second):
        size = time_saved.size_class(b[0].min())
        # What choosing the best tile of one run costs in the other.
        loss = b[a.min(1).argmin()].min() / b.min() - 1
        row = [
            judging.tau_of(*a.T),
            judging.tau_of(*b.T),
            # Of halves, so that noise is that of the columns before.
            judging.tau_of(a[:, 0], b[:, 1]),
            loss,
            a[0].min() / b[0].min(),
        ]
        for group in ('all', *groups_of(name), size):
            rows.setdefault(group, []).append(row)
    results.head(
        'kernels', 'number', 'tau between halves, first', 'tau between halves, second',
        'tau between the two: median', 'lowest tenth', 'highest tenth',
        'slowdown with the first one\'s fastest: mean', 'default, first / second',
    )  # fmt: skip
    named = sorted(rows.keys() - {'all', *time_saved.SIZE_CLASSES})
    for group in ('all', *named, *time_saved.SIZE_CLASSES):
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


def pairs_of(
    first: dict[str, Any], second: dict[str, Any]
) -> Iterator[tuple[str, list[int], np.ndarray, np.ndarray]]:
    """Yields kernels that two runs have timed, and their nanoseconds in both.

    Nanoseconds are [configurations, 2], of halves of the passes and of configurations
    that both have timed, whose numbers come before; the untiled one is the first.
    """
    for name in sorted(first.keys() & second.keys()):
        one, two = (dict(zip(t['kept'], np.transpose(t['halves'])))
                    for t in (first[name], second[name]))  # fmt: skip
        both = [index for index in one if index in two]
        if len(both) >= _FEWEST:
            a, b = (np.array([t[index] for index in both]) for t in (one, two))
            yield name, both, a, b


def models(args: argparse.Namespace) -> None:
    """Prints the OPA of trees of one release's kernels on the times of each."""
    runs = {
        release: {name: of for name, of in times.items() if _is_enough(of)}
        for release, times in times_of(args.folder).items()
    }
    stores = {}
    for release, times in runs.items():
        places = [args.folder / 'kernels' / name for name in times]
        records = [xla_versions.record_of(place, release) for place in places]
        stores[release] = tile_store.TileStore.from_records(release, records)
    grower = kernel_kinds.Grower()
    early = np.array([kernel_kinds.is_early(graph) for graph in grower.graphs])
    everything = np.ones_like(early)
    kept = {'0.4.30': early, '0.12.0.1': ~early, 'both': everything}
    results.head('training kernels', *(f'OPA, {release}' for release in runs))
    for title, mask in kept.items():
        trees = grower.grow(mask, 0)
        cells = []
        for release, times in runs.items():
            table = tree_table.TreeTable(stores[release], trees.used)
            shares = []
            for scores, of in zip(tree_scores.scores(trees, table), times.values()):
                judge = np.array(of['halves'][1])
                right, pairs = metrics.ordered_pairs(scores[of['kept']], judge)
                shares.append(right / max(pairs, 1))
            cells.append(f'{np.mean(shares):.3f}')
        results.row(f'{title}: {mask.sum():,}', *cells)
    print(', '.join(f'{len(times)} kernels of {r}' for r, times in runs.items()))


def main() -> None:
    """Runs the command that the first argument names."""
    commands = {f.__name__: f for f in (prepare, measure, table, models)}
    parser = results.parser(__doc__)
    parser.add_argument('command', choices=commands)
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--kernels', type=int, default=225)
    parser.add_argument('--small', action='store_true', help='programs of least size')
    parser.add_argument('--minutes', type=float, default=8.0)
    parser.add_argument('--seconds', type=float, default=3.0, help='of a kernel')
    parser.add_argument('--cores', type=int, nargs='+', default=[-1], help='to time on')
    parser.add_argument('--name', default='', help='of the times, not the release')
    args = parser.parse_args()
    commands[args.command](args)


if __name__ == '__main__':
    results.run(main)
