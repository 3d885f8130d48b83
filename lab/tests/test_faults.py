"""Damaged input of the laboratory: refused in one line, or read as it was."""

import json
import os
import types

from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
import pytest

from baselines.data import hardware
from lab.tests.helpers import measured_programs
from lab.tests.helpers import measurements
from tests.faults import formats
from tests.faults import readers
from tests.faults import strategies
from tests.helpers import places
from tpugraphs_lab.kernels import tpu_tiles
from tpugraphs_lab.measure import collection_folder
from tpugraphs_lab.programs import reader

_PACKAGE = 'tpugraphs_lab'


def _read_program(path):
    reader.read_program(path)


def _read_tiles(path):
    with open(path, 'rb') as stream:
        tpu_tiles.own_tiles(types.SimpleNamespace(backend_config=stream.read()))


def _read_sidecar(path):
    hardware.measured_on(os.path.dirname(path))
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
_TARGETS = {
    'module.pb': formats.Target(
        measured_programs.pointwise(8, 6).SerializeToString(), _read_program, ()
    ),
    'module.hlo': formats.Target(_HLO, _read_program, (), 'text'),
    'backend_config': formats.Target(
        json.dumps({'window_config': _WINDOW}).encode(),
        _read_tiles,
        ('tpugraphs_lab.kernels.tpu_tiles.own_tiles',),
        'json',
    ),
    'measured.json': formats.Target(
        json.dumps(measurements.SIDECAR).encode(),
        _read_sidecar,
        ('tpugraphs_lab.measure.collection_folder.read_sidecar',),
        'json',
        'measured.json',
    ),
}
# Functions that read what the laboratory itself or its user has written.
_OWN = {
    'tpugraphs_lab.pretrained_run.describe',
    'tpugraphs_lab.programs.functions._run',
    'tpugraphs_lab.programs.functions.from_file',
    'tpugraphs_lab.programs.isolated.call',
}


@pytest.mark.slow
@pytest.mark.parametrize('name', _TARGETS)
def test_changed_files_never_surprise(name, tmp_path_factory):
    target, folder = _TARGETS[name], str(tmp_path_factory.mktemp('fuzz'))
    assert formats.survives(target, target.good, folder)

    @given(strategies.contents(target))
    def check(data):
        formats.survives(target, data, folder)

    most = settings.default.max_examples
    if name == 'module.hlo':  # parsed in a process of its own
        most //= 10
    settings(suppress_health_check=list(HealthCheck), max_examples=most)(check)()


def test_every_reader_of_untrusted_files_has_a_strategy():
    covered = {reader for target in _TARGETS.values() for reader in target.readers}
    assert readers.find(places.ROOT / 'lab', _PACKAGE) == covered | _OWN
