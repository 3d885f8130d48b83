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


def measure(
    tree: pathlib.Path, model: str, epochs: int, data_root: pathlib.Path, folder: str
) -> tuple[float, float, float]:
    """Trains for one epoch and for all: seconds, peak GiB, ms a training step."""
    trained = {}
    for count in sorted({1, epochs}):
        words = [f'--model={model}', f'--epochs={count}', f'--data_root={data_root}']
        words += [f'--out_dir={folder}/out', f'--cache_dir={folder}/cache']
        trained[count] = run(tree, ['tiles_train.py', *words])
    seconds, memory = trained[epochs]
    kernels = len(list((data_root / 'train').glob('*.npz')))
    steps = max(kernels // 10, 1) * (epochs - 1)
    step = 1000 * (seconds - trained[1][0]) / steps if steps else float('nan')
    return seconds, memory / 2**30, step


def main() -> None:
    """Prints a line for each model and tree."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('tree', type=pathlib.Path, metavar='PUBLISHED_TREE')
    parser.add_argument('--data_root', type=pathlib.Path, required=True)
    parser.add_argument('--models', nargs='+', default=['EarlyJoinSAGE', 'MLP'])
    parser.add_argument('--epochs', type=int, default=5)
    parser.add_argument('--repeats', type=int, default=3)
    args = parser.parse_args()
    trees = {'published': args.tree, 'here': _OURS}
    data = args.epochs, args.data_root.resolve()
    print('model, tree: seconds, peak GiB, ms a training step (medians)', flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for model in args.models:
            rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in trees}
            for _ in range(args.repeats):
                for name, tree in trees.items():
                    rows[name].append(measure(tree, model, *data, f'{folder}/{name}'))
            for name in trees:
                s, gib, ms = map(statistics.median, zip(*rows[name]))
                print(f'{model}, {name}: {s:.1f}, {gib:.2f}, {ms:.1f}', flush=True)


if __name__ == '__main__':
    main()
