"""Mutated files of every format: refused in one line, or read as they were."""

import functools

from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
import pytest

from tests.fuzz import inputs
from tests.fuzz import mutations

_targets = functools.lru_cache(maxsize=None)(inputs.targets)
_NAMES = sorted(inputs.targets())


@pytest.mark.parametrize('name', _NAMES)
def test_the_good_file_is_read(name, tmp_path):
    assert inputs.survives(_targets()[name], _targets()[name].good, str(tmp_path))


@pytest.mark.parametrize('name', _NAMES)
def test_mutated_files_never_surprise(name, tmp_path_factory):
    target = _targets()[name]
    folder = str(tmp_path_factory.mktemp('fuzz'))

    @settings(suppress_health_check=list(HealthCheck))
    @given(mutations.CHANGES)
    def check(changes):
        inputs.survives(target, mutations.mutated(target.good, changes), folder)

    check()


@pytest.mark.slow
@pytest.mark.parametrize('name', ['tile.npz', 'layout.npz', 'unfinished.npz'])
def test_no_bit_of_a_zip_directory_flips_unnoticed(name, tmp_path):
    target = _targets()[name]
    start = target.good.rindex(b'PK\x05\x06')
    start = int.from_bytes(target.good[start + 16 : start + 20], 'little')
    for bit in range(8 * start, 8 * len(target.good), 29):
        data = bytearray(target.good)
        data[bit // 8] ^= 1 << bit % 8
        inputs.survives(target, bytes(data), str(tmp_path))
