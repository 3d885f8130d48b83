"""Errors of rare and common families of programs at several --family_temperature.

  python benchmarks/family_temperature.py --epochs 15 --seeds 0 1 2

Trains `--recipe=strong` on four fifths of the tile programs that ship (`--fold`), and
measures the others by how many kernels of their family were trained on.  Each
mean over kernels is followed by the standard deviation over seeds.  Trainings that are
in --work already are not repeated.
"""

import argparse
import collections
import os

import numpy as np
import results

from baselines.core import files
from baselines.data import families
from baselines.evaluation import metrics
from baselines.scoring import measuring

_TEMPERATURES = (1.0, 0.5, 0.0)
# Fewest kernels of a family that are trained on.
_SIZES = {'none': 0, 'rare': 1, 'medium': 30, 'common': 120}


def main() -> None:
    """Trains what is missing, and prints a row for each temperature and size."""
    parser = results.parser(__doc__)
    parser.add_argument('--epochs', type=int, default=15)
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--fold', default='1/5')
    parser.add_argument('--work', default='~/out/family_temperature')
    args = parser.parse_args()
    results.head(
        *('--family_temperature', 'family', 'kernels measured'),
        *('top-1 error', 'top-5 error', 'OPA'),
    )
    for temperature in _TEMPERATURES:
        by_size: dict[str, list[np.ndarray]] = collections.defaultdict(list)
        for seed in args.seeds:
            for size, rows in _figures(args, temperature, seed).items():
                by_size[size].append(np.array(rows))
        for size in _SIZES:
            if size in by_size:
                _row(temperature, size, by_size[size])


def _figures(
    args: argparse.Namespace, temperature: float, seed: int
) -> dict[str, list[list[float]]]:
    """Trains once; returns errors and OPA of the kernels measured, by family size."""
    name = '_'.join(
        [str(temperature), args.fold.replace('/', 'of'), str(args.epochs), str(seed)]
    )
    out_dir = os.path.join(files.expand(args.work), name)
    results.trained(
        *('tile', out_dir, '--recipe=strong', '--sample_data', f'--fold={args.fold}'),
        *(f'--epochs={args.epochs}', f'--seed={seed}'),
        f'--family_temperature={temperature}',
    )
    predictor = results.load(results.run_of(out_dir))
    trained_on = collections.Counter(
        map(_family, predictor.open_split('train').graph_ids)
    )
    found: dict[str, list[list[float]]] = collections.defaultdict(list)
    for graph in measuring.measure(predictor, 'valid')[1]:
        count = trained_on[_family(graph.graph_id)]
        size = [name for name, least in _SIZES.items() if count >= least][-1]
        correct, total = metrics.ordered_pairs(graph.scores, graph.runtimes)
        errors = [metrics.top_k_error(graph.scores, graph.runtimes, k) for k in (1, 5)]
        found[size].append([*errors, correct / max(total, 1)])
    return found


def _family(graph_id: str) -> str:
    """Returns the family of a kernel's program."""
    return families.find_family(families.find_program(graph_id))


def _row(temperature: float, size: str, by_seed: list[np.ndarray]) -> None:
    """Prints means over kernels, and their standard deviation over seeds."""
    means = np.stack([rows.mean(axis=0) for rows in by_seed])  # [seeds, figures]
    cells = [
        f'{mean:{form}} ± {spread:{form}}'
        for mean, spread, form in zip(
            means.mean(axis=0), means.std(axis=0), ('.1%', '.1%', '.3f')
        )
    ]
    results.row(f'{temperature:g}', size, str(len(by_seed[0])), *cells)


if __name__ == '__main__':
    results.run(main)
