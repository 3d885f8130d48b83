"""Changed files of every format: refused in one line, or read as they were."""

import shutil

import pytest

import baselines
from tests.faults import formats
from tests.faults import reading
import tpugraphs

_EXACT = [name for name, form in formats.FORMATS.items() if form.is_exact]
# Functions that read files, or parse text, of nobody but the house and its user.
_OWN = {
    'baselines.data.packed.packer.open_folder': 'the cache of this package',
    'baselines.runs.code_files.read': 'code that the user names, as bytes',
    'baselines.runs.code_files._find_shipped': 'code of the package, as bytes',
    'tpugraphs.beam.map_items': 'results of its own workers',
    'baselines.data.download._read_json': 'a note next to the archive, of this command',
    'baselines.training.devices.parse_cluster': 'the variable TF_CONFIG',
}


@pytest.fixture(name='good', scope='module')
def _good(tmp_path_factory):
    folder = tmp_path_factory.mktemp('good')
    formats.write_good_files(folder)
    return folder


@pytest.fixture(name='folder')
def _folder(good, tmp_path):
    return shutil.copytree(good, tmp_path / 'files')


def test_every_reader_of_untrusted_files_has_a_format(folder):
    """A new one either reads a file of `formats`, or `_OWN` says why not."""
    packages = baselines, tpugraphs
    found, missed = reading.find_readers(formats.FORMATS, folder, *packages)
    assert missed <= {*_OWN} <= found


@pytest.mark.slow
@pytest.mark.parametrize('name', formats.FORMATS)
def test_changed_files_never_surprise(name, folder):
    reading.fuzz(formats.FORMATS[name], folder / name)


@pytest.mark.slow
@pytest.mark.parametrize('name', _EXACT)
def test_no_bit_of_a_zip_directory_flips_unnoticed(name, folder):
    good = (folder / name).read_bytes()
    check = reading.make_check(formats.FORMATS[name], folder / name)
    start = good.rindex(b'PK\x05\x06')
    start = int.from_bytes(good[start + 16 : start + 20], 'little')
    for bit in range(8 * start, 8 * len(good), 7):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        check(bytes(data))
