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
import statistics
import tempfile

import results

from baselines import command_line
from baselines import config

_MODES = ('fullgraph', 'dropout', 'backpropdropout')
_KEEP_NODES, _EPOCHS = 500, 100


def main() -> None:
    """Trains each way and prints a table."""
    parser = results.parser(__doc__, record=True)
    parser.add_argument('--seeds', nargs='+', type=int, default=[0])
    args = parser.parse_args()
    command_line.start_tensorflow()
    print(
        f'xla:random of the simulated data, segments of {_KEEP_NODES} nodes, '
        f'{_EPOCHS} epochs\n'
    )
    names = 'outside the segment, cut, validation tau, test tau, processor time'
    results.head(*names.split(', '), 'drawn again after')
    rows = []
    for mode in _MODES:
        for cut in ('equal',) if mode == 'fullgraph' else ('equal', 'splits'):
            found = [train(mode, cut, seed) for seed in args.seeds]
            mean = {key: statistics.mean(f[key] for f in found) for key in found[0]}
            results.row(
                mode,
                '-' if mode == 'fullgraph' else cut,
                f'{mean["val"]:.3f}',
                f'{mean["test"]:.3f}',
                f'{mean["seconds"]:.0f} s',
                f'{mean["age"]:.0f} epochs',
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
    results.record(rows, args.record)


def train(mode: str, cut: str, seed: int):
    """One training; returns taus, seconds, and the mean age of a table."""
    from baselines.data.layout import sampling as layout_sampling
    from baselines.runs import saved

    with tempfile.TemporaryDirectory() as out_dir:
        settings = config.LayoutConfig(
            epochs=_EPOCHS,
            early_stop=_EPOCHS,
            lr=0.01,
            sampling='uniform',
            batch=4,
            configs=32,
            validation_configs=300,
            keep_nodes=_KEEP_NODES,
            segments=cut,
            model_kwargs_json=json.dumps({'dropout': mode}),
            seed=seed,
            sample_data=True,
            out_dir=out_dir,
            test_mode='metrics',
        )
        model_dir, seconds = results.train(settings)
        error = saved.load(model_dir).info['final_error']
        store = results.load(model_dir, sample_data=True).open_split('train')
    sampler = layout_sampling.ConfigSampler(store, settings.sampling)
    counts = sampler.counts[sampler.counts >= settings.configs]
    return {
        'val': error['val']['kendall_tau'],
        'test': error['test']['kendall_tau'],
        'seconds': seconds,
        'age': float((counts / settings.configs).mean()),
    }


if __name__ == '__main__':
    results.run(main)
