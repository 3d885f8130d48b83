"""Trains, scores, times and prints for the scripts of this folder.

Importing it puts the repository on the path, so that the scripts find its packages.
"""

import argparse
from collections.abc import Callable, Sequence
import contextlib
import glob
import io
import json
import os
import pathlib
import resource
import shlex
import subprocess
import sys
import time
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def parser(about: str) -> argparse.ArgumentParser:
    """Returns the parser of a script, with its docstring as the help."""
    return argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def run(main: Callable[[], int | None]) -> None:
    """Ends the process with the status of `main`; user errors become one line."""
    from baselines.core import exits

    sys.exit(exits.run_guarded(main))


# Data and models --------------------------------------------------------------


def train(settings: Any, **more: Any) -> tuple[str, float]:
    """Trains in silence; returns the model's folder, and seconds of CPU.

    Args:
        settings: of the training.
        **more: of `run_training.train`.
    """
    from baselines.training import run_training

    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        model_dir = run_training.train(settings, **more)
    return model_dir, time.process_time() - start


def trained(task: str, out_dir: str, *flags: str) -> None:
    """Trains with a script in a process of its own, unless that is done.

    Args:
        task: 'tile' or 'layout'.
        out_dir: where the run goes, and cost.json with its seconds.
        *flags: of the script.
    """
    cost = os.path.join(out_dir, 'cost.json')
    if os.path.exists(cost):
        return
    script = {'tile': 'tiles_train.py', 'layout': 'layout_train.py'}[task]
    command = [sys.executable, str(ROOT / script), f'--out_dir={out_dir}', *flags]
    start, before = time.monotonic(), core_seconds()
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise ValueError(f'{shlex.join(command)}: {done.stderr.strip()[-300:]}')
    with open(cost, 'w', encoding='utf-8') as stream:
        json.dump([time.monotonic() - start, core_seconds() - before], stream)


def cost(out_dir: str) -> tuple[float, float]:
    """Returns the seconds of a training of `trained` by the clock, and of CPU."""
    with open(os.path.join(out_dir, 'cost.json'), encoding='utf-8') as stream:
        seconds, cpu = json.load(stream)
    return seconds, cpu


def scores(
    run: str, root: str, graphs: Sequence[Any]
) -> tuple[list[np.ndarray], float]:
    """Returns a run's scores of graphs, and the seconds of scoring them once warm.

    Args:
        run: its directory, or another name of it.
        root: folder with a test split.
        graphs: with names of that split.
    """
    predictor = load(run, data_root=root)
    store = predictor.open_split('test')
    list(predictor.score(store))
    start = time.process_time()
    by_name = dict(zip(store.graph_ids, predictor.score(store)))
    seconds = time.process_time() - start
    return [np.asarray(by_name[graph.name]) for graph in graphs], seconds


def run_of(out_dir: str) -> str:
    """Returns the model directory of a folder with one run."""
    [model_dir] = glob.glob(os.path.join(out_dir, 'model_*'))
    return model_dir


def load(model_dir: str, *data: str, **more: Any) -> Any:
    """Returns the predictor of a run on data; see `prediction.Options`."""
    from baselines.scoring import prediction

    return prediction.load(model_dir, prediction.Options(*data, **more))


# Statistics -------------------------------------------------------------------


def bootstrap(values: Sequence[float]) -> tuple[float, float, float]:
    """Returns a mean, and the ends of its 95 % interval by bootstrap."""
    drawn = np.random.default_rng(0).choice(values, (2000, len(values)))
    low, high = np.percentile(drawn.mean(1), [2.5, 97.5])
    return float(np.mean(values)), float(low), float(high)


def interval(middle: float, low: float, high: float) -> str:
    """Returns a figure and its interval, as text."""
    return f'{middle:.2f} ({low:.2f} to {high:.2f})'


# Time and memory --------------------------------------------------------------


def timed(
    work: Callable[[], Any], repeats: int, warm_up: bool = True
) -> tuple[list[float], list[float]]:
    """Returns the seconds of calls by the clock, and of all cores; both sorted."""
    if warm_up:
        work()
    clock, cores = [], []
    for _ in range(repeats):
        start = time.perf_counter(), core_seconds()
        work()
        clock.append(time.perf_counter() - start[0])
        cores.append(core_seconds() - start[1])
    return sorted(clock), sorted(cores)


def core_seconds() -> float:
    """Returns the CPU seconds of this process and of those that it has waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_mb() -> float:
    """Returns the largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# Tables ----------------------------------------------------------------------


def row(*cells: str) -> None:
    """Prints a row of a table."""
    print('|' + ''.join(f' {cell} |' if cell else ' |' for cell in cells), flush=True)


def head(*cells: str) -> None:
    """Prints the first row of a table, and the rule below it."""
    row(*cells)
    print('|---' * len(cells) + '|', flush=True)
