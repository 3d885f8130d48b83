"""How long until a saved run is as good as EarlyJoinSAGE ever gets with its own flags.

  python lab/benchmarks/time_to_quality.py --work ~/out/time_to_quality

Trains EarlyJoinSAGE with the published flags on the kernels that ship, and models that
need less, each in a process of its own; judges them on `by_others_real`, kernels of
other people's programs.  Seconds are from the start of the process to its end, by the
clock and of CPU; the last column is the share of EarlyJoinSAGE's CPU seconds.
Trainings that are in --work already are not repeated.
"""

import os

import numpy as np

from baselines.core import files
from benchmarks import results
from lab.benchmarks import judging
from lab.benchmarks import leaderboard

_REFERENCE = 'EarlyJoinSAGE, published flags'
_FLAGS: dict[str, tuple[str, ...]] = {
    _REFERENCE: (),
    '30 trees': (
        '--model=Trees',
        '--model_kwargs_json={"trees": 30, "learning_rate": 0.2, "num_leaves": 15}',
    ),
    '30 trees, 100 kernels': (
        '--model=Trees',
        '--model_kwargs_json={"trees": 30, "learning_rate": 0.2, "num_leaves": 15}',
        '--toy_data',
    ),
    '--model=Trees': ('--model=Trees',),
    '--recipe=strong': ('--recipe=strong', '--epochs=15'),
}


def main() -> None:
    """Trains what is missing and prints the table."""
    parser = results.parser(__doc__)
    parser.add_argument('--work', default='~/out/time_to_quality')
    args = parser.parse_args()
    part = leaderboard.parts('tile')[-1]
    results.head('model', 'seconds', 'CPU seconds', 'top-5 error', 'OPA', 'share')
    whole = None
    for name, flags in _FLAGS.items():
        run = os.path.join(files.expand(args.work), name.replace(' ', '_'))
        shared = ('--sample_data', '--test_mode=metrics')
        results.trained('tile', run, *flags, *shared)
        seconds, cpu = results.cost(run)
        whole = whole or cpu
        scores, _ = results.scores(results.run_of(run), part.root, part.graphs)
        figures = judging.figures('tile', part.graphs, scores)
        _, top_5, opa, *_ = np.mean(figures, axis=0)
        times = f'{seconds:.1f}', f'{cpu:.1f}'
        results.row(name, *times, f'{top_5:.1%}', f'{opa:.3f}', f'1/{whole / cpu:.0f}')


if __name__ == '__main__':
    results.run(main)
