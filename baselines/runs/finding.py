"""Resolves `--dir` to model directories.

    find('~/out/tpugraphs_tiles/model_0123abcd...')    a model directory
    find('latest')                                     the run finished last
    find('latest', 'tile')                             the last one of tiles
    find('0123')                                       the beginning of its hash
    find('wide')                                       its --run_id
    find('MLP')                                        all runs of a model
    find('pretrained')                                 a run that an extension has
    load('latest')                                     its run file, read

Names without a folder are looked up where trainings write by default; another folder
precedes the name: `~/out/mine/latest`.  A folder alone names the only run in it.
"""

from collections.abc import Iterable, Iterator, Sequence
import contextlib
from importlib import metadata
import os
import re

from baselines import config
from baselines.core import extensions
from baselines.core import files
from baselines.core import text
from baselines.core import untrusted
from baselines.runs import run_files

LATEST = 'latest'
ESTIMATE = 'estimate'  # no run: formulas, for the commands that take them
PRETRAINED = 'pretrained'  # a run of the laboratory, see `core.extensions`
FORMS = "a directory, 'latest', the beginning of a hash, a --run_id or a model"

_SHORTEST = 4  # characters of a hash
_RUN_FILE = re.compile(r'run_(\w+)\.jsonz')


def list_default_folders() -> list[str]:
    """Returns the folders where trainings write by default."""
    return [files.expand(kind.out_dir) for kind in config.CONFIGS.values()]


def prefix_folder(out_dir: str, name: str) -> str:
    """Prefixes the name of a run with a folder, unless it has one, or needs none."""
    if os.path.dirname(name) or name in (ESTIMATE, PRETRAINED, *_list_shipped()):
        return name
    return os.path.join(out_dir, name)


def _list_shipped() -> dict[str, metadata.EntryPoint]:
    """Returns the runs of other distributions, by name."""
    return extensions.find(extensions.RUNS)


@contextlib.contextmanager
def as_flag(flag: str) -> Iterator[None]:
    """Names `flag` instead of --dir, or --dirs, in errors that the block raises."""
    try:
        yield
    except ValueError as error:
        raise ValueError(re.sub('--dirs?', flag, str(error), count=1)) from None


def find(name: str, task: str = '') -> list[str]:
    """Returns the model directories that a name refers to.

    Args:
        name: the words of the user; see above.
        task: 'tile' or 'layout', for 'latest' of those runs alone; a note on stderr
            says so where the last run of all is another.

    Returns:
        At least one, absolute; several for a shared --run_id or the name of a
        model, the oldest first.

    Raises:
        ValueError: there is none, or the name is ambiguous; lists the runs.
    """
    if name == ESTIMATE:
        raise ValueError(
            f"--dir: '{ESTIMATE}' is the untrained estimate, not a run; only --dir of "
            '`rank`, `predict` and `evaluate` accepts it; a run of that name is '
            f'./{ESTIMATE}'
        )
    shipped = _list_shipped()
    if name in shipped:
        name = shipped[name].load()()
    elif name == PRETRAINED:
        raise ValueError(extensions.refer_to_lab(f'--dir: {PRETRAINED}'))
    path = re.sub(f'{_RUN_FILE.pattern}$', r'model_\1', files.expand(name))
    folder, word = os.path.split(name.rstrip('/'))
    if os.path.isdir(path):
        if run_files.hash_of(path):
            return [path]
        folder, word = path, ''  # any run in it
    folders = [files.expand(folder)] if folder else list_default_folders()
    model_dirs = _list_dirs(folders)
    matches = _match(word, model_dirs, task) if word else model_dirs
    if len(matches) > 1 and not word:
        raise ValueError(f"{_explain_ambiguous(path, matches)}; or '{path}/{LATEST}'")
    if matches:
        return matches
    if model_dirs and word != LATEST:
        message = (
            f'no run in {" or ".join(folders)} is called {word!r}; it is {FORMS}. '
            f'The newest are {_list_newest(model_dirs)}; `tpugraphs runs` lists all'
        )
    elif folder and word not in ('', LATEST):
        message = f'there is no directory {path}'
    else:
        message = _explain_renamed(path) or explain_no_runs(folders, task)
    raise ValueError(f'--dir: {message}')


def find_one(name: str, task: str = '') -> str:
    """Returns the one model directory that a name refers to; see `find`.

    Raises:
        ValueError: there is none, or there are several; lists them.
    """
    matches = find(name, task)
    if len(matches) > 1:
        raise ValueError(_explain_ambiguous(name, matches))
    return matches[0]


def find_all(names: Sequence[str], task: str = '') -> list[str]:
    """Returns the model directories of several names, in the order of first mention.

    A run that is named repeatedly is returned once, with a note on stderr.
    """
    named: dict[str, tuple[str, list[str]]] = {}  # by the directory without links
    for name in names:
        for model_dir in find(name, task):
            place = os.path.realpath(model_dir)
            named.setdefault(place, (model_dir, []))[1].append(name)
    for model_dir, called in named.values():
        if len(called) > 1:
            text.note(
                f'{model_dir} is named {len(called)} times '
                f'({", ".join(dict.fromkeys(called))}); it counts once'
            )
    return [model_dir for model_dir, _ in named.values()]


def load(name: str, task: str = '') -> run_files.RunFile:
    """Reads the one run that a name refers to, and makes sure that it has weights.

    Raises:
        ValueError: there is no such run, or its run file is missing or damaged.
    """
    return load_dir(find_one(name, task))


