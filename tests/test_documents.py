"""Links of README and docs, and the flags of their commands."""

import importlib
import importlib.util
import inspect
import re
import types

import pytest

from tests.helpers import documents
import tpugraphs

_DOCUMENTS = documents.documents()


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
            # The laboratory may be missing; its own tests check its commands.
            assert rest[0] in [*documents.commands.list_commands(), 'lab'], quoted


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


def test_the_api_page_has_every_public_name():
    """Each is shown with its signature, and is in the examples."""
    page, guide = (
        (documents.ROOT / 'docs' / path).read_text(encoding='utf-8')
        for path in ('api.md', 'guide/python.md')
    )
    shown = dict(
        reversed(n.rsplit('.', 1)) for n in re.findall('^::: (.*)$', page, re.M)
    )
    assert sorted(shown) == sorted(tpugraphs.__all__)
    for name, module in shown.items():
        assert getattr(tpugraphs, name) is getattr(
            importlib.import_module(module), name
        )
        assert inspect.getdoc(getattr(tpugraphs, name)), name
        assert name in guide, name
    blocks = ' '.join(block.text for block in documents.blocks('docs/api.md'))
    for name in set(tpugraphs.__all__) - {'Catalogue', 'Run', 'Runs'}:
        name = name.removesuffix('_records')
        assert re.search(rf'\b{name}\b', blocks), name


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


def test_every_benchmark_has_its_line(folder='benchmarks'):
    text = (documents.ROOT / folder / 'README.md').read_text(encoding='utf-8')
    for path in (documents.ROOT / folder).glob('*.py'):
        assert f'`{path.name}`' in text, path.name
        if '.parser(__doc__' in path.read_text(encoding='utf-8'):
            assert f'`python {folder}/{path.name}' in text, path.name
