"""Judges the recipe for layouts on measured programs of TPUs.

  python benchmarks/real_layouts.py
  python benchmarks/real_layouts.py --data PROGRAM.npz ... --seeds 0 1 2

`within`: trained on 1,000 measurements of a program's configurations, or on half of
them where that is less, and judged by the others; all measurements of a configuration
are on one side.  `across`: trained on the twelve simulated programs in TPU format of
../shared/data/tpu_format, and judged by all measurements.  Figures are Kendall's tau,
with the standard deviation over seeds.  Below are 95 % intervals of what trees and both
have more than the formula: configurations are drawn again, with all measurements of
them.  `again` is the tau of two measurements of one configuration, `limit` that of a
model that knows the runtimes without noise.  By default the programs are those in
../shared/data/real.  A program with fewer than 20 different configurations is left out.
Trainings that are in --work already are not repeated.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import glob
import os

import numpy as np
import results

from baselines.core import files
from baselines.core import text
from baselines.data.layout import records
from baselines.data.layout import store as layout_store
from baselines.evaluation import metrics
from baselines.evaluation import noise
from baselines.layout import estimate
from tests.helpers import layout_files
from tests.helpers import places

_REAL = places.SHARED / 'real' / 'npz' / 'layout'
_SIMULATED = places.SHARED / 'tpu_format' / 'layout'
_TRAINED_ON = 1000
_VALIDATED = 0.2  # of these
_FEWEST = 20  # different configurations
_PROTOCOLS = ('within', 'across')
_ROWS = ('random', 'formula', 'graph model', 'trees', 'both')
_COMPARED = ('trees', 'both')  # with the formula
_LIMITS = ('again', 'limit')
_DRAWS = 500

# A tau, an interval [2], or None where nothing was measured twice.
_Figure = float | np.ndarray | None


def main() -> None:
    """Trains what is missing, and prints a column for each program and protocol."""
    parser = results.parser(__doc__)
    parser.add_argument('--data', nargs='+', metavar='NPZ', default=_shared())
    parser.add_argument('--epochs', type=int, default=300, help='most of a training')
    parser.add_argument('--seeds', type=int, nargs='+', default=[0])
    parser.add_argument('--work', default='~/out/real_layouts')
    args = parser.parse_args()
    columns: dict[str, list[dict[str, _Figure]]] = {}
    for path in args.data:
        record = _read(path)
        different = len(np.unique(_groups(record)))
        if not record.config_runtime.any() or different < _FEWEST:
            text.note(
                f'{path} is left out: it has no runtimes, or fewer than {_FEWEST} '
                f'different configurations ({different})'
            )
            continue
        for protocol in _PROTOCOLS:
            name = f'{record.graph_id} of {_collection(path)}, {protocol}'
            columns[name] = [
                _judged(args, path, record, protocol, seed) for seed in args.seeds
            ]
    results.head('', *columns)
    for row in (*_ROWS, *map(_less_formula, _COMPARED), *_LIMITS):
        cells = ([one[row] for one in by_seed] for by_seed in columns.values())
        results.row(row, *map(_cell, cells))


def _shared() -> list[str]:
    """Returns the shared programs with runtimes, if they are there."""
    pattern = os.path.join(str(_REAL), '*', '*', '*', '*.npz')
    return sorted(path for path in glob.glob(pattern) if '/test/' not in path)


def _collection(path: str) -> str:
    """Returns <source>:<search> of a file in the folders of the published data."""
    return ':'.join(os.path.abspath(path).split(os.sep)[-4:-2])


def _read(path: str) -> records.LayoutRecord:
    """Reads a program with all of its configurations."""
    program = records.read_program(path)
    features = np.concatenate(list(records.read_configs(path, program)))
    return dataclasses.replace(program, node_config_feat=features)


def _groups(record: records.LayoutRecord) -> np.ndarray:
    """Returns numbers of configurations, equal for equal ones: int [c]."""
    store = layout_store.LayoutStore.from_records('', [record])
    return store.part('config_group', 0)


def _chosen(record: records.LayoutRecord, rows: np.ndarray) -> records.LayoutRecord:
    """Returns a program with some of its configurations."""
    return dataclasses.replace(
        record,
        node_config_feat=record.node_config_feat[rows],
        config_runtime=record.config_runtime[rows],
    )


def _parts(
    record: records.LayoutRecord, seed: int
) -> Iterator[tuple[str, records.LayoutRecord]]:
    """Yields train, valid and test of a program's own configurations."""
    group = _groups(record)
    numbers, sizes = np.unique(group, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(numbers))
    place = np.empty(len(numbers))  # where in this order a group's measurements end
    place[order] = np.cumsum(sizes[order])
    most = min(_TRAINED_ON, len(group) // 2)
    ends = [0, most * (1 - _VALIDATED), most, np.inf]
    for split, low, high in zip(('train', 'valid', 'test'), ends, ends[1:]):
        inside = (place[group] > low) & (place[group] <= high)
        yield split, _chosen(record, np.flatnonzero(inside))


def _judged(
    args: argparse.Namespace,
    path: str,
    record: records.LayoutRecord,
    protocol: str,
    seed: int,
) -> dict[str, _Figure]:
    """Trains the recipe, if that is not done; returns the figures of each row."""
    judged, root, name = record, str(_SIMULATED), 'across'
    if protocol == 'within':
        name = f'{record.graph_id}_{_collection(path).replace(":", "_")}'
        parts = dict(_parts(record, seed))
        judged = parts['test']
    out_dir = os.path.join(files.expand(args.work), f'{name}_{args.epochs}_{seed}')
    if protocol == 'within':
        root = os.path.join(out_dir, 'data')
        for split, part in parts.items():
            folder = os.path.join(root, 'xla', 'random', split)
            layout_files.write_split(folder, [part])
    results.trained(
        *('layout', out_dir, '--recipe=strong', f'--data_root={root}'),
        *(f'--cache_dir={out_dir}/cache', f'--epochs={args.epochs}', f'--seed={seed}'),
    )
    predictor = results.load(results.run_of(out_dir))
    store = layout_store.LayoutStore.from_records('', [judged])
    # Both, also where the formula scores alone.
    models = dataclasses.replace(
        predictor.scorer, weights=None, most_multiply_adds=None
    )
    [members] = models.members(store, predictor.scorer.graphs(store))
    scores = {
        'random': np.random.default_rng(seed).random(judged.num_configs),
        'formula': estimate.estimate(store, 0),
        'graph model': members[0],
        'trees': members[1],
        'both': predictor.score_record(judged),
    }
    runtimes, groups = judged.config_runtime, store.part('config_group', 0)
    repeated = noise.estimate_noise(runtimes, groups)
    return {
        **{row: metrics.kendall_tau(each, runtimes) for row, each in scores.items()},
        **_intervals(scores, runtimes, groups),
        'again': repeated and repeated.tau_twice,
        'limit': repeated and repeated.tau_ceiling,
    }


def _less_formula(row: str) -> str:
    """Returns the name of the row with what another one has more than the formula."""
    return f'{row} - formula'


def _intervals(
    scores: Mapping[str, np.ndarray], runtimes: np.ndarray, groups: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns 95 % intervals of differences of tau, float [2], by row.

    Args:
        scores: by row, [c].
        runtimes: [c].
        groups: numbers of configurations, equal for equal ones: int [c].
    """
    rng = np.random.default_rng(0)
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    gains = []
    for _ in range(_DRAWS):
        drawn = rng.integers(len(members), size=len(members))
        rows = np.concatenate([members[i] for i in drawn])
        formula, *others = (
            metrics.kendall_tau(scores[name][rows], runtimes[rows])
            for name in ('formula', *_COMPARED)
        )
        gains.append([tau - formula for tau in others])
    ends = np.percentile(gains, [2.5, 97.5], axis=0)  # [2, compared]
    return dict(zip(map(_less_formula, _COMPARED), ends.T))


def _cell(figures: Sequence[_Figure]) -> str:
    """Returns a mean and the deviation over several seeds, or an interval, as text."""
    taus = [figure for figure in figures if figure is not None]
    if not taus:
        return ''
    if isinstance(taus[0], np.ndarray):
        low, high = np.mean(taus, axis=0)
        return f'{low:+.3f} to {high:+.3f}'
    spread = f' ± {np.std(taus):.3f}' if len(taus) > 1 else ''
    return f'{np.mean(taus):.3f}{spread}'


if __name__ == '__main__':
    results.run(main)
