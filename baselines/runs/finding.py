"""The one place where `--dir` becomes model directories.

    find('~/out/tpugraphs_tiles/model_0123abcd...')    a model directory
    find('latest')                                     the run finished last
    find('latest', 'tile')                             the last one of tiles
    find('0123')                                       the beginning of its hash
    find('wide')                                       its --run_id
    find('model_*'), find('seed?')                     a pattern of either
    find('MLP')                                        all runs of a model

Names without a folder are looked up where trainings write by default; those of
another folder stand behind it: `~/out/mine/latest`.  A folder stands for the one
run in it.
"""

import fnmatch
import glob
import os
import re
import sys
from typing import Dict, Iterable, List, Sequence, Tuple

from baselines import config
from baselines import files
from baselines import text
from baselines.runs import run_files

LATEST = 'latest'
ESTIMATE = 'estimate'  # no run: what nobody trained, for the commands that take it
FORMS = (
    "a directory, 'latest', the beginning of a hash, a --run_id, a pattern or a model"
)

_SHORTEST = 4  # letters of a hash
_MAGIC = re.compile(r'[*?[]')


def default_folders() -> List[str]:
    """Returns the folders where trainings write by default."""
    return [files.expand(kind.out_dir) for kind in config.CONFIGS.values()]


def within(out_dir: str, name: str) -> str:
    """Returns a name that is looked up in a folder, unless it says where itself."""
    return name if os.path.dirname(name) else os.path.join(out_dir, name)


def find(name: str, task: str = '') -> List[str]:
    """Returns the model directories that a name stands for.

    Args:
        name: as the user wrote it; see above.
        task: 'tile' or 'layout', for 'latest' of those runs alone; a note on stderr
            says so where the last run of all is another.

    Returns:
        At least one, absolute; several for a pattern or a shared --run_id, the
        oldest first.

    Raises:
        ValueError: there is none, or the name is ambiguous; lists what there is.
    """
    if name == ESTIMATE:
        raise ValueError(
            f"--dir: '{ESTIMATE}' is no run but the untrained estimate, which --dir of "
            '`rank`, `predict` and `evaluate` takes; a run of that name is '
            f'./{ESTIMATE}'
        )
    path = files.expand(name)
    if os.path.isdir(path):
        return [path] if run_files.hash_of(path) else [_only(path)]
    beside = re.sub(r'run_(\w+)\.jsonz$', r'model_\1', path)
    if beside != path and os.path.isdir(beside):
        return [beside]
    folder, word = os.path.split(name.rstrip('/'))
    folders = default_folders()
    if folder:
        folders = sorted(glob.glob(files.expand(folder)))
        if not any(map(os.path.isdir, folders)):
            raise ValueError(f'--dir: there is no directory {path}')
    runs = [d for one in folders for d in run_files.list_dirs(one)]
    if not runs:
        if folder and word != LATEST and not _MAGIC.search(word):
            raise ValueError(f'--dir: there is no directory {path}')
        raise ValueError(f'--dir: {nothing(folders, word)}')
    runs, damaged = _by_finish_time(runs)
    matches = _of_hash(word, [*damaged, *runs]) or _named(word, runs, damaged, task)
    if matches:
        return matches
    if folder and run_files.hash_of(path):
        raise ValueError(f'--dir: there is no directory {path}')
    if word == LATEST:  # with `task`; or all runs are damaged
        raise ValueError(f'--dir: {nothing(folders, task=task)}')
    raise ValueError(
        f'--dir: no run in {" or ".join(folders)} is called {word!r}; it is '
        f'{FORMS}. The newest are {_listed([*reversed(runs), *damaged])}; '
        '`tpugraphs runs` lists all'
    )


def find_one(name: str, task: str = '') -> str:
    """Returns the one model directory that a name stands for; see `find`.

    Raises:
        ValueError: there is none, or there are several; lists them.
    """
    matches = find(name, task)
    if len(matches) > 1:
        raise ValueError(
            f'--dir: {name!r} stands for {len(matches)} runs, and one is wanted: '
            f'{_listed(matches)}'
        )
    return matches[0]


def find_all(names: Sequence[str], task: str = '') -> Dict[str, List[str]]:
    """Finds several runs, all of them before any is used; see `find`.

    Returns:
        By model directory, in the order of first mention, the names that it was
        given: more than one where it was named repeatedly.

    Raises:
        ValueError: see `find`.
    """
    named: Dict[str, List[str]] = {}
    first: Dict[str, str] = {}
    for name in names:
        for model_dir in find(name, task):
            model_dir = first.setdefault(os.path.realpath(model_dir), model_dir)
            named.setdefault(model_dir, []).append(name)
    return named


