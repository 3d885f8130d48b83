"""What runtimes were measured on, by the files next to them."""

import json

import pytest

from baselines.data import hardware


def sidecar(cpu, platform='cpu'):
    return {'machine': {'cpu': cpu}, 'collection': {'platform': platform}}


@pytest.mark.parametrize(
    'content, name',
    [
        (sidecar('Some CPU'), 'Some CPU'),
        (sidecar('Some CPU', 'gpu'), hardware.GPU),
        ({'sources': [sidecar('B'), sidecar('A'), sidecar('B')]}, 'A, B'),
        ({'sources': [{}]}, ''),
        ([], ''),
    ],
)
def test_the_processor_of_a_folder(content, name, tmp_path):
    (tmp_path / 'measured.json').write_text(json.dumps(content))
    assert hardware.measured_on(str(tmp_path)) == name


def test_where_nothing_says(tmp_path):
    assert hardware.measured_on(str(tmp_path)) == ''


def test_the_shipped_data_say():
    assert hardware.measured_on('', 'tile') == hardware.measured_on('', 'layout') != ''
