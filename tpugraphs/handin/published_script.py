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
from typing import Any

from baselines.core import files
from baselines.core import registry
from baselines.core import text
from baselines.runs import run_files
from tpugraphs.handin import grading
from tpugraphs.handin import verdict

_MODELS = 'tpu_graphs/baselines/tiles/models.py'
_OUTPUT = 'predictions_output_model.csv'
_LIBRARIES = ('tensorflow_ranking', 'pandas', 'tqdm')
_OURS = re.compile(r'^\s*(from|import) baselines\b', re.MULTILINE)
# The working folder comes first on sys.path, as that of the script does.
# None in sys.modules: an import of this package raises, as on a machine without it.
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
    run: Any = hand_in.run
    root = pathlib.Path(files.expand(tree))
    path = pathlib.Path(files.expand(script) if script else root / grading.SCRIPT)
    _require(run, 'name the run that is handed in with --dir')
    is_sample = run.args.get('sample_data')
    _require(not is_sample, f'{run.model_dir} is of --sample_data: train on tile:xla')
    _require((root / _MODELS).is_file(), f'there is no {_MODELS} in {root}')
    name_it = "name the course's script with --script"
    _require(path.is_file(), f'there is no {path}: {name_it}')
    content = path.read_text(encoding='utf-8', errors='replace')
    _require(not _OURS.search(content), f"{path} is this package's: {name_it}")
    absent = [name for name in _LIBRARIES if not importlib.util.find_spec(name)]
    advice = 'use Python 3.10 or 3.11 and pip install tensorflow-ranking pandas tqdm'
    _require(not absent, f'this environment lacks {", ".join(absent)}: {advice}')
    text.note(f'running {path}; with all test kernels it takes minutes')
    subject = os.path.basename(run.model_dir)
    with tempfile.TemporaryDirectory() as name:
        # The script replaces every `/model_` in the path of the directory.
        _require('/model_' not in name, f'TMPDIR must not contain /model_: {name}')
        copy, model_dir = pathlib.Path(name, 'tree'), os.path.join(name, subject)
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns('.git'))
        shutil.copy(hand_in.path, copy / _MODELS)
        shutil.copy(path, copy / grading.SCRIPT)
        shutil.copytree(run.model_dir, model_dir)
        shutil.copy(run.file, run_files.run_file(model_dir))
        words = [f'--dir={model_dir}', f'--cache_dir={name}/cache']
        if hand_in.data_root:
            words.append(f'--data_root={files.expand(hand_in.data_root)}')
        words += ['--toy_data'] * hand_in.toy_data
        words = [sys.executable, '-c', _WRAPPER, grading.SCRIPT, *words]
        done = subprocess.run(words, cwd=copy, capture_output=True, text=True)
        output = copy / _OUTPUT
        note = f'{grading.SCRIPT} of {root}'
        if done.returncode or not output.exists():
            note += f': {_find_cause(done.stderr)}' if done.returncode else ': no CSV'
            return (yield verdict.Line('FIX', subject, note))
        with open(output, newline='', encoding='utf-8') as stream:
            rows = {row_id: row.split(';') for row_id, row in csv.reader(stream)}
    rows.pop('ID', None)  # the head of the table
    note += f' ranks {text.count(len(rows), "kernel")}'
    try:
        differing = grading.count_differing(grading.score_hand_in(hand_in, run), rows)
        note += f', {differing} of them otherwise than this package'
    except (Exception, SystemExit) as error:
        wrong = registry.describe_error(error, hand_in.path)
        note += f'; this package cannot: {wrong}'
    yield verdict.Line('ok', subject, note)


def _require(is_right: object, message: str) -> None:
    """Raises ValueError with `message`, which names --published, unless `is_right`."""
    if not is_right:
        raise ValueError(f'--published: {message}')


def _find_cause(stderr: str) -> str:
    """Returns the last line of a traceback that names an error, and its place."""
    lines = stderr.strip().splitlines()
    named = [x for x in lines if re.match(r'[\w.]*(Error|Exception|Exit)\b', x)]
    places = re.findall(r'models\.py", line \d+', stderr)
    place = f' ({places[-1]})'.replace('"', '') if places else ''
    return text.printable((named or lines or ['it failed'])[-1]) + place