def _by_finish_time(runs: Sequence[str]) -> Tuple[List[str], List[str]]:
    """Sorts runs, the oldest first; those with a damaged run file are kept apart."""
    finished, damaged = {}, []
    for model_dir in runs:
        try:
            finished[model_dir] = run_files.read(model_dir).finished
        except (ValueError, OSError):
            damaged.append(model_dir)
    return sorted(finished, key=lambda model_dir: finished[model_dir]), damaged


def _of_hash(word: str, runs: Sequence[str]) -> List[str]:
    """Returns the run whose hash begins with a word, or none.

    Raises:
        ValueError: there are several.
    """
    start = word[len('model_') :] if word.startswith('model_') else word
    if len(start) < _SHORTEST:
        return []
    matches = [d for d in runs if run_files.hash_of(d).startswith(start)]
    if len(matches) > 1:
        raise ValueError(
            f'--dir: {word!r} is the beginning of {len(matches)} runs: '
            f'{_listed(matches)}'
        )
    return matches


def _named(
    word: str, runs: Sequence[str], damaged: Sequence[str], task: str
) -> List[str]:
    """Returns the runs that 'latest', a pattern or a --run_id stands for.

    Damaged runs, of which nobody knows, are named on stderr.
    """
    if word == LATEST:
        matches = _latest(runs, task)
    elif _MAGIC.search(word):
        matches = [
            run
            for run in runs
            if any(fnmatch.fnmatchcase(called, word) for called in _names_of(run))
        ]
    else:
        matches = [run for run in runs if word in _names_of(run)]
        matches = matches or [run for run in runs if word == _model_of(run)]
    if matches:
        for model_dir in damaged:
            print(
                f'note: {run_files.run_file(model_dir)} is damaged; left out',
                file=sys.stderr,
            )
    return matches


def _latest(runs: Sequence[str], task: str) -> List[str]:
    """Returns the last of runs, or of those of a task; none where there is none."""
    of_task = [d for d in runs if not task or run_files.read(d).task == task]
    if of_task and of_task[-1] != runs[-1]:
        print(
            f'note: {os.path.basename(runs[-1])}, the latest run, is not of {task}s; '
            f'taking {os.path.basename(of_task[-1])}, the latest that is',
            file=sys.stderr,
        )
    return of_task[-1:]


def _names_of(model_dir: str) -> List[str]:
    """Returns the names of a run: its directory, its hash, its --run_id."""
    names = [os.path.basename(model_dir), run_files.hash_of(model_dir)]
    run_id = run_files.read(model_dir).args.get('run_id')
    return [*names, run_id] if run_id and isinstance(run_id, str) else names


def _model_of(model_dir: str) -> str:
    """Returns the --model of a run; '' where its run file cannot be read."""
    try:
        return str(run_files.read(model_dir).args.get('model', ''))
    except (ValueError, OSError):
        return ''  # a damaged file is told of when it is asked for


def _only(folder: str) -> str:
    """Returns the one run in a folder; raises ValueError for none or several."""
    inside = run_files.list_dirs(folder)
    if not inside:
        raise ValueError(f'--dir: {nothing([folder])}')
    if len(inside) > 1:
        raise ValueError(
            f'--dir: {folder} is not called model_<hash>, and holds {len(inside)} '
            f"runs: name one, or '{folder}/latest', or '{folder}/*'"
        )
    return inside[0]


def nothing(folders: Iterable[str], word: str = '', task: str = '') -> str:
    """Says what to do where there is no run at all, of that name, of a task or any."""
    called = f', so none is called {word!r}' if word else ''
    folders = [files.expand(folder) for folder in folders]
    where = '' if len(folders) > 1 else f' --out_dir={folders[0]}'
    return (
        f'there are no runs{f" of {task}s" if task else ""} (model_<hash>) in '
        f'{" or ".join(folders)}{called}; '
        f'train one: tpugraphs train {task or "tile"} --sample_data{where}'
    )


def _listed(runs: Iterable[str]) -> str:
    words = []
    for run in runs:
        name = f'model_{run_files.hash_of(run)[:12]}'
        try:
            run_file = run_files.read(run)
        except (ValueError, OSError):
            words.append(f'{name} (its run file is damaged)')
            continue
        when = f'{run_file.finished:%Y-%m-%d %H:%M}'
        words.append(f'{name} ({text.printable(run_file.args["model"])}, {when})')
        if len(words) == 5:
            break
    return ', '.join(words)
