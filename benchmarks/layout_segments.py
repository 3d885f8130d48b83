"""Segments in layout training: three ways to use them, compared on simulated data.

  python benchmarks/layout_segments.py           # about five minutes
  python benchmarks/layout_segments.py --record

Graph Segment Training (arXiv 2305.12322) passes gradients through one segment
of a program per step.  What the other segments contribute may be left out
(`dropout`), computed afresh without gradient (`backpropdropout`: historical
embeddings of age 0), or computed with gradient (`fullgraph`: no segments).

A table of older embeddings would save the computation without gradient, but an
entry belongs to one program, segment *and configuration*.  The last column says
after how many epochs a drawn configuration is drawn again on average: that is
the age at which a table would be read.
"""

import json
import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import results

from baselines import command_line
from baselines import config

_MODES = ('fullgraph', 'dropout', 'backpropdropout')


def main() -> int:
    """Trains each way and prints a table."""
    parser = results.parser(__doc__, record=True)
    parser.add_argument('--source', default='xla', choices=('xla', 'nlp'))
    parser.add_argument('--search', default='random', choices=('random', 'default'))
    parser.add_argument('--keep_nodes', type=int, default=500)
    parser.add_argument('--epochs', type=int, default=100)
    parser.add_argument('--lr', type=float, default=0.01)
    parser.add_argument('--seeds', nargs='+', type=int, default=[0])
    args = parser.parse_args()
    command_line.start_tensorflow()
    print(
        f'{args.source}:{args.search} of the simulated data, segments of '
        f'{args.keep_nodes} nodes, {args.epochs} epochs\n'
    )
    print(
        '| outside the segment | cut | validation tau | test tau | processor time '
        '| drawn again after |'
    )
    print('|---|---|---|---|---|---|')
    rows = []
    for mode in _MODES:
        for cut in ('equal',) if mode == 'fullgraph' else ('equal', 'splits'):
            found = [train(args, mode, cut, seed) for seed in args.seeds]
            mean = {key: statistics.mean(f[key] for f in found) for key in found[0]}
            print(
                f'| {mode} | {"-" if mode == "fullgraph" else cut} '
                f'| {mean["val"]:.3f} | {mean["test"]:.3f} '
                f'| {mean["seconds"]:.0f} s | {mean["age"]:.0f} epochs |',
                flush=True,
            )
            rows += [
                (f'{mode}, {cut}: {key}', value, unit)
                for key, value, unit in (
                    ('validation tau', mean['val'], ''),
                    ('test tau', mean['test'], ''),
                    ('processor time', mean['seconds'], 's'),
                    ('a configuration is drawn again after', mean['age'], 'epochs'),
                )
            ]
    if args.record:
        results.record(rows)
    return 0


def train(args, mode: str, cut: str, seed: int):
    """One training; returns taus, seconds, and the mean age of a table."""
    from baselines.data.layout import sampling as layout_sampling
    from baselines.tasks import jobs
    from baselines.tasks import prediction
    from baselines.training import runs

    with tempfile.TemporaryDirectory() as out_dir:
        settings = config.LayoutConfig(
            source=args.source,
            search=args.search,
            epochs=args.epochs,
            early_stop=args.epochs,
            lr=args.lr,
            sampling='uniform',
            batch=4,
            configs=32,
            validation_configs=300,
            keep_nodes=args.keep_nodes,
            segments=cut,
            model_kwargs_json=json.dumps({'dropout': mode}),
            seed=seed,
            sample_data=True,
            out_dir=out_dir,
            test_mode='metrics',
        )
        model_dir, seconds = results.train(settings)
        error = runs.load(model_dir).info['final_error']
        data = prediction.DataOptions(sample_data=True)
        store = jobs.load_predictor(model_dir, data).open_split('train')
    sampler = layout_sampling.ConfigSampler(store, settings.sampling)
    counts = sampler.counts[sampler.counts >= settings.configs]
    return {
        'val': error['val']['kendall_tau'],
        'test': error['test']['kendall_tau'],
        'seconds': seconds,
        'age': float((counts / settings.configs).mean()),
    }


if __name__ == '__main__':
    sys.exit(command_line.guarded(main))
