"""Asks the published repository's own code about a hand-in: check --published TREE."""

from collections.abc import Iterator
import csv
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from baselines.core import files
from baselines.core import registry
from baselines.core import text
from baselines.runs import run_files
from tpugraphs.handin import grading
from tpugraphs.handin import verdict

_TILES = pathlib.PurePath('tpu_graphs/baselines/tiles')
_OUTPUT = 'predictions_output_model.csv'
_LIBRARIES = ('tensorflow_ranking', 'pandas', 'tqdm')
_OURS = re.compile(r'^\s*(from|import) baselines\b', re.MULTILINE)
_ERROR = re.compile(r'[\w.]*(Error|Exception|Exit)\b')
# The script's own folder comes first on sys.path, as with `python SCRIPT`.
_WRAPPER = """
import runpy, sys
sys.modules.update(baselines=None, tpugraphs=None)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name='__main__')
"""


def check(
    hand_in: verdict.HandIn, tree: str, script: str = ''
) -> Iterator[verdict.Line]:
    """Runs the course's script on a hand-in, in a temporary copy of a clone.

    Args:
        tree: the clone of the published repository.
        script: the course's script; '' for the one in the clone.

    Raises:
        ValueError: there is no such clone, script or environment; or the hand-in is
            not for it.
    """
    run = hand_in.run
    if run is None:
        raise ValueError('--published needs the run that is handed in: --dir')
    if run.args.get('sample_data'):
        raise ValueError(
            f'--published: {run.model_dir} was trained on --sample_data, which the '
            'published code cannot read: train on tile:xla'
        )
    root = pathlib.Path(files.expand(tree))
    path = pathlib.Path(files.expand(script) if script else root / grading.SCRIPT)
    if not (root / _TILES / 'models.py').is_file():
        raise ValueError(f'--published: there is no {_TILES}/models.py in {root}')
    if not path.is_file():
        raise ValueError(f"there is no {path}: name the course's script with --script")
    if _OURS.search(path.read_text(encoding='utf-8', errors='replace')):
        raise ValueError(
            f"{path} is this package's script: name the course's with --script"
        )
    absent = [name for name in _LIBRARIES if not importlib.util.find_spec(name)]
    if absent:
        raise ValueError(
            f'--published needs {", ".join(absent)}, which this environment lacks: use '
            'Python 3.10 or 3.11 with `pip install tensorflow-ranking pandas tqdm`'
        )
    text.note(f'running {path}; with all test kernels it takes minutes')
    subject = os.path.basename(run.model_dir)
    with tempfile.TemporaryDirectory() as folder:
        # The script replaces every `/model_` in the path of the directory.
        if '/model_' in folder:
            raise ValueError(f'TMPDIR must not contain /model_: {folder}')
        words = _lay_out(hand_in, run, root, path, pathlib.Path(folder))
        done = subprocess.run(
            words, cwd=f'{folder}/tree', capture_output=True, text=True, check=False
        )
        output = pathlib.Path(folder, 'tree', _OUTPUT)
        if done.returncode or not output.exists():
            ended = _cause(done.stderr) if done.returncode else f'no {_OUTPUT}'
            note = f'{grading.SCRIPT} of {root} ended with {ended}'
            return (yield verdict.Line('FIX', subject, note))
        with open(output, newline='', encoding='utf-8') as stream:
            rows = dict(csv.reader(stream))
    rows.pop('ID', None)
    note = f'{grading.SCRIPT} of {root} ranks {text.count(len(rows), "kernel")}'
    try:
        scores = grading.predict(hand_in, run)
        chosen = {row_id: row.split(';') for row_id, row in rows.items()}
        differing = grading.count_differing(scores, chosen)
        note += f', {differing} of them otherwise than this package'
    except (Exception, SystemExit) as error:
        wrong = registry.describe_error(error, hand_in.path)
        note += f'; this package cannot: {wrong}'
    yield verdict.Line('ok', subject, note)


def _lay_out(
    hand_in: verdict.HandIn,
    run: run_files.RunFile,
    root: pathlib.Path,
    script: pathlib.Path,
    folder: pathlib.Path,
) -> list[str]:
    """Copies the clone and the hand-in into a folder; returns the script's command."""
    tree, model_dir = folder / 'tree', folder / os.path.basename(run.model_dir)
    shutil.copytree(root, tree, ignore=shutil.ignore_patterns('.git', '__pycache__'))
    shutil.copy(hand_in.path, tree / _TILES / 'models.py')
    shutil.copy(script, tree / grading.SCRIPT)
    shutil.copytree(run.model_dir, model_dir)
    shutil.copy(run.file, run_files.run_file(str(model_dir)))
    words = [f'--dir={model_dir}', f'--cache_dir={folder / "cache"}']
    if hand_in.data_root:
        words.append(f'--data_root={files.expand(hand_in.data_root)}')
    if hand_in.toy_data:
        words.append('--toy_data')
    return [sys.executable, '-c', _WRAPPER, grading.SCRIPT, *words]


def _cause(stderr: str) -> str:
    """Returns the last line of a traceback that names an error, and its place."""
    lines = stderr.strip().splitlines()
    named = [line for line in lines if _ERROR.match(line)]
    places = re.findall(r'models\.py", line (\d+)', stderr)
    place = f' (models.py, line {places[-1]})' if places else ''
    cause = (named or lines or ['no message'])[-1]
    return f'{text.printable(cause)}{place}'
