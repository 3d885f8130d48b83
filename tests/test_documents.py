"""Links and flags of README and docs, and their commands, run as they are pasted."""

import importlib.util
import re
import types

import pytest

from baselines.layout import models as layout_models
from baselines.runs import saved
from baselines.tiles import models as tile_models
from tests.helpers import documents
from tests.helpers import finished_runs
from tests.helpers import hlo_modules
from tests.helpers import layout_runs
from tests.helpers import tile_records
from tests.helpers import tiny_layout_models
from tests.helpers import tiny_models
import tpugraphs

_DOCUMENTS = documents.documents()

# Patterns of commands that are not run, and why; their flags are checked all the same.
_SKIPPED = {
    r'pip install|pre-commit|-m venv': 'needs a network',
    r'tpugraphs download': 'needs a network, and 40 GB',
    r'ruff|mypy|lint-imports|-m pytest|-m tests\.': 'checks of the code, which CI runs',
    r'mkdocs': 'CI runs it',
    r'tpugraphs (collect|tune|records)': 'needs jaxlib and a quiet machine',
    r'tpugraphs show .* --time': 'needs jaxlib and a quiet machine',
    r'tpugraphs compete': 'trains five models; test_compete.py runs it',
    r'tpugraphs sweep|best\.json': 'needs Optuna and many trainings',
    r'python benchmarks/': 'takes minutes to hours',
    r'--runner=': 'needs a cluster, or all cores',
    r'--strategy=': 'needs several devices or processes',
    r'sample_submission\.csv': "needs Kaggle's template",
    r'--data_root=(out|~/out/measured)': 'needs what was collected',
}
if not importlib.util.find_spec('jax'):
    _SKIPPED[r'jax_step'] = 'needs jax, which no extra brings'
if not importlib.util.find_spec('jinja2'):
    _SKIPPED['tpugraphs report'] = 'needs jinja2, which an installation brings'

# Whose blocks of Python are run, but for those that measure, and the client of
# models.md, which `tests/runs/test_export.py` runs.
_PYTHON = [
    document
    for document in _DOCUMENTS
    if any(block.language == 'python' for block in documents.blocks(document))
]
_NOT_RUN = r'tpugraphs\.tune\(|load_program\(|sys\.argv'

_TRAINING = r'(tiles|layout)_train|tpugraphs train (tile|layout)'
_SMALL = ['--toy_data', '--epochs=1', '--batch=2', '--validation_configs=20']


def _is_skipped(command):
    return any(re.search(pattern, command) for pattern in _SKIPPED)


def _smaller(words):
    """Flags that make a training small; the last of a name counts."""
    command = ' '.join(words)
    if not re.search(_TRAINING, command):
        return []
    if '--model' in command:
        return _SMALL
    tiles = re.search('tiles_train|train tile', command)
    return [*_SMALL, '--model=MLP' if tiles else '--model=ResModel']


def _prose(document):
    """The text of a document without its fenced blocks."""
    text = (documents.ROOT / document).read_text(encoding='utf-8')
    return re.sub(r'^```.*?^```$', '', text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize('document', _DOCUMENTS)
def test_flags_of_commands_exist(document, tmp_path):
    shell = documents.Shell(tmp_path, lambda command: True, lambda words: [])
    for block in documents.blocks(document):
        if block.language == 'sh':
            shell.paste(block)


@pytest.mark.parametrize('document', _DOCUMENTS)
def test_commands_stand_in_blocks_of_a_shell(document):
    for block in documents.blocks(document):
        if block.language != 'sh':
            command = r'^(\$ )?(tpugraphs|python|pip) \S'
            assert not re.search(command, block.text, re.MULTILINE), block.text
    command = r'^ {4}(tpugraphs|python|pip) \S'
    assert not re.search(command, _prose(document), re.MULTILINE)


@pytest.mark.parametrize('document', _DOCUMENTS)
def test_commands_in_sentences_exist(document):
    for quoted in re.findall(r'`((?:tpugraphs|python) [^`]*)`', _prose(document)):
        name, *rest = quoted.split()
        if name == 'python' and rest[0].endswith('.py'):
            assert documents.complaint([name, *rest]) == '', quoted
        if name == 'tpugraphs' and rest[0].islower():
            assert rest[0] in documents.commands.names(), quoted


@pytest.mark.parametrize('document', _DOCUMENTS)
def test_links_lead_somewhere(document):
    folder = (documents.ROOT / document).parent
    for path, heading in re.findall(r'\]\(([^)#\s]*)#?([^)\s]*)\)', _prose(document)):
        if '://' in path:
            continue
        target = folder / path if path else documents.ROOT / document
        assert target.exists(), path
        assert not heading or heading in _anchors(target), (path, heading)


def _anchors(page):
    """The names that a page's headings have in links."""
    headings = re.findall(r'^#+ (.*)$', page.read_text(encoding='utf-8'), re.MULTILINE)
    return {re.sub(r'[^\w -]', '', h).lower().replace(' ', '-') for h in headings}


def test_every_page_is_in_the_navigation_of_the_site():
    listed = (documents.ROOT / 'mkdocs.yml').read_text(encoding='utf-8')
    for path in (documents.ROOT / 'docs').rglob('*.md'):
        page = path.relative_to(documents.ROOT / 'docs').as_posix()
        assert f': {page}\n' in listed, page


def test_pictures_of_the_first_page_are_on_the_site():
    spec = importlib.util.spec_from_file_location(
        'site_hooks', documents.ROOT / 'docs/site_hooks.py'
    )
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_uri='index.md'))
    there = lambda path: (documents.ROOT / 'docs' / path).exists() or None
    files = types.SimpleNamespace(get_file_from_path=there)
    readme = (documents.ROOT / 'README.md').read_text(encoding='utf-8')
    shown = hooks.on_page_markdown(readme, page, files)
    pictures = re.findall(r'!\[[^\]]*\]\(([^)]*)\)', shown)
    assert pictures and all(map(there, pictures))


def test_every_benchmark_has_its_line():
    text = (documents.ROOT / 'benchmarks/README.md').read_text(encoding='utf-8')
    for path in (documents.ROOT / 'benchmarks').glob('*.py'):
        assert f'`{path.name}`' in text, path.name
        if '.parser(__doc__' in path.read_text(encoding='utf-8'):
            assert f'`python benchmarks/{path.name}' in text, path.name


@pytest.fixture(name='shell', scope='module')
def _shell(tmp_path_factory):
    """A bash whose commands work on few small kernels and programs."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp('documents')
        shell = documents.Shell(folder, _is_skipped, _smaller)
        patch.setenv('HOME', str(shell.home))
        patch.setattr(saved, 'save_model', finished_runs.save_weights)
        # Models of these names that are compiled in a moment.
        for module, name, tiny in (
            (tile_models, 'MLP', tiny_models.Tiny),
            (tile_models, 'LateJoinSAGE', tiny_models.Tiny),
            (tile_models, 'EarlyJoinSAGE', tiny_models.Tiny),
            (layout_models, 'ResModel', tiny_layout_models.Tiny),
        ):
            stand_in = type(name, (tiny,), {'__module__': module.__name__})
            patch.setattr(module, name, stand_in)
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


@pytest.mark.slow
@pytest.mark.parametrize('document', _DOCUMENTS)
def test_commands_run_as_pasted(document, shell):
    """Block after block, in one home folder for all documents, README first."""
    for block in documents.blocks(document):
        if block.language == 'sh':
            shell.paste(block)


@pytest.mark.slow
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
