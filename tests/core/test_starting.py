"""LightGBM is imported with threads that soon sleep, and free memory is returned."""

import ctypes
import os
import pathlib

import pytest

from baselines.core import starting


@pytest.mark.parametrize(
    'chosen, count',
    [
        ({}, '1000'),
        ({'GOMP_SPINCOUNT': '5'}, '5'),
        ({'OMP_WAIT_POLICY': 'active'}, None),
    ],
)
def test_threads_of_lightgbm_soon_sleep_unless_the_user_says_otherwise(
    chosen, count, monkeypatch
):
    pytest.importorskip('lightgbm')
    for name in ('OMP_WAIT_POLICY', 'GOMP_SPINCOUNT'):
        monkeypatch.setenv(name, '')  # as it was comes back
        monkeypatch.delenv(name)
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    assert starting.import_lightgbm().__name__ == 'lightgbm'
    assert os.environ.get('GOMP_SPINCOUNT') == count


def _own_memory():
    """Returns the megabytes of this process that are no files."""
    lines = pathlib.Path('/proc/self/status').read_text().splitlines()
    [kilobytes] = [line.split()[1] for line in lines if line.startswith('RssAnon')]
    return int(kilobytes) / 1024


def test_free_memory_is_returned():
    if not hasattr(ctypes.CDLL(None), 'malloc_trim'):
        pytest.skip('the C library is not glibc')
    blocks = [bytes([number % 256]) * 1001 for number in range(100_000)]  # 100 MB
    last = blocks[-1]  # the C library returns what is free beyond the last one
    del blocks
    before = _own_memory()
    starting.return_memory()
    assert _own_memory() < before - 80 and len(last) == 1001
