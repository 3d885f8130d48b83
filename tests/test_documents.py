"""Every command of README and docs runs as it is pasted, on small settings."""

import functools
import importlib.util
import re

import pytest

from baselines.layout import models as layout_models
from baselines.runs import saved
from baselines.tiles import models as tile_models
from tests.helpers import documents
from tests.helpers import finished_runs
from tests.helpers import hlo_modules
from tests.helpers import synthetic
from tests.helpers import tiny_layout_models
from tests.helpers import tiny_models

_DOCUMENTS = documents.documents()
_SHELL = [b for d in _DOCUMENTS for b in documents.blocks(d) if b.language == 'sh']

# What is not run, by a pattern, and why; its flags are checked all the same.
_SKIPPED = {
    r'pip install|pre-commit|-m venv': 'needs a network',
    r'tpugraphs download': 'needs a network, and 40 GB',
    r'ruff|mypy|-m pytest|-m tests\.': 'checks of the code, which CI runs',
    r'tpugraphs (collect|tune)': 'needs jaxlib and a quiet machine',
    r'tpugraphs sweep|best\.json': 'needs Optuna and many trainings',
    r'python benchmarks/': 'takes minutes to hours',
    r'--runner=|^dask ': 'needs a cluster, or all cores',
    r'--strategy=': 'needs several devices or processes',
    r'sample_submission\.csv': "needs Kaggle's template",
    r'\.\./shared': 'needs the real data beside the repository',
    r'--data_root=out': 'needs what was collected',
}
if not importlib.util.find_spec('jinja2'):
    _SKIPPED['tpugraphs report'] = 'needs jinja2, which an installation brings'
# What makes the others small: words that are added, of which the last of a name wins.
_SMALLER = {
    r'(tiles|layout)_train|tpugraphs train (tile|layout)': (
        *('--toy_data', '--epochs=1', '--batch=2', '--validation_configs=20'),
    )
}


def _found(table, words):
    line = ' '.join(words)
    for pattern, value in table.items():
        if re.search(pattern, line):
            return value
    return None


def _place(block):
    return f'{block.document}:{block.line}'


def _prose(text):
    """A document without its fenced blocks."""
    return re.sub(r'^```.*?^```$', '', text, flags=re.MULTILINE | re.DOTALL)


def test_there_are_commands():
    assert len(_SHELL) > 10


@pytest.mark.parametrize('block', _SHELL, ids=_place)
def test_flags_and_files_of_commands_exist(block):
    wrong = {
        ' '.join(words): documents.complaint(words)
        for words in block.commands()
        if documents.complaint(words)
    }
    assert not wrong
    # A shell takes <hash> for a file to read from.
    assert not re.search(r'<\w+>', block.text)


@pytest.mark.parametrize('document', _DOCUMENTS)
def test_commands_stand_in_blocks_of_a_shell(document):
    text = (documents.ROOT / document).read_text(encoding='utf-8')
    for block in documents.blocks(document):
        if block.language != 'sh':
            assert not re.search(
                r'^(\$ )?(tpugraphs|python|pip) \S', block.text, re.MULTILINE
            ), _place(block)
    assert not re.search(r'^ {4}(tpugraphs|python|pip) \S', _prose(text), re.MULTILINE)


@pytest.mark.parametrize('document', _DOCUMENTS)
def test_commands_in_sentences_exist(document):
    text = (documents.ROOT / document).read_text(encoding='utf-8')
    for quoted in re.findall(r'`((?:tpugraphs|python) [^`]*)`', _prose(text)):
        words = ' '.join(quoted.split()).split()
        name = words[1] if words[0] == 'tpugraphs' else ''
        if name and name != 'NAME' and not name.startswith(('<', '-')):
            assert name in documents.commands.names(), quoted
        if words[0] == 'python' and words[1].endswith('.py'):
            assert documents.complaint(words) == '', quoted


@pytest.mark.parametrize('document', _DOCUMENTS)
def test_links_lead_somewhere(document):
    path = documents.ROOT / document
    for link in re.findall(r'\]\(([^)#\s]+)', path.read_text(encoding='utf-8')):
        if '://' not in link:
            assert (path.parent / link).exists(), link


def test_every_benchmark_has_its_line():
    text = (documents.ROOT / 'benchmarks/README.md').read_text(encoding='utf-8')
    for path in (documents.ROOT / 'benchmarks').glob('*.py'):
        assert f'`{path.name}`' in text, path.name
        if '.parser(__doc__' in path.read_text(encoding='utf-8'):
            assert f'`python benchmarks/{path.name}' in text, path.name


@pytest.fixture(name='shell', scope='module')
def _shell(tmp_path_factory):
    """A bash whose commands work on few small kernels and programs."""

    def smaller(words):
        added = [*(_found(_SMALLER, words) or ())]
        if '--toy_data' in added and '--model' not in ' '.join(words):
            tiles = {'tiles_train.py', 'tile'} & set(words[:3])
            added.append('--model=MLP' if tiles else '--model=ResModel')
        return added

    with pytest.MonkeyPatch.context() as patch:
        shell = documents.Shell(
            tmp_path_factory.mktemp('documents'),
            functools.partial(_found, _SKIPPED),
            smaller,
        )
        patch.setenv('HOME', str(shell.home))
        patch.setattr(saved, 'save_model', finished_runs.save_weights)
        # Two models of these names that are compiled in a moment.
        for module, name, tiny in (
            (tile_models, 'MLP', tiny_models.Tiny),
            (layout_models, 'ResModel', tiny_layout_models.Tiny),
        ):
            stand_in = type(name, (tiny,), {'__module__': module.__name__})
            patch.setattr(module, name, stand_in)
        # What `tpugraphs download` would bring, and raw files of one's own.
        data = shell.home / 'data/tpugraphs/npz'
        synthetic.write_kernels(str(data / 'tile/xla'), 6, 3, 3)
        places = 'xla/random xla/default nlp/random nlp/default'.split()
        synthetic.write_programs(str(data / 'layout'), 2, 1, 1, subfolders=places)
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


@pytest.mark.slow
@pytest.mark.parametrize('document', [d for d in _DOCUMENTS if d != 'CONTRIBUTING.md'])
def test_commands_run_as_pasted(document, shell):
    """Block after block, in one home folder for all documents, README first."""
    for block in documents.blocks(document):
        if block.language == 'sh':
            shell.paste(block)
