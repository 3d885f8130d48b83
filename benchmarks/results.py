"""What the scripts share: they find the package through it, train, time and measure
in a fresh process; and results.csv keeps figures with command, machine and commit."""

import argparse
import contextlib
import csv
import datetime
import glob
import io
import json
import multiprocessing
import os
import pathlib
import resource
import shlex
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
_FILE = pathlib.Path(__file__).with_name('results.csv')
_COLUMNS = ('date', 'commit', 'machine', 'command', 'metric', 'value', 'unit')


def parser(about: str, record: bool = False) -> argparse.ArgumentParser:
    """Returns the parser of a script; `record` gives it --record."""
    found = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if record:
        found.add_argument('--record', action='store_true', help='keep the figures')
    return found


def run(main: Callable[[], Optional[int]]) -> None:
    """Ends the process with what `main` does; user errors become one line."""
    from baselines import command_line

    sys.exit(command_line.guarded(main))


# Data and models --------------------------------------------------------------


def train(settings: Any) -> Tuple[str, float]:
    """Trains in silence; returns the model's folder, and seconds of CPU."""
    from baselines.training import jobs

    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        model_dir = jobs.train(settings)
    return model_dir, time.process_time() - start


def trained(task: str, out_dir: str, *flags: str) -> None:
    """Trains with a script in a process of its own, unless that is done.

    Args:
        task: 'tile' or 'layout'.
        out_dir: where the run goes, and cost.json with its seconds of CPU.
        *flags: of the script.
    """
    cost = os.path.join(out_dir, 'cost.json')
    if os.path.exists(cost):
        return
    script = {'tile': 'tiles_train.py', 'layout': 'layout_train.py'}[task]
    command = [sys.executable, str(ROOT / script), f'--out_dir={out_dir}', *flags]
    before = core_seconds()
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise ValueError(f'{shlex.join(command)}: {done.stderr.strip()[-300:]}')
    with open(cost, 'w', encoding='utf-8') as stream:
        json.dump(core_seconds() - before, stream)


def cost(out_dir: str) -> float:
    """Returns the seconds of CPU that a training of `trained` has taken."""
    with open(os.path.join(out_dir, 'cost.json'), encoding='utf-8') as stream:
        return json.load(stream)


def scores(
    out_dir: str, root: str, graphs: Sequence[Any]
) -> Tuple[List[np.ndarray], float]:
    """Returns a run's scores of graphs, and the seconds of scoring them once warm.

    Args:
        out_dir: with one run.
        root: folder with a test split.
        graphs: with names of that split.
    """
    [model_dir] = glob.glob(os.path.join(out_dir, 'model_*'))
    predictor = load(model_dir, data_root=root)
    store = predictor.open_split('test')
    list(predictor.score(store))
    start = time.process_time()
    found = dict(zip(store.graph_ids, predictor.score(store)))
    seconds = time.process_time() - start
    return [np.asarray(found[graph.name]) for graph in graphs], seconds


def load(model_dir: str, *data: str, **more: Any) -> Any:
    """The predictor of a run; the others are of `prediction.DataOptions`."""
    from baselines.runs import loading
    from baselines.runs import prediction

    return loading.load_predictor(model_dir, prediction.DataOptions(*data, **more))


# Time and memory --------------------------------------------------------------


def timed(
    work: Callable[[], Any], repeats: int, warm_up: bool = True
) -> Tuple[List[float], List[float]]:
    """Seconds of each call by the clock, and of all cores; both sorted."""
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
    """Of this process, and of those that it has waited for."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def peak_mb() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def alone(function: Callable, *args):
    """Calls in a fresh process, so that its memory is that of the call alone."""
    with multiprocessing.get_context('spawn').Pool(1) as pool:
        return pool.apply(function, args)


# Figures ----------------------------------------------------------------------


def row(*cells: str) -> None:
    """Prints a row of a table."""
    print('|' + ''.join(f' {cell} |' if cell else ' |' for cell in cells), flush=True)


def head(*cells: str) -> None:
    """Prints the first row of a table, and the rule below it."""
    row(*cells)
    print('|---' * len(cells) + '|', flush=True)


def show(figures: Dict[str, float], keep: bool) -> None:
    """Prints figures by name, and records them if `keep`.

    The end of a name is its unit: `_s`, `_ms` or `_mb`.
    """
    for name, value in figures.items():
        text = f'{value:,.3f}' if isinstance(value, float) else f'{value:,}'
        print(f'{name:<32}{text:>16}')
    units = {'s': 's', 'ms': 'ms', 'mb': 'MB'}
    rows = [
        (name, value, units.get(name.rpartition('_')[2], ''))
        for name, value in figures.items()
        if not isinstance(value, bool)
    ]
    record(rows, keep)


def record(rows: Iterable[Tuple[str, float, str]], keep: bool) -> None:
    """Appends (metric, value, unit) rows of the running script, if `keep`."""
    if not keep:
        return
    words = [portable(word) for word in sys.argv if word != '--record']
    command = shlex.join(['python', *words])
    fixed = (datetime.date.today().isoformat(), _commit(), machine(), command)
    is_new = not _FILE.exists()
    with _FILE.open('a', newline='', encoding='utf-8') as stream:
        writer = csv.writer(stream, lineterminator='\n')
        if is_new:
            writer.writerow(_COLUMNS)
        for metric, value, unit in rows:
            writer.writerow([*fixed, metric, f'{value:.6g}', unit])
    print(f'recorded in {_FILE}')


def machine() -> str:
    """Describes this machine in a few words."""
    from tpugraphs.measure import machine as machine_lib

    return f'{machine_lib.describe(-1)["cpu"]}, {os.cpu_count()} cores'


def portable(word: str) -> str:
    """Returns a word of a command without this machine's folders."""
    option, is_pair, value = word.rpartition('=')
    if not os.path.isabs(value):
        return word
    place = pathlib.Path(value)
    if place.is_relative_to(ROOT):
        return f'{option}{is_pair}{place.relative_to(ROOT)}'
    return f'{option}{is_pair}{place.name}'


def _commit() -> str:
    def git(*words):
        return subprocess.run(
            ['git', *words], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    changed = git('status', '--porcelain', '--', 'baselines')
    return git('rev-parse', '--short', 'HEAD') + ('+changes' if changed else '')
