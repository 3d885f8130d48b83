"""What runtimes were measured on, by the files next to them."""

import json

import pytest

from baselines.data import collections
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
    assert hardware.read_measured_on(str(tmp_path)) == name


@pytest.mark.parametrize('flags', [{}, {'source': 'xla', 'search': 'random'}])
def test_splits_of_a_collection(flags, tmp_path):
    collection = collections.select_collection(flags)
    splits = tmp_path / collection.subfolder
    found = lambda: hardware.list_splits(str(tmp_path), collection)
    assert found() == collections.SPLITS  # to be refused by name
    (splits / 'train').mkdir(parents=True)
    assert found() == collections.SPLITS  # incomplete: nobody measured it
    (tmp_path / 'measured.json').touch()
    assert found() == ('train',)
    assert hardware.list_splits(str(splits), collection) == ('train',)
    (splits / 'valid').mkdir()
    assert found() == collections.SPLITS


def test_the_shipped_data_say(tmp_path):
    assert hardware.read_measured_on(str(tmp_path)) == ''
    assert (
        hardware.read_measured_on('', 'tile')
        == hardware.read_measured_on('', 'layout')
        != ''
    )


def test_a_model_of_another_processor_or_release(monkeypatch):
    monkeypatch.setattr(hardware, 'find_processor', lambda: 'This CPU')
    monkeypatch.setattr(hardware, 'find_release', lambda: 12000)
    other = hardware.describe_difference
    assert other('m', {}) == other('m', {'measured_on': 'gpu'}) == ''
    assert other('m', {'measured_on': 'This CPU', 'xla_releases': [4030, 12000]}) == ''
    for info, words in (
        ({'measured_on': 'AMD'}, ('AMD', 'This CPU')),
        ({'xla_releases': [4030]}, ('0.4.30', '0.12.0')),
    ):
        assert all(word in other('m', info) for word in words)


@pytest.mark.parametrize(
    'version, number',
    [
        ('0.4.30', 4030),
        ('0.12.0.1', 12000),
        ('0.5.3.dev1', 5003),
        ('1.0.0', 0),
        ('0.4', 0),
    ],
)
def test_releases_have_numbers(version, number):
    assert hardware.parse_release(version) == number
