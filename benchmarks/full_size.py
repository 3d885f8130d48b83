"""Trains on, scores and predicts collections of the published size, step by step.

  python benchmarks/full_size.py --folder ~/scratch/full            # hours, 40 GB
  python benchmarks/full_size.py --folder ~/scratch/full --task tile
  python benchmarks/full_size.py --folder ~/scratch/part --scale 0.05

Synthetic files (`benchmarks/synthetic.py`) stand in for the published ones: 5,709,
676 and 844 kernels with 400 to 4,096 tiles, and 200, 20 and 17 programs of 1,000 to
43,000 nodes with 14,000 to 100,000 layouts.  They show time, memory and disk, never
quality.  Each step is a process of its own; printed are its seconds by the clock and of
CPU, the most memory of its own (without files that it maps, which the system takes
back), and the size of what it wrote.  A step that is done is not repeated: `done.json`
keeps its figures.  --scale takes that share of the kernels and programs, of the same
sizes; one program to train on has the most nodes and layouts at any scale.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import zipfile

import numpy as np
import results
import synthetic

from baselines.data.layout import records as layout_records

_MODELS = {'tile': 'EarlyJoinSAGE', 'layout': 'ResModel'}
_SCRIPTS = {'tile': 'tiles_train.py', 'layout': 'layout_train.py'}
_COUNTS = {'tile': (5709, 676, 844), 'layout': (200, 20, 17)}
_MOST_NODES, _MOST_LAYOUTS = 43_000, 100_000
_OWN = {'tile': [], 'layout': ['--source=nlp', '--search=random']}


def main() -> None:
    """Runs what is not done yet, and prints a row for each step."""
    parser = results.parser(__doc__)
    parser.add_argument('--folder', required=True)
    parser.add_argument('--task', nargs='+', default=['tile', 'layout'])
    parser.add_argument('--scale', type=float, default=1.0)
    parser.add_argument('--make', choices=('tile', 'layout'), help='only write files')
    args = parser.parse_args()
    folder = pathlib.Path(args.folder).expanduser()
    if args.make:
        write(args.make, folder / args.make, args.scale)
        return
    results.head('step', 'seconds', 'CPU seconds', 'own memory, MB', 'written, MB')
    for task in args.task:
        for step, command in commands(task, folder, args.scale).items():
            figures = done(folder / task / 'done.json', step, command, folder / task)
            results.row(f'{task}: {step}', *(f'{value:,.0f}' for value in figures))


def write(task: str, folder: pathlib.Path, scale: float) -> None:
    """Writes the files of a collection, or of a share of it."""
    counts = [max(1, round(scale * count)) for count in _COUNTS[task]]
    if task == 'tile':
        sizes = dict(nodes=(10, 70), configs=(400, 4096))
        synthetic.write_kernels(str(folder / 'npz'), *counts, **sizes)
        return
    counts[0] -= 1
    sizes = dict(nodes=(1000, _MOST_NODES), configs=(14_000, _MOST_LAYOUTS))
    more = dict(subfolders=('nlp/random',), write=write_fast)
    synthetic.write_programs(str(folder / 'npz'), *counts, **sizes, **more)
    rng = np.random.default_rng(0)
    largest = synthetic.program(rng, 'willow_batch_1', _MOST_NODES, _MOST_LAYOUTS)
    train = folder / 'npz' / 'nlp' / 'random' / 'train'
    write_fast(largest, str(train / f'{largest.graph_id}.npz'))


def write_fast(record: layout_records.LayoutRecord, path: str) -> None:
    """Writes a program unchecked and compressed little, in a fourth of the time."""
    arrays = dataclasses.asdict(record)
    del arrays['graph_id']
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for key, array in arrays.items():
            if array is not None:
                with archive.open(f'{key}.npy', 'w', force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array))


def commands(task: str, folder: pathlib.Path, scale: float) -> dict[str, list[str]]:
    """Returns the command of each step, in order.

    The first training packs the splits, which the others find packed.
    """
    place = folder / task
    data = [f'--data_root={place / "npz"}', f'--cache_dir={place / "cache"}']
    once = ['--epochs=1', '--test_mode=metrics'] if task == 'tile' else ['--epochs=1']
    script = [sys.executable, str(results.ROOT / _SCRIPTS[task]), *_OWN[task], *data]
    model = [*script, *once, f'--model={_MODELS[task]}']
    tpugraphs = [sys.executable, '-m', 'tpugraphs']
    steps = {
        'write the files': [sys.executable, __file__, '--folder', str(folder)]
        + ['--make', task, f'--scale={scale}'],
        f'pack, and one epoch of {_MODELS[task]}': [*model, f'--out_dir={place}/pack'],
        f'one epoch of {_MODELS[task]}': [*model, f'--out_dir={place / "published"}'],
        'one epoch of --recipe=strong': [
            *(*script, *once, '--recipe=strong', f'--out_dir={place / "strong"}')
        ],
    }
    for name in ('published', 'strong'):
        latest = ['--dir', 'latest', '--out_dir', str(place / name), *data]
        steps[f'evaluate valid, {name}'] = [*tpugraphs, 'evaluate', *latest]
        steps[f'predict test, {name}'] = [
            *(*tpugraphs, 'predict', *latest),
            f'--output={place / name / "test.csv"}',
        ]
    return steps


def done(
    path: pathlib.Path, step: str, command: list[str], folder: pathlib.Path
) -> list[float]:
    """Runs a step unless it is done, and returns its figures.

    Args:
        path: the file that keeps the figures of steps.
        step: its name.
        command: of the process.
        folder: that the process writes into.

    Returns:
        Seconds, seconds of CPU, MB of memory, MB written.

    Raises:
        ValueError: the process failed; the message ends with what it said last.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = json.loads(path.read_text()) if path.exists() else {}
    if step not in figures:
        before, start = size_mb(folder), time.monotonic()
        with tempfile.TemporaryFile() as messages:
            process = subprocess.Popen(
                command, cwd=results.ROOT, stdout=messages, stderr=subprocess.STDOUT
            )
            memory = 0
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                memory = max(memory, own_memory_kb(process.pid))
                time.sleep(0.1)
            process.returncode = status
            if status:
                messages.seek(0)
                said = messages.read().decode(errors='replace')
                raise ValueError(f'{step}: {said[-300:]}')
        seconds = time.monotonic() - start
        cpu = usage.ru_utime + usage.ru_stime
        figures[step] = [seconds, cpu, memory / 1024, size_mb(folder) - before]
        path.write_text(json.dumps(figures, indent=1))
    return figures[step]


def own_memory_kb(pid: int) -> int:
    """Returns the memory of a process without the files that it maps (Linux)."""
    lines = pathlib.Path(f'/proc/{pid}/status').read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith('RssAnon'))


def size_mb(folder: pathlib.Path) -> float:
    """Returns the size of the files in a folder."""
    sizes = (path.stat().st_size for path in folder.rglob('*') if path.is_file())
    return sum(sizes) / 1e6


if __name__ == '__main__':
    results.run(main)
