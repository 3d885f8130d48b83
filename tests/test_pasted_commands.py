"""Commands and Python of README and docs, run as they are pasted."""

import importlib.util
import re

import pytest

from baselines.runs import saved
from baselines.tiles import models as tile_models
from tests.helpers import documents
from tests.helpers import finished_runs
from tests.helpers import hlo_modules
from tests.helpers import layout_runs
from tests.helpers import tile_records
from tests.helpers import tiny_models
import tpugraphs

pytestmark = pytest.mark.slow

_DOCUMENTS = documents.documents()

# Patterns of commands that are not run, and why; their flags are checked all the same.
_SKIPPED = {
    r'pip install|pre-commit|-m venv': 'needs a network',
    r'tpugraphs download': 'needs a network, and 40 GB',
    r'ruff|mypy|lint-imports|-m pytest|-m tests\.': 'checks of the code, which CI runs',
    r'mkdocs': 'CI runs it',
    r'echo_download_commands': 'needs a network; tests/test_package.py runs it',
    r'create_kaggle_csv': "needs Kaggle's template; test_combine.py runs it",
    r'tpugraphs check': 'needs a SavedModel; test_portability.py runs it',
    r'tpugraphs compete': 'trains five models; test_compete.py runs it',
    r'tpugraphs sweep|best\.json': 'needs Optuna and many trainings',
    r'python benchmarks/': 'takes minutes to hours',
    r'--runner=': 'needs a cluster, or all cores',
    r'--strategy=': 'needs several devices or processes',
    r'sample_submission\.csv': "needs Kaggle's template",
    r'--seed=3|--seed=2 .*/compared': 'trains as another seed does',
    r'--model=MyModel --models_file': 'README trains it, with --epochs',
    r'--folds=': 'test_cross_validation.py trains folds',
    r'/out/leaderboard': 'README and guide/models.md train such models',
}
if not importlib.util.find_spec('jinja2'):
    _SKIPPED['tpugraphs report'] = 'needs jinja2, which an installation brings'

# Whose blocks of Python are run, but for the client of models.md, which
# `tests/runs/test_export.py` runs, and a table that `test_score_files.py` makes.
_PYTHON = [
    document
    for document in _DOCUMENTS
    if any(block.language == 'python' for block in documents.blocks(document))
]
_NOT_RUN = r'sys\.argv|pandas'

_TRAINING = r'(tiles|layout)_train|tpugraphs train (tile|layout)'
# The first command of README, a model of one's own, and two that are compared.
_MODEL_MATTERS = r'--sample_data --epochs=20|/out/mine|/out/compared'
_TREES = ['--model=Trees', '--model_kwargs_json={"trees": 4}']
_SMALL = ['--toy_data', '--epochs=1', '--batch=2', '--validation_configs=20']


def _is_skipped(command):
    return any(re.search(pattern, command) for pattern in _SKIPPED)


def _smaller(words):
    """Flags that make a training small; the last of a name counts."""
    command = ' '.join(words)
    if not re.search(_TRAINING, command):
        return []
    # Where the model does not matter, one that needs no TensorFlow; the last counts.
    return _SMALL if re.search(_MODEL_MATTERS, command) else [*_SMALL, *_TREES]


@pytest.fixture(name='shell', scope='module')
def _shell(tmp_path_factory):
    """A bash whose commands work on few small kernels and programs."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp('documents')
        shell = documents.Shell(folder, _is_skipped, _smaller)
        patch.setenv('HOME', str(shell.home))
        patch.setattr(saved, 'save_model', finished_runs.save_weights)
        # Models of these names that are compiled in a moment.
        for name in ('MLP', 'LateJoinSAGE', 'EarlyJoinSAGE'):
            fields = {'__module__': tile_models.__name__}
            stand_in = type(name, (tiny_models.Tiny,), fields)
            patch.setattr(tile_models, name, stand_in)
        # What `tpugraphs download` would bring, and raw files of one's own.
        data = shell.home / 'data/tpugraphs/npz'
        tile_records.write_splits(data / 'tile/xla')
        for place in ('xla/random', 'xla/default', 'nlp/random', 'nlp/default'):
            layout_runs.write_splits(data / 'layout' / place)
        _write_raw(shell.home / 'raw')
        # `latest` is there, whichever document is tested.
        shell.paste(documents.Block('', 0, 'sh', 'tpugraphs train tile --sample_data'))
        yield shell


def _write_raw(folder):
    folder.mkdir()
    for number in range(8):
        runs = [
            hlo_modules.tile_run(1000 * size, size == 1, output_bounds=[size, 3])
            for size in range(1, 13)
        ]
        tunings = [
            hlo_modules.tuning(hlo_modules.chain(f'fusion.{k}'), runs, 10 * number + k)
            for k in range(4)
        ]
        content = hlo_modules.tile_file(*tunings)
        (folder / f'program_{number + 1}.pb').write_bytes(content)


@pytest.mark.parametrize('document', _DOCUMENTS)
def test_commands_run_as_pasted(document, shell):
    """Block after block, in one home folder for all documents, README first."""
    for block in documents.blocks(document):
        if block.language == 'sh':
            shell.paste(block)


@pytest.mark.parametrize('document', _PYTHON)
def test_python_runs_as_pasted(document, shell, monkeypatch):
    """Block after block, in one session; trainings are made small."""
    small = {'model': 'MLP', 'toy_data': True, 'epochs': 1, 'batch': 2}
    train = tpugraphs.train
    monkeypatch.setattr(tpugraphs, 'train', lambda *a, **k: train(*a, **{**k, **small}))
    monkeypatch.chdir(shell.folder)
    names = {}
    for block in documents.blocks(document):
        if block.language == 'python' and not re.search(_NOT_RUN, block.text):
            code = compile(block.text, f'{document}:{block.line}', 'exec')
            exec(code, names)
