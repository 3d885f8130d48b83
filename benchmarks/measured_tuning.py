"""Counts false claims of `tpugraphs tune`, and replays its searches.

  python benchmarks/measured_tuning.py --null 20       # false claims, of 20 kernels
  python benchmarks/measured_tuning.py --share         # the gain of searches
  python benchmarks/measured_tuning.py --records FILE  # the same, on own records

For --null every candidate is the default compiled once more, so that each claim is
false.  --share replays searches on shipped kernels of families that no model was
trained on: half of the passes is what a search measures, the other half judges.
--records replays searches without a model on the kernels of a file of tuning records,
or of a folder of such files.
"""

import collections
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import judging
import numpy as np
import results

from baselines.core import starting
from baselines.core import text
from baselines.data.tile import records
from baselines.hlo import config_text
from tpugraphs.clock import session as session_lib
from tpugraphs.collect import random_programs
from tpugraphs.kernels import choices
from tpugraphs.kernels import tile_choices
from tpugraphs.records import machine_records
from tpugraphs.records import records as tuning_records
from tpugraphs.records import tables
from tpugraphs.tuning import budget
from tpugraphs.tuning import kernel_search
from tpugraphs.tuning import search

_CANDIDATES = 10


def main() -> None:
    """Measures and prints."""
    parser = results.parser(__doc__)
    parser.add_argument('--null', type=int, default=0, metavar='KERNELS')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--share', action='store_true')
    parser.add_argument('--records', default='', metavar='FILE')
    parser.add_argument('--core', type=int, default=-1)
    args = parser.parse_args()
    if args.share:
        share(args.seed)
    if args.records:
        share_of_records(args.records, args.seed)
    if args.null:
        starting.start_tensorflow()
        false_claims(args.null, args.seed, args.core)


def false_claims(count: int, seed: int, core: int) -> None:
    """Tunes kernels among copies of their default and counts what is claimed."""
    rng = np.random.default_rng(seed)
    claimed = done = 0
    with session_lib.Session(core) as session:
        for name in random_programs.names(count, seed):
            program = random_programs.load(name)
            skipped = collections.Counter()
            cut = choices.kernels_of(program, 'tile', session, set(), skipped)
            if not cut:
                continue
            kernel = cut[rng.integers(len(cut))]
            tuned = _of_copies(kernel, session, seed)
            claimed += tuned.claimed
            done += 1
            tried = ' '.join(f'{number:.3f}' for number in tuned.tried)
            null = ' '.join(f'{number:.3f}' for number in tuned.null)
            print(f'{kernel.name} claimed {tuned.claimed} best {tried} null {null}')
    print(f'{claimed} false claims of {done}')


def _of_copies(kernel, session, seed: int) -> kernel_search.Found:
    candidates = tile_choices.candidates_of(kernel, np.random.default_rng(0), 2)
    default = candidates.configs[0]
    copies = tile_choices.Candidates(
        [default] * (1 + _CANDIDATES), lambda _: candidates.module(0)
    )
    return kernel_search.tune(
        kernel,
        copies,
        lambda times, *_: [i for i in range(1, 1 + _CANDIDATES) if i not in times],
        session,
        _CANDIDATES,
        seed,
        machine_records.MachineRecords(),
        budget.Budget(),
        distinct=False,
    )


class Kernel(NamedTuple):
    """A measured kernel.

    Attributes:
        halves: nanoseconds [2, configurations], the default first.
        columns: float [configurations, d], of `tile_choices.columns`.
        places: int [configurations], where scores of them stand.
    """

    halves: np.ndarray
    columns: np.ndarray
    places: np.ndarray


def share(seed: int) -> None:
    """Replays tuning on the kernels that ship to be tested on; prints a table."""
    parts = {
        'test': judging.load('tile', 'test'),
        'by_others': judging.load('by_others'),
        'by_others_real': judging.load('by_others_real'),
    }
    rng = np.random.default_rng(seed)
    results.head('', *parts)
    flat = judging.FlatTrees(seed)
    rows: dict[str, list[str]] = {}
    for graphs in parts.values():
        kernels = [kernel_of(graph) for graph in graphs]
        kinds = {
            'the estimate': judging.of_the_estimate(graphs),
            'trees': flat.scores(graphs),
        }
        for title, cell in _shares(kernels, kinds, rng):
            rows.setdefault(title, []).append(cell)
    for title, cells in rows.items():
        results.row(title, *cells)


