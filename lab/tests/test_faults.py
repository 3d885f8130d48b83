"""Damaged input of the laboratory: refused in one line, or read as it was."""

import json
import os
import types

import pytest

from baselines.data import hardware
from lab.tests.helpers import measured_programs
from lab.tests.helpers import measurements
from tests.faults import formats
from tests.faults import reading
import tpugraphs_lab
from tpugraphs_lab.kernels import tpu_tiles
from tpugraphs_lab.measure import collection_folder
from tpugraphs_lab.programs import reader


def _read_tiles(path):
    with open(path, 'rb') as stream:
        tpu_tiles.own_tiles(types.SimpleNamespace(backend_config=stream.read()))


def _read_sidecar(path):
    hardware.read_measured_on(os.path.dirname(path))
    collection_folder.read_sidecar(os.path.dirname(path))


_HLO = b"""HloModule m
ENTRY e {
  p = f32[8,6] parameter(0)
  ROOT r = f32[8,6] negate(p)
}
"""
_WINDOW = {
    'output_window_bounds': ['8', '128'],
    'estimated_cycles': '12',
    'kernel_window_bounds': [],
    'ml_estimated_microseconds': 1.5,
}
_FORMATS = {
    'module.pb': formats.Format(
        reader.read_program, measured_programs.pointwise(8, 6).SerializeToString()
    ),
    'module.hlo': formats.Format(reader.read_program, _HLO, 'text'),
    'backend_config': formats.Format(
        _read_tiles, json.dumps({'window_config': _WINDOW}).encode(), 'json'
    ),
    'measured.json': formats.Format(
        _read_sidecar, json.dumps(measurements.SIDECAR).encode(), 'json'
    ),
}
# Functions that read what the laboratory itself or its user has written.
_OWN = {
    'tpugraphs_lab.pretrained_run.describe',
    'tpugraphs_lab.programs.functions._run',
    'tpugraphs_lab.programs.functions.from_file',
    'tpugraphs_lab.programs.isolated.call',
}


@pytest.fixture(name='folder')
def _folder(tmp_path):
    for name, form in _FORMATS.items():
        (tmp_path / name).write_bytes(form.good)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize('name', _FORMATS)
def test_changed_files_never_surprise(name, folder):
    # A module in text is parsed in a process of its own.
    share = 10 if name == 'module.hlo' else 1
    reading.fuzz(_FORMATS[name], folder / name, share)


def test_every_reader_of_untrusted_files_has_a_format(folder):
    found, missed = reading.find_readers(_FORMATS, folder, tpugraphs_lab)
    assert missed <= _OWN <= found
