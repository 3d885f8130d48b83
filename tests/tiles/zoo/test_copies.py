"""What the zoo has of `tiles/models.py` as a copy is the same code."""

import ast
import re

from tests.helpers import places

_TILES = places.ROOT / 'baselines/tiles'


def _definitions(path):
    """Returns functions and methods by name, as lines without docstrings.

    Names in models.py are private there, and public in the zoo; what it spells for
    old Pythons, or has a helper for, is written alike.
    """
    source = re.sub(r'\bx\.shape\[-1\]', 'width(x)', path.read_text())
    source = re.sub(r'\bList\b', 'list', re.sub(r'(?<![\w.])_(?=[A-Za-z])', '', source))
    found = {}
    for node in ast.parse(source).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        for function in inside:
            if isinstance(function, ast.FunctionDef):
                has_text = ast.get_docstring(function) is not None
                lines = [ast.unparse(line) for line in function.body[has_text:]]
                found[node.name, function.name] = [ast.unparse(function.args), *lines]
    return found


def test_copies_are_equal():
    ours, zoo = (_definitions(_TILES / p) for p in ('models.py', 'zoo/kernels.py'))
    both = ours.keys() & zoo.keys()
    copied = {'KernelBatch', 'LayerNorm', 'Messages', 'at_least', 'log_features'}
    assert {name for name, _ in both} == copied
    for name in both:
        # A KernelBatch of models.py has one attribute more.
        assert ours[name][: len(zoo[name])] == zoo[name], name
