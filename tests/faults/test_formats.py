"""Mutated files of every format: refused in one line, or read as they were."""

import functools

from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
import pytest

from tests.faults import formats
from tests.faults import readers
from tests.faults import strategies
from tests.helpers import places

_targets = functools.lru_cache(maxsize=None)(formats.targets)
_NAMES = sorted(formats.targets())


@pytest.mark.parametrize('name', _NAMES)
def test_the_good_file_is_read(name, tmp_path):
    assert formats.survives(_targets()[name], _targets()[name].good, str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize('name', _NAMES)
def test_changed_files_never_surprise(name, tmp_path_factory):
    target = _targets()[name]
    folder = str(tmp_path_factory.mktemp('fuzz'))

    @given(strategies.contents(target))
    def check(data):
        formats.survives(target, data, folder)

    settings(suppress_health_check=list(HealthCheck))(check)()


@pytest.mark.slow
@pytest.mark.parametrize('name', ['tile.npz', 'layout.npz', 'unfinished.npz'])
def test_no_bit_of_a_zip_directory_flips_unnoticed(name, tmp_path):
    target = _targets()[name]
    start = target.good.rindex(b'PK\x05\x06')
    start = int.from_bytes(target.good[start + 16 : start + 20], 'little')
    for bit in range(8 * start, 8 * len(target.good), 29):
        data = bytearray(target.good)
        data[bit // 8] ^= 1 << bit % 8
        formats.survives(target, bytes(data), str(tmp_path))


def test_every_reader_of_untrusted_files_has_a_strategy():
    """What is new either joins a target of `formats`, or `OWN` says why not."""
    covered = {reader for target in _targets().values() for reader in target.readers}
    found = readers.find(places.ROOT, 'baselines', 'tpugraphs')
    assert found == covered | set(formats.OWN)
    assert not covered & set(formats.OWN)
