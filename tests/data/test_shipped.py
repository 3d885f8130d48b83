"""The measured collections that ship."""

import json
import os
import pathlib

import numpy as np
import pytest

from baselines.data import collections
from baselines.data import families
from baselines.data import shipped
from baselines.data.tile import records
from tests.helpers import layout_files


@pytest.mark.slow
@pytest.mark.parametrize(
    'task, read', [('tile', records.TileRecord.read), ('layout', layout_files.read)]
)
def test_a_family_is_in_one_split_and_times_are_those_of_the_passes(
    tmp_path, task, read
):
    root = shipped.find_folder(task, str(tmp_path))
    assert shipped.find_folder(task, str(tmp_path)) == root
    kernels = json.loads((pathlib.Path(root) / 'measured.json').read_text())['kernels']
    sides = {}
    for kernel in kernels.values():
        family = families.find_family(kernel['program'])
        assert sides.setdefault(family, kernel['split']) == kernel['split']
    assert set(sides.values()) == set(collections.SPLITS)
    for kernel in list(kernels.values())[::50]:
        record = read(os.path.join(root, kernel['file']))
        assert (record.config_runtime == np.min(kernel['halves'], 0)).all()


def test_damage_and_absence_are_one_line(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match='no measured graph collection ships'):
        shipped.find_folder('graph', str(tmp_path))
    broken = tmp_path / 'broken.zip'
    broken.write_bytes(b'PK')
    monkeypatch.setattr(shipped, 'find_archive', lambda task: str(broken))
    with pytest.raises(ValueError, match=r'broken.zip: damaged .*; install again'):
        shipped.find_folder('tile', str(tmp_path))