def load_all(names: Sequence[str], task: str = '') -> dict[str, run_files.RunFile]:
    """Reads several runs, by model directory; all names are resolved first."""
    return {model_dir: load_dir(model_dir) for model_dir in find_all(names, task)}


def load_dir(model_dir: str) -> run_files.RunFile:
    """Reads the run of a model directory; see `load`."""
    run = run_files.read(model_dir)
    check_weights(run)
    return run


def check_weights(run: run_files.RunFile) -> None:
    """Makes sure that a run has the checkpoint that it needs, in regular files.

    Raises:
        ValueError: there is none, or one of its files is a pipe or a device.
    """
    if not run.has_model and os.path.lexists(run.trees_file):
        return
    if not run.has_weights:
        raise ValueError(
            f'--dir: {run.model_dir} holds no saved model, or its run file belongs to '
            'another directory; copy both again'
        )
    folder = os.path.dirname(os.path.join(run.model_dir, run_files.WEIGHTS))
    for name in os.listdir(folder):  # TensorFlow opens them itself
        untrusted.open_regular(os.path.join(folder, name)).close()


def list_readable_runs(folder: str = '', task: str = '') -> list[run_files.RunFile]:
    """Returns the runs whose run files can be read, the oldest first.

    Args:
        folder: the folder of the runs; '' for those where trainings write by default.
        task: 'tile' or 'layout'; '' for both.
    """
    folders = [files.expand(folder)] if folder else list_default_folders()
    return [run for run in _read(_list_dirs(folders))[0] if task in ('', run.task)]


def _list_dirs(folders: Iterable[str]) -> list[str]:
    """Returns the model directories in some folders."""
    return [d for folder in folders for d in run_files.list_dirs(folder)]


def _read(model_dirs: Sequence[str]) -> tuple[list[run_files.RunFile], list[str]]:
    """Reads run files, the oldest first; returns runs and damaged directories."""
    runs, damaged = [], []
    for model_dir in model_dirs:
        try:
            runs.append(run_files.read(model_dir))
        except (ValueError, OSError):
            damaged.append(model_dir)
    return sorted(runs, key=lambda run: run.finished), damaged


def _match(word: str, model_dirs: Sequence[str], task: str) -> list[str]:
    """Returns the directories that a word refers to, the oldest run first.

    Damaged runs, which may be among them, are named on stderr.

    Raises:
        ValueError: several hashes begin with the word.
    """
    start = word.removeprefix('model_')
    by_hash = [d for d in model_dirs if run_files.hash_of(d).startswith(start)]
    # Shorter beginnings could be names of models or runs.
    if by_hash and len(start) >= _SHORTEST:
        if len(by_hash) > 1:
            raise ValueError(_explain_ambiguous(word, by_hash))
        return by_hash
    runs, damaged = _read(model_dirs)
    if word == LATEST:
        matches = [run for run in runs if task in ('', run.task)][-1:]
        if matches and matches[0] is not runs[-1]:
            text.note(
                f'model_{runs[-1].hash}, the latest run, is not of {task}s; '
                f'taking model_{matches[0].hash}, the latest that is'
            )
    else:
        matches = [run for run in runs if word == run.args.get('run_id')]
        matches = matches or [run for run in runs if word == run.args['model']]
    for model_dir in damaged if matches else ():
        text.note(f'{run_files.run_file(model_dir)} is damaged; left out')
    return [run.model_dir for run in matches]


def _explain_renamed(folder: str) -> str:
    """Says how to name a saved model that was renamed; '' for another folder."""
    trees = run_files.make_trees_path(folder)
    if not run_files.has_weights(folder) and not os.path.lexists(trees):
        return ''
    parent = os.path.dirname(folder)
    run_hashes = [m[1] for m in map(_RUN_FILE.fullmatch, os.listdir(parent)) if m]
    unused = [h for h in run_hashes if not os.path.isdir(f'{parent}/model_{h}')]
    run_hash = unused[0] if len(unused) == 1 else '<hash>'
    return (
        f'{folder} holds a saved model, but is not called model_<hash>: rename it to '
        f'model_{run_hash}, next to its run file run_{run_hash}.jsonz'
    )


def explain_no_runs(folders: Iterable[str], task: str = '') -> str:
    """Says that folders have no runs, or none of a task, and how to train one."""
    places = [files.expand(folder) for folder in folders]
    where = '' if len(places) > 1 else f' --out_dir={places[0]}'
    return (
        f'there are no runs{f" of {task}s" if task else ""} (model_<hash>) in '
        f'{" or ".join(places)}; '
        f'train one: tpugraphs train {task or "tile"} --sample_data{where}'
    )


def _explain_ambiguous(name: str, model_dirs: Sequence[str]) -> str:
    """Says that a name refers to several runs, where one is needed."""
    number, listed = len(model_dirs), _list_newest(model_dirs)
    return f'--dir: {name!r} names {number} runs; choose one: {listed}'


def _list_newest(model_dirs: Sequence[str]) -> str:
    """Lists the five newest runs, with their models and dates, damaged ones last."""
    runs, damaged = _read(model_dirs)
    parts = [
        f'model_{run.hash[:12]} ({text.printable(run.args["model"])}, '
        f'{run.finished:%Y-%m-%d %H:%M})'
        for run in reversed(runs)
    ]
    parts += [f'model_{run_files.hash_of(d)[:12]} (damaged run file)' for d in damaged]
    return ', '.join(parts[:5])
