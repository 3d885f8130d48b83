"""Lists the functions that read files that may be anybody's."""

import ast
import re

# What opens a file that may be anybody's, or parses its text.
_OPENS = {'open_regular', 'open_archive'}
_PARSES = {
    *(('json', 'load'), ('json', 'loads'), ('tomllib', 'loads')),
    *(('untrusted', 'loads'), ('untrusted', 'read'), ('decoder', 'decode')),
}


def find(root, *packages):
    """Returns the functions of packages in a folder that read such files, by name."""
    found = set()
    for package in packages:
        for path in sorted((root / package).rglob('*.py')):
            module = '.'.join(path.relative_to(root).with_suffix('').parts)
            content = path.read_text('utf-8')
            if re.search(r'untrusted\.|loads?\(', content):
                found |= set(_functions(ast.parse(content), module))
    return found


def _functions(node, name):
    """Yields names of the functions that call one of these."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            yield from _functions(child, f'{name}.{child.name}')
            continue
        called = child.func if isinstance(child, ast.Call) else None
        owner = getattr(getattr(called, 'value', None), 'id', '')
        function = getattr(called, 'attr', getattr(called, 'id', ''))
        if function in _OPENS or (owner, function) in _PARSES:
            yield name
        yield from _functions(child, name)
