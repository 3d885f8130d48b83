"""The size of the project against the ceilings in pyproject.toml."""

import sys

from tests.helpers import code_lines
from tests.helpers import places

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def _ceilings() -> dict[str, int]:
    text = (places.ROOT / 'pyproject.toml').read_text(encoding='utf-8')
    return tomllib.loads(text)['tool']['tpugraphs']['budget']


def test_nothing_is_larger_than_its_ceiling():
    figures, ceilings = code_lines.figures(), _ceilings()
    above = [
        f'{name} has {figure:,}, its ceiling is {ceilings.get(name, "missing")}'
        for name, figure in figures.items()
        if figure > ceilings.get(name, -1)
    ]
    above += [f'{name} is gone' for name in ceilings.keys() - figures.keys()]
    assert not above, '; '.join(above) + (
        ' ([tool.tpugraphs.budget] in pyproject.toml; '
        '`python -m tests.helpers.code_lines` prints the figures)'
    )
