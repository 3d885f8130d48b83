"""Steps a second of one training on one worker of one core, and on two.

    python benchmarks/workers.py                # simulated data; some minutes
    python benchmarks/workers.py --record

Both workers are on this machine, each pinned to a core, and share the batch of the one
(--strategy=workers over loopback).  The first epoch, which compiles, does not count.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# pylint: disable=wrong-import-position
import results

from baselines.training import runs

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_JOBS = {
    'tile': ['tiles_train.py', '--toy_data', '--model=EarlyJoinSAGE'],
    'layout': ['layout_train.py', '--model=ResModel', '--keep_nodes=1000'],
}


def steps_per_second(task: str, batch: int, workers: int, args) -> float:
    """Trains on so many workers; returns what the chief's run file says."""
    with tempfile.TemporaryDirectory() as folder:
        with_ports = [socket.socket() for _ in range(workers)]
        for probe in with_ports:
            probe.bind(('127.0.0.1', 0))
        addresses = [f'127.0.0.1:{probe.getsockname()[1]}' for probe in with_ports]
        for probe in with_ports:
            probe.close()
        script, *flags = _JOBS[task]
        words = [
            *(sys.executable, str(_ROOT / script), *flags, '--sample_data'),
            *(f'--batch={batch}', f'--epochs={args.epochs}', f'--out_dir={folder}'),
            *([f'--cache_dir={args.cache_dir}'] if args.cache_dir else []),
            *(['--strategy=workers'] if workers > 1 else []),
        ]
        cores = sorted(os.sched_getaffinity(0))
        started = []
        for rank, core in zip(range(workers), cores):
            description = {
                'cluster': {'worker': addresses},
                'task': {'type': 'worker', 'index': rank},
            }
            started.append(
                subprocess.Popen(
                    ['taskset', '-c', str(core), *words],
                    env={**os.environ, 'TF_CONFIG': json.dumps(description)},
                    stdout=subprocess.DEVNULL,
                )
            )
        if max([process.wait() for process in started]):
            raise SystemExit(f'{task} on {workers} workers did not end well')
        [model_dir] = pathlib.Path(folder).glob('model_*')
        run = runs.load(str(model_dir))
    seconds = run.info['train_curve']['train_seconds'][1:]
    graphs = {'tile': 100, 'layout': 24}[task]  # of the simulated train split
    steps = graphs // batch if task == 'tile' else -(-graphs // batch)
    return steps * len(seconds) / sum(seconds)


def main() -> None:
    """Measures, and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--epochs', type=int, default=6)
    parser.add_argument('--cache_dir', default='')
    parser.add_argument('--record', action='store_true')
    args = parser.parse_args()
    figures = {}
    for task, batch in (('tile', 10), ('layout', 8)):
        for workers in (1, 2):
            name = f'{task}_{workers}_workers_steps_per_second'
            figures[name] = steps_per_second(task, batch, workers, args)
            print(f'{name}: {figures[name]:.2f}', flush=True)
    results.show(figures, args.record)


if __name__ == '__main__':
    main()
