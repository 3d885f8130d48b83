"""One training of the leaderboard, in a process of its own.

  python benchmarks/leaderboard_training.py SPEC

`leaderboard.py` calls it.  SPEC is a JSON object: task, settings, seed, budget in
seconds, and the folders `place`, where result.json goes, and `timed`, where the
time of an epoch is noted.
"""

import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from typing import Any, Dict

import numpy as np
import results

from baselines import command_line
from baselines import config
from baselines import files
from baselines.simulated.layout import dataset


def data_of(task: str) -> Dict[str, Any]:
    """Simulated kernels; or programs by the rule book `roofline`, known best."""
    if task == 'tiles':
        return {'sample_data': True}
    programs = dataset.Programs(rules='roofline')
    root = f'{os.path.dirname(files.expand(programs.default_root))}/layout_roofline'
    return {'data_root': programs.ensure(root)}


def main() -> None:
    """Trains, measures and writes result.json."""
    [spec] = map(json.loads, sys.argv[1:])
    command_line.start_tensorflow()
    kind = config.TileConfig if spec['task'] == 'tiles' else config.LayoutConfig
    os.makedirs(spec['place'], exist_ok=True)
    places = {'seed': spec['seed'], 'out_dir': spec['place']}
    settings = kind(**{**spec['settings'], **places, **data_of(spec['task'])})
    timed = os.path.join(spec['timed'], 'epoch_s.json')
    if not results.kept(timed):
        with tempfile.TemporaryDirectory() as out_dir:
            short = {'epochs': 3, 'out_dir': out_dir}
            if spec['task'] == 'tiles':
                short['trees'] = False
            _, seconds = _train(dataclasses.replace(settings, **short))
        # The first epoch compiles the validation.
        results.keep(timed, statistics.mean(seconds[1:]))
    epochs = max(int(spec['budget'] / results.kept(timed)), 2)
    settings = dataclasses.replace(settings, epochs=epochs, early_stop=epochs)
    model_dir, seconds = _train(settings)
    result = {
        'model_dir': model_dir,
        'epochs': epochs,
        'seconds': sum(seconds),
        **_measured(model_dir, settings, sum(seconds)),
    }
    results.keep(os.path.join(spec['place'], 'result.json'), result)


def _train(settings):
    """Trains; returns the model directory and the core seconds of each epoch.

    With one thread these are the seconds on a clock, but for what else runs.
    """
    from baselines.runs import saved

    start = time.monotonic()
    model_dir, cores = results.train(settings)
    share = cores / (time.monotonic() - start)
    curve = saved.load(model_dir).info['train_curve']
    seconds = np.add(curve['train_seconds'], curve['val_seconds'])
    return model_dir, (share * seconds).tolist()


def _measured(model_dir: str, settings, seconds: float) -> Dict[str, Any]:
    """Errors on valid and test, size and speed of a finished run."""
    from baselines.training import descent

    data = {'cache_dir': settings.cache_dir}  # as in training
    found: Dict[str, Any] = {}
    for split in ('valid', 'test'):
        reached = results.evaluate(model_dir, split, **data)
        found[split] = {name: measure['mean'] for name, measure in reached.items()}
    predictor = results.load(model_dir, **data)
    store = predictor.open_split('test')
    _, [scoring] = results.timed(lambda: list(predictor.score(store)), 1)
    train = predictor.open_split('train')
    if isinstance(settings, config.TileConfig):
        steps = len(train.with_at_least(settings.configs)) // settings.batch
    else:
        steps = -(-train.num_graphs // settings.batch)
    curve = predictor.run.info['train_curve']
    return {
        **found,
        'weights': predictor.model and descent.count_weights(predictor.model),
        'configs_per_s': float(store.config_counts.sum() / scoring),
        'steps_per_s': steps * len(curve['epoch']) / seconds,
    }


if __name__ == '__main__':
    results.run(main)
