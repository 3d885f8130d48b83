"""Trainings that are killed at random moments, and resumed until they end.

Each chain has to leave the same weights, curve and ranking as a training that
nobody interrupted, once, and nothing else.
"""

import hashlib
import os
import pathlib
import signal
import time
import traceback
from typing import Any, Callable, Dict, NamedTuple

import numpy as np

from tests.helpers import finished_runs
from tests.helpers import layout_runs
from tests.helpers import tile_records
from tests.helpers import tile_runs

_MOST_KILLS = 4  # of a chain, so that it ends


class Outcome(NamedTuple):
    """What chains of trainings did.

    Attributes:
        chains: trainings that ended, each as one without interruption.
        kills: how many processes were killed on the way.
    """

    chains: int
    kills: int


def kinds(root: pathlib.Path) -> Dict[str, Callable[..., Any]]:
    """Writes small data; returns what trains on them, by kind."""
    tile_records.write_splits(root / 'tile' / 'data', 6)
    layout_runs.write_splits(root / 'layout' / 'data' / 'xla' / 'random')

    def tile(out_dir, **changes):
        settings = dict(tile_runs.TINY, epochs=6, batch=2, out_dir=out_dir)
        return tile_runs.train(root / 'tile', **settings, **changes)

    def layout(out_dir, **changes):
        settings = dict(layout_runs.TINY, epochs=6, batch=2, out_dir=out_dir)
        return layout_runs.train(root / 'layout', **settings, **changes)

    return {'tile': tile, 'layout': layout}


def run(root: pathlib.Path, kills: int, seconds: float, seed: int) -> Outcome:
    """Kills trainings of both kinds in turn, so often or so long.

    Raises:
        AssertionError: a chain ended otherwise than the uninterrupted training.
    """
    rng = np.random.default_rng(seed)
    deadline = time.monotonic() + seconds
    trainings, whole, done = kinds(root), {}, Outcome(0, 0)
    while done.kills < kills and time.monotonic() < deadline:
        name = ('tile', 'layout')[done.chains % 2]
        if name not in whole:
            began = time.monotonic()
            assert _ended(trainings[name], root / f'{name}_whole', None) == 0
            duration = time.monotonic() - began
            whole[name] = duration, _result(root / f'{name}_whole')
        duration, expected = whole[name]
        out_dir, killed = root / f'{name}_{done.chains}', 0
        while True:
            # Also after the end of the loop, while the run is written.
            after = rng.uniform(0.1, 1.1) * duration if killed < _MOST_KILLS else None
            code = _ended(trainings[name], out_dir, after)
            if code == 0:
                break
            assert code == -signal.SIGKILL, f'{name} training ended with {code}'
            killed += 1
        assert _result(out_dir) == expected, f'{out_dir} differs from {name}_whole'
        done = Outcome(done.chains + 1, done.kills + killed)
    return done


def _ended(train: Callable[..., Any], out_dir: pathlib.Path, after) -> int:
    """Trains in a process of its own; kills it after so many seconds, if any.

    Returns:
        Its exit code; the negative signal number of a killed one.
    """
    pid = os.fork()  # TensorFlow is imported, but has started no thread
    if not pid:
        try:
            train(str(out_dir), resume=True)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    if after is not None:
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _result(out_dir: pathlib.Path) -> Dict[str, Any]:
    """What a training left, in a form that can be compared."""
    names = sorted(path.name for path in out_dir.iterdir())
    kinds_left = sorted({name.partition('_')[0] for name in names})
    assert kinds_left == ['model', 'results', 'run'] and len(names) == 3, names
    (model_dir,) = out_dir.glob('model_*')
    info = finished_runs.info_of(model_dir)
    text = finished_runs.csv_of(model_dir)
    return {
        'weights': info['digest']['weights'],
        'curve': finished_runs.curve_of(model_dir),
        'ranking': hashlib.sha256(text.encode()).hexdigest(),
        'predictions': info['test_predictions'],
    }
