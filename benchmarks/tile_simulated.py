"""Trains the tile models on simulated kernels and tables their errors.

  python benchmarks/tile_simulated.py                      # all five, one seed
  python benchmarks/tile_simulated.py --seeds 0 1 2 --record

Default flags throughout; the table of the README comes from here.  Validation
and test programs are not in the training split.  The data are simulated: the
figures say how models compare on it, not what they reach on real kernels.
"""

import statistics
import tempfile

import results

from baselines import command_line
from baselines import config

_MODELS = ('EarlyJoinSAGE', 'EarlyJoinResGCN', 'LateJoinSAGE', 'LateJoinResGCN', 'MLP')
_MEASURES = ('top_1_error', 'top_5_error', 'top_10_error', 'opa')


def main() -> None:
    """Trains, measures and prints."""
    parser = results.parser(__doc__, record=True)
    parser.add_argument('--models', nargs='+', default=_MODELS)
    parser.add_argument('--seeds', nargs='+', type=int, default=[0])
    parser.add_argument('--epochs', type=int, default=config.TileConfig.epochs)
    args = parser.parse_args()
    command_line.start_tensorflow()
    names = 'model, top-1 error, top-5 error, top-10 error, OPA, test top-5 error'
    results.head(*names.split(', '), 'processor time')
    rows = []
    for model in args.models:
        found = [train_and_measure(model, seed, args.epochs) for seed in args.seeds]
        cells = [
            results.shown([f['valid'][m]['mean'] for f in found]) for m in _MEASURES
        ]
        tests = [f['test']['top_5_error']['mean'] for f in found]
        seconds = statistics.mean(f['seconds'] for f in found)
        results.row(model, *cells, results.shown(tests), f'{seconds:.0f} s')
        for f, seed in zip(found, args.seeds):
            of = f'{model}, seed {seed}'
            for split in ('valid', 'test'):
                figures = f[split]
                rows += [
                    (f'{of}: {split} {m}', figures[m]['mean'], '') for m in _MEASURES
                ]
            rows.append((f'{of}: processor time of training', f['seconds'], 's'))
    chances = [found[0]['valid'][m]['random'] for m in _MEASURES]
    chances.append(found[0]['test']['top_5_error']['random'])
    results.row('random choice', *(f'{chance:.3f}' for chance in chances), '')
    results.record(rows, args.record)


def train_and_measure(model: str, seed: int, epochs: int):
    """One training: its seconds, and what it reaches on unseen programs."""
    with tempfile.TemporaryDirectory() as out_dir:
        settings = config.TileConfig(
            model=model, seed=seed, epochs=epochs, out_dir=out_dir, sample_data=True
        )
        model_dir, seconds = results.train(settings)
        splits = {
            split: results.evaluate(model_dir, split, cache_dir=settings.cache_dir)
            for split in ('valid', 'test')
        }
    return {'seconds': seconds, **splits}


if __name__ == '__main__':
    results.run(main)
