"""Checks what a student of a course hands in, as a grader uses it.

    for line in check('models.py', '~/out/tpugraphs_tiles/model_0123'):
        print(line)

The hand-in is a models.py, a model directory and its run file.
"""

from collections.abc import Iterator
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import baselines
from baselines import config
from baselines.core import files
from baselines.core import registry
from baselines.core import settings as settings_lib
from baselines.core import starting
from baselines.core import text
from baselines.data import collections
from baselines.evaluation import submission
from baselines.features import normalizer as normalizer_lib
from baselines.runs import finding
from baselines.runs import run_files
from baselines.scoring import prediction
from baselines.tasks import lookup

if TYPE_CHECKING:
    from tpugraphs.handin import conformance

_SCRIPT = 'tiles_gen_predictions_csv.py'
_MODELS = 'baselines/tiles/models.py'
# Settings whose runs the published tree cannot read: trees, and other columns.
_ONLY_HERE = ('trees', 'columns', 'extra')

_Rows = dict[str, tuple[int, ...]]  # ID -> the best configurations


def check(
    models_file: str, model_dir: str, data_root: str
) -> Iterator['conformance.Line']:
    """Checks a models.py by itself and, if there is a model directory, with that.

    Args:
        models_file: its code is run; 'models.py:Name' for one of its classes.
        model_dir: a run, as `finding.load` takes it; '' for none.
        data_root: folder with the splits; '' for where the run was trained.

    Raises:
        ValueError: there is no such file or run, or the file cannot be imported.
    """
    path, colon, name = models_file.rpartition(':')
    path, name = (path, name) if colon else (models_file, '')
    path = os.path.abspath(files.expand(path))
    if not os.path.isfile(path):
        raise ValueError(f'there is no file {path}')
    run = finding.load(model_dir, 'tile') if model_dir else None
    starting.start_tensorflow()
    from tpugraphs.handin import conformance

    imports = lambda: conformance.check_imports(path)
    yield conformance.tried(os.path.basename(path), 'imports', imports)
    models = registry.models_in(registry.load_models_file(path, 'tiles'))
    if name:
        models = {name: registry.resolve(name, models, f'model in {path}')}
    for model_class in registry.distinct(models).values():
        is_trained = run and run.args['model'] == model_class.__name__
        kwargs = run.args.get('model_kwargs_json') if run and is_trained else ''
        yield from conformance.check(
            model_class, settings_lib.parse_model_kwargs(kwargs or '{}')
        )
    if run:
        yield from _grade(path, run, data_root)


def _grade(
    path: str, run: run_files.RunFile, data_root: str
) -> Iterator['conformance.Line']:
    """Ranks the test kernels in a copy of this tree with another models.py."""
    subject = os.path.basename(run.model_dir)
    rankings: list = []
    from tpugraphs.handin import conformance

    def grade() -> None:
        _require_gradable(path, run)
        conformance.load_as_a_grader(run.model_dir)
        with tempfile.TemporaryDirectory() as folder:
            rankings.extend(_rankings(run, data_root, _copy_of_tree(path, folder)))
        trained = run.info.get('test_predictions') or {}
        expected = {row_id: tuple(configs) for row_id, configs in trained.items()}
        if differing := _differing(rankings[0], expected):
            raise ValueError(
                f'{differing} differ from those of the training: hand in the models.py '
                'that it was trained with'
            )

    yield conformance.tried(subject, f'{_SCRIPT} ranks as the training did', grade)
    if rankings:
        ours, theirs, few = rankings
        note = f"the course's script ranks {text.count(len(ours), 'row')}"
        if differing := _differing(ours, theirs):
            note += (
                f', {differing} of them otherwise: it scales features by {few} '
                'training kernels with fewer than --configs tiles, too; this is fine'
            )
        yield conformance.Line(True, subject, note)


def _require_gradable(path: str, run: run_files.RunFile) -> None:
    """Raises ValueError for a run that the published tree cannot read."""
    refused = [f'--{name}' for name in _ONLY_HERE if run.args.get(name)]
    if refused or not run.has_model:
        raise ValueError(f'train without {" ".join(refused) or "--model=Trees"}')
    models = registry.models_in(registry.load_models_file(path, 'tiles'))
    registry.resolve(run.args['model'], models, f'model in {path}')


def _sizes(scaled: normalizer_lib.Scaling) -> str:
    """Describes the sizes of a model's inputs."""
    used = scaled.normalizer.node_used.sum(), scaled.normalizer.config_used.sum()
    return f'{scaled.num_ops} opcodes and {used[0]} + {used[1]} columns'


def _differing(rows: _Rows, others: _Rows) -> int:
    """Counts the IDs whose best configurations differ, or that only one has."""
    return sum(rows.get(row_id) != others.get(row_id) for row_id in {**rows, **others})


def _copy_of_tree(models_file: str, folder: str) -> pathlib.Path:
    """Makes a copy of this package, by links, with another models.py; returns it."""
    root, tree = pathlib.Path(baselines.__file__).parents[1], pathlib.Path(folder)
    place = tree / _MODELS
    place.parent.mkdir(parents=True)
    shutil.copy(models_file, place)
    shutil.copy(root / _SCRIPT, tree)
    for copy in (tree / 'baselines', place.parent):
        for original in (root / copy.relative_to(tree)).iterdir():
            # A link to byte-code would put that of the other models.py into ours.
            if original.name != '__pycache__' and not (copy / original.name).exists():
                (copy / original.name).symlink_to(original)
    return tree


def _rankings(
    run: run_files.RunFile, data_root: str, tree: pathlib.Path
) -> tuple[_Rows, _Rows, int]:
    """Ranks the test kernels with two scalings: the training's, the course's script's.

    Returns:
        Both rankings, and the number of training kernels that only the second counts.

    Raises:
        ValueError: the script fails.
    """
    collection = run.collection.part('', run.model_dir)
    options = prediction.resolve(prediction.Options(data_root), collection, run)
    train, *others = (
        lookup.TASKS[collection.task].store_class.open_collection(
            collection, options, split
        )
        for split in collections.SPLITS
    )
    num_ops = normalizer_lib.num_ops(*(s.max_opcode for s in (train, *others)))
    fitted = normalizer_lib.Scaling(normalizer_lib.Normalizer.fit(train), num_ops)
    ours, theirs = (
        _sizes(normalizer_lib.Scaling.from_json(run.info) or fitted),
        _sizes(fitted),
    )
    if ours != theirs:
        raise ValueError(
            f"the course's script makes a model of {theirs}, which occur in all "
            f'kernels, and this one is of {ours}: train on the whole collection'
        )
    normalizer = fitted.normalizer.to_json()
    scaled = {**run.info, 'normalizer': normalizer, 'num_ops': num_ops}
    if run.digests:
        scaled = run_files.signed(scaled, run.digests['weights'])
    words = [sys.executable, _SCRIPT, f'--data_root={data_root}', '--output=out.csv']
    for name, info in (('training', run.info), ('course', scaled)):
        model_dir = tree / f'model_{name}'
        shutil.copytree(run.model_dir, model_dir)
        with gzip.open(run_files.run_file(str(model_dir)), 'wt') as stream:
            json.dump(info, stream)
        words.append(f'--dir={model_dir}')
    done = subprocess.run(words, cwd=tree, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ['it failed'])[-1]
        raise ValueError(last.removeprefix('error: '))
    rows, course = (
        dict(submission.read_predictions(str(tree / f'out_{name}.csv')))
        for name in ('training', 'course')
    )
    configs = run.args.get('configs', config.TileConfig.configs)
    return rows, course, int((train.config_counts < configs).sum())
