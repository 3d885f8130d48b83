"""Checks readers with changed files, and finds readers that nothing checks."""

import pathlib
import re
import sys

from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
import numpy as np

from tests.faults import strategies

# What opens a file that may be anybody's, or parses its text.
_READS = re.compile(
    r'\b(open_regular|open_archive|(json|tomllib|untrusted)\.loads?|untrusted\.read)\('
)


def make_check(form, path):
    """Returns a test of bytes in the place of a good file."""

    def read():
        found = form.read(str(path))
        return getattr(found, '__dict__', found)

    expected = read()

    def check(data):
        path.unlink()  # ext4 writes a file to disk at once if it was emptied before
        path.write_bytes(data)
        try:
            found = read()
        except (ValueError, OSError) as error:
            assert str(error) and '\n' not in str(error), repr(error)
        else:
            if form.is_exact:
                np.testing.assert_equal(found, expected)

    return check


def fuzz(form, path, share=1):
    """Checks changed files: one in `share` of the examples that are asked for."""
    most = settings.default.max_examples // share
    chosen = settings(suppress_health_check=list(HealthCheck), max_examples=most)
    changed = strategies.contents(form.form, path.read_bytes())
    chosen(given(changed)(make_check(form, path)))()


def find_readers(forms, folder, *packages):
    """Returns the functions that read such files, and those that read no good one."""
    called = set()

    def note(frame, *unused):
        if frame.f_back:
            called.add((frame.f_back.f_code.co_filename, frame.f_back.f_lineno))

    sys.setprofile(note)
    try:
        for name, form in forms.items():
            form.read(str(folder / name))
    finally:
        sys.setprofile(None)
    found = {place: name for package in packages for place, name in _find(package)}
    missed = {name for place, name in found.items() if place not in called}
    return {*found.values()}, missed


def _find(package):
    """Yields the lines where a package reads such files, and names of functions."""
    [folder] = package.__path__
    for path in pathlib.Path(folder).rglob('*.py'):
        parts = package.__name__, *path.relative_to(folder).with_suffix('').parts
        function = ''
        for number, line in enumerate(path.read_text('utf-8').splitlines(), 1):
            if defined := re.match(r' *def (\w+)', line):
                function = defined[1]
            elif _READS.search(line):
                yield (str(path), number), '.'.join((*parts, function))