def kernel_of(graph: judging.Graph) -> Kernel:
    """Reads the configurations of a measured kernel."""
    others = np.delete(np.arange(graph.halves.shape[1]), graph.default)
    places = np.array([graph.default, *others])
    features = records.read_tile(graph.path).config_feat[places]
    rows = map(config_text.tile_row_json, features)
    described = [
        {'output': row['output_bounds'], 'kernel': row['kernel_bounds']} for row in rows
    ]
    columns = tile_choices.columns(described)
    return Kernel(graph.halves[:, places], columns, places)


def share_of_records(path: str, seed: int) -> None:
    """Replays tuning without a model on the kernels on record and prints a table.

    Raises:
        ValueError: no kernel has three configurations that were timed together.
        OSError: a file cannot be read.
    """
    kernels = []
    measurements = tables.load(tables.paths_of(path))
    for kernel in tuning_records.by_kernel(measurements).values():
        together = max(_groups(kernel), key=len, default=[])
        if len(together) > 2:
            passes = np.array([m.times_ns for m in together]).T
            halves = np.array([passes[half::2].min(0) for half in (0, 1)])
            described = [m.configuration for m in together]
            columns = tile_choices.columns(described)
            kernels.append(Kernel(halves, columns, np.arange(len(described))))
    if not kernels:
        raise ValueError(f'{path}: no kernel with three tiles that were timed together')
    results.head('', text.count(len(kernels), 'kernel'))
    for title, cell in _shares(kernels, {}, np.random.default_rng(seed)):
        results.row(title, cell)


def _groups(kernel: tuning_records.History) -> list[list[tuning_records.Measurement]]:
    """Returns the measurements of the same passes, the default first."""
    groups = collections.defaultdict(list)
    for measurement in kernel.measurements:
        if len(measurement.times_ns) > 1:
            passes = len(measurement.times_ns)
            groups[measurement.group, passes].append(measurement)
    ordered = [sorted(group, key=lambda m: not m.default) for group in groups.values()]
    return [group for group in ordered if group[0].default]


def _shares(
    kernels: Sequence[Kernel],
    kinds: dict[str, judging.Scores],
    rng: np.random.Generator,
) -> Iterator[tuple[str, str]]:
    """Yields searches, and what each gains of what there is to gain.

    Args:
        kernels: to tune.
        kinds: the scores that models give.
        rng: of random search.
    """
    drawn = [rng.random(kernel.halves.shape[1]) for kernel in kernels]
    for name, scores in {'random': drawn, **kinds}.items():
        for rounds in (1, 3):
            blind = name == 'random'
            replayed = [
                replay(kernel, score, rounds, blind)
                for kernel, score in zip(kernels, scores)
            ]
            gain, best = np.exp(np.mean(replayed, axis=0))
            part = f'{(gain - 1) / (best - 1):.0%}' if best > 1 else 'nothing to gain'
            title = 'no model' if blind and rounds > 1 else name
            yield (
                f'{title}, {text.count(rounds, "round")}',
                f'{gain:.2f} of {best:.2f}: {part}',
            )


def replay(
    kernel: Kernel, scores: np.ndarray, rounds: int, blind: bool = False
) -> tuple[float, float]:
    """Returns the log speed-up of what tuning comes to, and of the best.

    Args:
        kernel: that was measured.
        scores: float [configurations], lower = faster, in the order of the file.
        rounds: 1 to measure those with the lowest scores, more as `tune` does it.
        blind: whether later rounds do not know the scores.
    """
    scores = scores[kernel.places]
    search_times, judge = (np.log(half / half[0]) for half in kernel.halves)
    order = [int(i) for i in np.argsort(scores, kind='stable') if i]
    measured = {0: 0.0, **{i: search_times[i] for i in order[:_CANDIDATES]}}
    if rounds > 1:
        known = None if blind else scores
        measured = {0: 0.0}
        for count in kernel_search.rounds_of(_CANDIDATES):
            proposed = search.propose(kernel.columns, known, measured, [], count)
            measured.update((i, search_times[i]) for i in proposed)
    return -judge[min(measured, key=measured.get)], -judge[int(search_times.argmin())]


if __name__ == '__main__':
    results.run(main)
