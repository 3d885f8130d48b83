"""The measured collections that ship."""

import importlib
import json
import os
import zipfile

import numpy as np
import pytest

from baselines.data import collections
from baselines.data import families
from baselines.data.layout import records as layout_records
from baselines.data.tile import records
from baselines.measuring import collection
from baselines.measuring import packaged
from tests.helpers import places


def test_the_tile_collection_is_what_was_promised(tmp_path):
    root = packaged.folder('tile', str(tmp_path))
    assert packaged.folder('tile', str(tmp_path)) == root  # unpacked once
    about = json.load(open(os.path.join(root, collection.SIDECAR)))
    kept = {n: k for n, k in about['kernels'].items() if not k['noisy']}
    assert len(kept) >= 200
    assert sum(len(k['configs']) for k in kept.values()) >= 8000
    assert len({k['program'] for k in kept.values()}) >= 16
    assert np.median([k['tau'] for k in kept.values()]) >= 0.85
    assert os.path.getsize(packaged.archive_of('tile')) < 5 << 20
    sides = {}
    for kernel in list(kept.values())[::20]:
        record = records.read_tile(os.path.join(root, kernel['file']))
        assert record.num_configs == len(kernel['configs'])
        assert (record.config_runtime == np.min(kernel['passes'], 0)).all()
    for kernel in kept.values():
        family = families.family(kernel['program'])
        assert sides.setdefault(family, kernel['split']) == kernel['split']
    assert set(sides.values()) == set(collections.SPLITS)


def test_the_layout_collection_ships_too(tmp_path):
    root = packaged.folder('layout', str(tmp_path))
    about = json.load(open(os.path.join(root, collection.SIDECAR)))['kernels']
    kept = [kernel for kernel in about.values() if not kernel['noisy']]
    assert len(kept) >= 14
    assert {kernel['split'] for kernel in kept} == set(collections.SPLITS)
    for kernel in kept:
        record = layout_records.read_layout(os.path.join(root, kernel['file']))
        assert len(record.config_runtime) == len(kernel['configs'])


def test_damage_and_absence_are_one_line(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match='no measured graph collection ships'):
        packaged.folder('graph', str(tmp_path))
    broken = tmp_path / 'broken.zip'
    broken.write_bytes(b'PK')
    monkeypatch.setattr(packaged, 'archive_of', lambda task: str(broken))
    with pytest.raises(ValueError, match=r'broken.zip: damaged .*; install again'):
        packaged.folder('tile', str(tmp_path))


def test_the_same_files_make_the_same_archive(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(places.ROOT / 'benchmarks'))
    pack_measured = importlib.import_module('pack_measured')
    source = tmp_path / 'source'
    (source / 'train').mkdir(parents=True)
    (source / 'train' / 'k.npz').write_bytes(b'content')
    kernel = {'file': 'train/k.npz', 'noisy': False, 'tau': 0.9}
    kernel.update(passes=[[1, 2]], passes_again=[1], configs=[{}, {}], dropped={})
    noisy = {**kernel, 'file': 'noisy/n.npz', 'noisy': True}
    content = {'kernels': {'k': kernel, 'n': noisy}}
    (source / 'measured.json').write_text(json.dumps(content))
    made = []
    for name in ('a', 'b'):
        archive = str(tmp_path / f'{name}.zip')
        monkeypatch.setattr(packaged, 'archive_of', lambda task, to=archive: to)
        pack_measured.pack(str(source), 'tile')
        made.append(open(archive, 'rb').read())
        names = zipfile.ZipFile(archive).namelist()
        assert names == ['train/k.npz', 'measured.json']
    assert made[0] == made[1]
    summary = json.loads((tmp_path / 'a.json').read_text())
    found = summary['kernels']['k']
    assert (found['configs'], found['passes'], found['dropped']) == (2, 1, 0)
