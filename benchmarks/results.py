"""Measures in a fresh process; keeps figures in results.csv, with command,
machine and commit."""

import argparse
import contextlib
import csv
import datetime
import io
import multiprocessing
import os
import pathlib
import shlex
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterable, Tuple

_FILE = pathlib.Path(__file__).with_name('results.csv')
_ROOT = _FILE.resolve().parents[1]
_COLUMNS = ('date', 'commit', 'machine', 'command', 'metric', 'value', 'unit')


def parser(about: str, record: bool = False) -> argparse.ArgumentParser:
    """Returns the parser of a script; `record` gives it --record."""
    found = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if record:
        found.add_argument('--record', action='store_true', help='keep the figures')
    return found


def sample(root: str, *words: str) -> None:
    """Writes simulated data with `tpugraphs sample`, unless they are there."""
    if not os.path.exists(root):
        command = [sys.executable, '-m', 'baselines.commands.sample', *words]
        subprocess.run([*command, '--output', root], check=True, cwd=_ROOT)


def train(settings: Any) -> Tuple[str, float]:
    """Trains in silence; returns the model's folder, and seconds of CPU."""
    from baselines.tasks import jobs

    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        model_dir = jobs.train(settings)
    return model_dir, time.process_time() - start


def machine() -> str:
    """Describes this machine in a few words."""
    from baselines.measuring import machine as machine_lib

    return f'{machine_lib.describe(-1)["cpu"]}, {os.cpu_count()} cores'


def alone(function: Callable, *args):
    """Calls in a fresh process, so that its memory is that of the call alone."""
    with multiprocessing.get_context('spawn').Pool(1) as pool:
        return pool.apply(function, args)


def show(figures: Dict[str, float], keep: bool) -> None:
    """Prints figures by name, and records them if `keep`.

    The end of a name is its unit: `_s`, `_ms` or `_mb`.
    """
    for name, value in figures.items():
        text = f'{value:,.3f}' if isinstance(value, float) else f'{value:,}'
        print(f'{name:<32}{text:>16}')
    if keep:
        units = {'s': 's', 'ms': 'ms', 'mb': 'MB'}
        record(
            (name, value, units.get(name.rpartition('_')[2], ''))
            for name, value in figures.items()
            if not isinstance(value, bool)
        )


def record(rows: Iterable[Tuple[str, float, str]]) -> None:
    """Appends (metric, value, unit) rows of the running script."""
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


def portable(word: str) -> str:
    """Returns a word of a command without this machine's folders."""
    option, is_pair, value = word.rpartition('=')
    if not os.path.isabs(value):
        return word
    place = pathlib.Path(value)
    if place.is_relative_to(_ROOT):
        return f'{option}{is_pair}{place.relative_to(_ROOT)}'
    return f'{option}{is_pair}{place.name}'


def _commit() -> str:
    def git(*words):
        return subprocess.run(
            ['git', *words],
            cwd=_FILE.parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    changed = git('status', '--porcelain', '--', '../baselines')
    return git('rev-parse', '--short', 'HEAD') + ('+changes' if changed else '')
