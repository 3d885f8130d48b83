"""Steps of one layout training a second, on one worker of one core and on two.

    python benchmarks/workers.py            # synthetic programs; two cores, 3 minutes
    python benchmarks/workers.py --record   # and keep the figures

Both workers are on this machine, each pinned to a core, and share the batch of the one
(--strategy=workers over loopback).  Steps a second are those of the fastest epoch.
Core seconds of a step leave out the start, by trainings of two lengths; on a machine
with other work they are what can be compared: two workers can be faster by at most
the ratio of what a step takes of the only core, and of the busier of two.
"""

import os
import subprocess
import tempfile
from typing import Dict

import results

from baselines.runs import run_files
from tests.helpers import synthetic
from tests.helpers import training_workers

_MODEL, _EPOCHS, _PROGRAMS = 'ResModel', (5, 45), 24


def train(workers: int, batch: int, epochs: int, data: str):
    """Trains; returns the seconds of epochs, and the core seconds of the busiest."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        flags = {
            'model': _MODEL,
            'batch': batch,
            'epochs': epochs,
            'early_stop': epochs,
            'keep_nodes': 1000,
            'validate_batches': 1,
            'validation_configs': 50,
            'data_root': data,
            'cache_dir': os.path.join(data, 'cache'),
            'out_dir': folder,
            'strategy': 'workers' if workers > 1 else '',
        }
        started = training_workers.start(
            'layout_train.py', flags, workers, subprocess.DEVNULL
        )
        for process, core in zip(started, cores):
            os.sched_setaffinity(process.pid, {core})
        used = []
        for process in started:
            _, status, usage = os.wait4(process.pid, 0)
            if status:
                raise SystemExit(f'{workers} workers of {_MODEL} did not end well')
            used.append(usage.ru_utime + usage.ru_stime)
        [model_dir] = run_files.list_dirs(folder)
        seconds = run_files.read(model_dir).info['train_curve']['train_seconds']
    return seconds, max(used)


def measure(workers: int, batch: int, data: str) -> Dict[str, float]:
    """Trains for few and for many epochs; returns what a step takes."""
    steps = -(-_PROGRAMS // batch)
    few, many = _EPOCHS
    _, start = train(workers, batch, few, data)
    seconds, used = train(workers, batch, many, data)
    name = f'{_MODEL}_batch_{batch}_workers_{workers}'
    return {
        f'{name}_steps_per_second': steps / min(seconds[1:]),
        f'{name}_step_core_ms': (used - start) / (many - few) / steps * 1e3,
    }


def main() -> None:
    """Measures, and prints."""
    parser = results.parser(__doc__, record=True)
    parser.add_argument('--batch', type=int, default=8, help='of all workers')
    args = parser.parse_args()
    figures: Dict[str, float] = {}
    with tempfile.TemporaryDirectory() as data:
        sizes = {'nodes': (500, 4000), 'configs': (200, 2000)}
        synthetic.write_programs(data, _PROGRAMS, 6, 6, **sizes)
        for workers in (1, 2):
            figures.update(measure(workers, args.batch, data))
    results.show(figures, args.record)


if __name__ == '__main__':
    results.run(main)
