"""Trains on frozen data in TPU formats: is anything spoilt that is computed for them?

  python benchmarks/tpu_format.py              # a few minutes of a core
  python benchmarks/tpu_format.py --data tile

What ships was measured on CPUs.  Kernels and programs with the registers, layouts and
numbers of configurations of a TPU lie in ../shared/data/tpu_format, with runtimes of
formulas: they say nothing of quality, but a change that was made for CPUs shows here.
The second line of each row has the figures of commit 1d1331e, which made the data;
--recipe=strong, 40 epochs, seed 0, on test.  The third, of `layout`, is of a measured
program of a TPU that nothing was trained on.  Skips where the folder is not there.
"""

from collections.abc import Mapping, Sequence
import os
import tempfile
from typing import Any

import results

from baselines import config
from baselines import recipes
from baselines.core import starting
from baselines.scoring import measuring
from tests.helpers import places

_ROOT = places.SHARED / 'tpu_format'
_REAL = places.SHARED / 'real' / 'npz' / 'layout'
_EPOCHS = 40
_MEASURES = {
    'tile': ('top_1_error', 'top_5_error', 'opa', 'kendall_tau'),
    'layout': ('slowdown_1', 'slowdown_10', 'kendall_tau'),
}
_SETTINGS = {
    'tile': {},
    'tile_other': {},
    'layout': {'source': 'xla', 'search': 'random'},
    'layout_nlp': {'source': 'nlp', 'search': 'random'},
}
_FOLDERS = {'layout_nlp': 'layout'}
# '' is the recipe's own.
_MODELS = {'tile': ('', 'Trees'), 'layout': ('',)}
_THEN = {
    ('tile', ''): (0.039, 0.007, 0.936, 0.871),
    ('tile', 'Trees'): (0.041, 0.012, 0.923, 0.847),
    ('tile_other', ''): (0.059, 0.002, 0.894, 0.788),
    ('tile_other', 'Trees'): (0.028, 0.006, 0.882, 0.764),
    ('layout', ''): (1.0033, 1.0015, 0.336),
    ('layout_nlp', ''): (1.0100, 1.0008, 0.415),
}


def main() -> None:
    """Trains, and prints figures of now and then."""
    parser = results.parser(__doc__)
    parser.add_argument('--data', nargs='+', default=list(_SETTINGS), choices=_SETTINGS)
    args = parser.parse_args()
    if not _ROOT.is_dir():
        print(f'skipped: {_ROOT} is not there')
        return
    starting.start_tensorflow()
    for name in args.data:
        task = name.partition('_')[0]
        results.head(name, 'commit', *_MEASURES[task])
        for model in _MODELS[task]:
            now, real = _trained(name, task, model)
            then = _THEN[name, model]
            results.row(model or 'strong', 'now', *(f'{value:.4f}' for value in now))
            results.row('', '1d1331e', *(f'{value:.4f}' for value in then))
            for graph_id, figures in real.items():
                results.row('', graph_id, *(f'{value:.4f}' for value in figures))
        print()


def _trained(
    name: str, task: str, model: str
) -> tuple[list[float], dict[str, list[float]]]:
    """Trains a model; returns its `_MEASURES` on test, and on real programs by name."""
    kind, own = config.CONFIGS[task], _SETTINGS[name]
    collection = kind(**own).collection
    chosen = {'model': model} if model else {}
    settings = recipes.get_settings('strong', collection.name, chosen)
    with tempfile.TemporaryDirectory() as folder:
        where = {
            'data_root': str(_ROOT / _FOLDERS.get(name, name)),
            'cache_dir': os.path.join(folder, 'cache'),
            'out_dir': folder,
        }
        training = kind(**{**settings, **chosen, **own, **where, 'epochs': _EPOCHS})
        model_dir, _ = results.train(training)
        predictor = results.load(model_dir, where['data_root'], where['cache_dir'])
        summary = measuring.measure(predictor, 'test')[0]
        real = {}
        if name == 'layout' and _REAL.is_dir():
            predictor = results.load(model_dir, str(_REAL), where['cache_dir'])
            real = measuring.measure(predictor, 'valid')[0]['groups']
    measures = _MEASURES[task]
    return _means(summary['overall'], measures), {
        program: _means(group, measures) for program, group in real.items()
    }


def _means(figures: Mapping[str, Any], measures: Sequence[str]) -> list[float]:
    return [figures[measure]['mean'] for measure in measures]


if __name__ == '__main__':
    results.run(main)
