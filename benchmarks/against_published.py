"""The same commands in a clone of the published repository and in this one.

  git clone https://github.com/google-research-datasets/tpu_graphs ~/published
  pip install pandas 'numpy<2'        # which the published code imports
  python benchmarks/against_published.py ~/published \\
      --data_root ~/data/tpugraphs/npz/tile/xla

Each command runs in either tree in turn, started in the folder of the tree, with this
Python.  Time is of the whole command; a step's time is the difference of a training of
one epoch and one of --epochs, so that starting and packing do not count; memory is the
most that all processes of a command had together.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

_OURS = pathlib.Path(__file__).resolve().parents[1]
_PAUSE_S = 0.2


def descendants(root: int) -> list[int]:
    """Returns the processes below a process, and itself."""
    parents = {}
    for path in pathlib.Path('/proc').glob('[0-9]*/stat'):
        try:
            # The name in brackets may hold spaces: what follows is split.
            parents[int(path.parent.name)] = int(
                path.read_text().rpartition(')')[2].split()[1]
            )
        except OSError:
            continue  # it has ended
    found = [root]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found


def memory_of(processes: list[int]) -> int:
    """Returns the resident memory of processes, in bytes."""
    total = 0
    for process in processes:
        try:
            pages = pathlib.Path(f'/proc/{process}/statm').read_text().split()[1]
        except OSError:
            continue
        total += int(pages) * os.sysconf('SC_PAGE_SIZE')
    return total


def run(tree: pathlib.Path, words: list[str]) -> tuple[float, int]:
    """Runs a script of a tree; returns its seconds and its most memory in bytes."""
    started, most = time.monotonic(), 0
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=tree, stdout=output, stderr=output
        )
        while process.poll() is None:
            most = max(most, memory_of(descendants(process.pid)))
            time.sleep(_PAUSE_S)
        seconds = time.monotonic() - started
        if process.returncode:
            output.seek(0)
            last = output.read().decode(errors='replace').strip().splitlines()[-5:]
            sys.exit('\n'.join([f'{tree}: {" ".join(words)} failed:', *last]))
    return seconds, most


def main() -> None:
    """Prints a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('tree', type=pathlib.Path, metavar='PUBLISHED_TREE')
    parser.add_argument('--data_root', type=pathlib.Path, required=True)
    parser.add_argument('--models', nargs='+', default=['EarlyJoinSAGE', 'MLP'])
    parser.add_argument('--epochs', type=int, default=5)
    parser.add_argument('--repeats', type=int, default=3)
    args = parser.parse_args()
    kernels = len(list((args.data_root / 'train').glob('*.npz')))
    print('model, tree: seconds, peak GiB, ms a training step (medians)', flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for model in args.models:
            measured: dict = {tree: [] for tree in (args.tree, _OURS)}
            for _ in range(args.repeats):
                for number, (tree, rows) in enumerate(measured.items()):
                    one, many = (
                        run(
                            tree,
                            [
                                'tiles_train.py',
                                f'--model={model}',
                                f'--epochs={epochs}',
                                f'--data_root={args.data_root.resolve()}',
                                f'--out_dir={folder}/{number}/out',
                                f'--cache_dir={folder}/{number}/cache',
                            ],
                        )
                        for epochs in (1, args.epochs)
                    )
                    steps = max(kernels // 10, 1) * (args.epochs - 1)
                    step = 1000 * (many[0] - one[0]) / steps
                    rows.append((many[0], many[1] / 2**30, step))
            for tree, rows in measured.items():
                s, gib, ms = (statistics.median(column) for column in zip(*rows))
                name = 'here' if tree == _OURS else 'published'
                print(f'{model}, {name}: {s:.1f}, {gib:.2f}, {ms:.1f}', flush=True)


if __name__ == '__main__':
    main()
