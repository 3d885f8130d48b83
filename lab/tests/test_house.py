"""The laboratory's code: its size, its imports, and the house rules of the toolkit."""

import ast
import subprocess
import sys

import pytest

from tests import test_architecture as rules
from tests.helpers import code_lines
from tests.helpers import places

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LAB = places.ROOT / 'lab'
_WORDS = 'words of docs'


def test_nothing_is_larger_than_its_ceiling():
    text = (_LAB / 'pyproject.toml').read_text(encoding='utf-8')
    ceilings = tomllib.loads(text)['tool']['tpugraphs_lab']['budget']
    figures = {
        folder: code_lines.package_lines(f'lab/{folder}')
        for folder in ceilings.keys() - {_WORDS}
    }
    figures[_WORDS] = code_lines.words('lab/**/*.md')
    above = {name: n for name, n in figures.items() if n > ceilings[name]}
    assert not above, f'[tool.tpugraphs_lab.budget] in lab/pyproject.toml: {above}'
    assert set(ceilings) == {'tpugraphs_lab', 'tests', 'benchmarks', 'tools', _WORDS}


def test_imports():
    pytest.importorskip('importlinter', reason='it comes with the extra dev')
    code = 'from importlinter import cli; cli.lint_imports_command(["--no-cache"])'
    done = subprocess.run([sys.executable, '-c', code], cwd=_LAB, capture_output=True)
    assert not done.returncode, done.stdout.decode()


@pytest.mark.parametrize(
    'rule',
    [
        rules.test_a_module_holds_definitions_and_constants,
        rules.test_columns_have_names,
        rules.test_files_are_short,
        rules.test_help_and_reports_do_not_wait_for_tensorflow,
        rules.test_what_is_public_is_explained,
    ],
)
def test_house_rules(rule, monkeypatch):
    sources = []
    for path in sorted((_LAB / 'tpugraphs_lab').rglob('*.py')):
        text = path.read_text(encoding='utf-8')
        name = str(path.relative_to(_LAB))
        sources.append(rules._Source(name, text, ast.parse(text)))
    monkeypatch.setattr(rules, '_sources', lambda: sources)
    rule()
