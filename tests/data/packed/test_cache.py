"""Packed folders and their cache with several processes, some of them killed."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from baselines.data.packed import cache
from baselines.data.packed import packer
from tests.helpers import places

_ROOT = str(places.ROOT)


@pytest.mark.parametrize('rows', [np.zeros((1, 3)), np.zeros(2, np.float32)])
def test_rows_that_do_not_fit(tmp_path, rows):
    with packer.Writer(str(tmp_path)) as writer:
        writer.append(x=np.zeros(2))
        with pytest.raises(ValueError, match='float'):
            writer.append(x=rows)


def _build(writer):
    writer.append(x=np.arange(4))
    return {'by': 'parent'}


def _open(cache_dir, version=1, listing=(('a', 1, 2),), source='s'):
    return cache.open_or_build(
        str(cache_dir), 'test', [source], list(listing), version, _build
    )


def test_version_listing_and_source_each_count(tmp_path):
    folders = lambda: {p.name for p in tmp_path.iterdir() if p.is_dir()}
    _open(tmp_path)
    first = folders()
    _open(tmp_path)
    assert folders() == first
    _open(tmp_path, version=2)
    second = folders()
    assert len(second) == 1 and second != first
    _open(tmp_path, listing=[('a', 1, 3)])
    assert len(folders()) == 1 and folders() != second
    _open(tmp_path, source='t')
    assert len(folders()) == 2


def _child(cache_dir, body):
    """Starts a process that opens the same folder, its build being `body`."""
    program = textwrap.dedent("""
        import os, sys, time
        import numpy as np
        from baselines.data.packed import cache
        def build(writer):
        {body}
            return dict(by='child')
        manifest, arrays = cache.open_or_build(
            sys.argv[1], 'test', ['s'], [('a', 1, 2)], 1, build)
        print('got', manifest['by'], arrays['x'].tolist(), flush=True)
    """).format(body=textwrap.indent(textwrap.dedent(body), '    '))
    return subprocess.Popen(
        [sys.executable, '-c', program, str(cache_dir)],
        cwd=_ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_waiting_says_so(tmp_path):
    body = """
        writer.append(x=np.arange(4))
        print('building', flush=True)
        sys.stdin.readline()
    """
    first = _child(tmp_path, body)
    assert first.stdout.readline() == 'building\n'
    second = _child(tmp_path, body)
    assert second.stderr.readline().startswith('waiting ')
    first.kill()
    first.communicate()
    # The lock ends with its holder, so the second builds now.
    assert second.stdout.readline() == 'building\n'
    second.kill()
    second.communicate()


def test_a_finished_folder_opens_without_the_lock(tmp_path):
    _open(tmp_path)
    lock = next(tmp_path.glob('*.lock'))
    lock.unlink()
    assert _open(tmp_path)[1]['x'].tolist() == [0, 1, 2, 3]
    assert not lock.exists()
