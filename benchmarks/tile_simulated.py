"""Trains the tile models on simulated kernels and tables their errors.

  python benchmarks/tile_simulated.py                      # all five, one seed
  python benchmarks/tile_simulated.py --seeds 0 1 2 --record

Default flags throughout; the table of the README comes from here.  Validation
and test programs are not in the training split.  The data are simulated: the
figures say how models compare on it, not what they reach on real kernels.
"""

import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import results

from baselines import command_line
from baselines import config

_MODELS = ('EarlyJoinSAGE', 'EarlyJoinResGCN', 'LateJoinSAGE', 'LateJoinResGCN', 'MLP')
_MEASURES = ('top_1_error', 'top_5_error', 'top_10_error', 'opa')


def main() -> int:
    """Trains, measures and prints."""
    parser = results.parser(__doc__, record=True)
    parser.add_argument('--models', nargs='+', default=_MODELS)
    parser.add_argument('--seeds', nargs='+', type=int, default=[0])
    parser.add_argument('--epochs', type=int, default=config.TileConfig.epochs)
    args = parser.parse_args()
    command_line.start_tensorflow()
    print(
        '| model | top-1 error | top-5 error | top-10 error | OPA '
        '| test top-5 error | processor time |'
    )
    print('|---|---|---|---|---|---|---|')
    rows, chance = [], None
    for model in args.models:
        found = [train_and_measure(model, seed, args.epochs) for seed in args.seeds]
        chance = found[0]['random']
        cells = [shown([f['valid'][m] for f in found]) for m in _MEASURES]
        cells.append(shown([f['test']['top_5_error'] for f in found]))
        seconds = statistics.mean(f['seconds'] for f in found)
        print(f'| {model} | {" | ".join(cells)} | {seconds:.0f} s |', flush=True)
        for f, seed in zip(found, args.seeds):
            for split in ('valid', 'test'):
                rows += [
                    (f'{model}, seed {seed}: {split} {m}', f[split][m], '')
                    for m in _MEASURES
                ]
            rows.append(
                (f'{model}, seed {seed}: processor time of training', f['seconds'], 's')
            )
    cells = [f'{chance[m]:.3f}' for m in _MEASURES]
    print(f'| random choice | {" | ".join(cells)} | {chance["test"]:.3f} | |')
    if args.record:
        results.record(rows)
    return 0


def shown(values, form: str = '.3f') -> str:
    """A mean, with the range over seeds where there are several."""
    mean = format(statistics.mean(values), form)
    if len(values) == 1:
        return mean
    return f'{mean} ({format(min(values), form)} to {format(max(values), form)})'


def train_and_measure(model: str, seed: int, epochs: int):
    """One training; errors on unseen programs, and those of random choice."""
    from baselines.tasks import jobs
    from baselines.tasks import prediction

    with tempfile.TemporaryDirectory() as out_dir:
        settings = config.TileConfig(
            model=model, seed=seed, epochs=epochs, out_dir=out_dir, sample_data=True
        )
        model_dir, seconds = results.train(settings)
        found = {'seconds': seconds, 'random': {}}
        data = prediction.DataOptions('', settings.cache_dir)
        for split in ('valid', 'test'):
            overall = jobs.evaluate(model_dir, data, split=split)['overall']
            found[split] = {m: overall[m]['mean'] for m in _MEASURES}
            if split == 'valid':
                found['random'] = {m: overall[m]['random'] for m in _MEASURES}
            else:
                found['random']['test'] = overall['top_5_error']['random']
    return found


if __name__ == '__main__':
    sys.exit(command_line.guarded(main))
