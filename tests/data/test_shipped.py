"""The measured collections that ship."""

import importlib
import json
import os
import zipfile

import numpy as np
import pytest

from baselines.data import collections
from baselines.data import families
from baselines.data import raw
from baselines.data import shipped
from baselines.data.tile import records
from baselines.hlo import graph
from tests.helpers import layout_files
from tests.helpers import measured_programs
from tests.helpers import measurements
from tests.helpers import places
from tpugraphs_lab.kernels import cutting as measured_kernels
from tpugraphs_lab.kernels import tile_choices
from tpugraphs_lab.measure import collection_folder


@pytest.mark.slow
@pytest.mark.parametrize(
    'task, read', [('tile', records.read_tile), ('layout', layout_files.read)]
)
def test_a_family_is_in_one_split_and_times_are_those_of_the_passes(
    tmp_path, task, read
):
    root = shipped.folder(task, str(tmp_path))
    assert shipped.folder(task, str(tmp_path)) == root
    kernels = collection_folder.read_sidecar(root)['kernels']
    sides = {}
    for kernel in kernels.values():
        family = families.family(kernel['program'])
        assert sides.setdefault(family, kernel['split']) == kernel['split']
    assert set(sides.values()) == set(collections.SPLITS)
    for kernel in list(kernels.values())[::50]:
        record = read(os.path.join(root, kernel['file']))
        assert (record.config_runtime == np.min(kernel['halves'], 0)).all()


def test_families_that_are_tested_on_stand_nowhere_else():
    kernels = {}
    for archive in ('tile', 'by_others', 'by_others_real'):
        with zipfile.ZipFile(shipped.archive_of(archive)) as packed:
            sidecar = json.loads(packed.read('measured.json'))
        kernels[archive] = sidecar['kernels']
    sides = {
        archive: {families.family(kernel['program']) for kernel in found.values()}
        for archive, found in kernels.items()
    }
    assert not sides['tile'] & (sides['by_others'] | sides['by_others_real'])
    digests = [name.rpartition('_')[2] for found in kernels.values() for name in found]
    assert len(set(digests)) == len(digests)


def test_damage_and_absence_are_one_line(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match='no measured graph collection ships'):
        shipped.folder('graph', str(tmp_path))
    broken = tmp_path / 'broken.zip'
    broken.write_bytes(b'PK')
    monkeypatch.setattr(shipped, 'archive_of', lambda task: str(broken))
    with pytest.raises(ValueError, match=r'broken.zip: damaged .*; install again'):
        shipped.folder('tile', str(tmp_path))


def made_collection(folder, names, noisy=()):
    """Writes a folder as `collect` leaves it, of kernels of one operation each."""
    kernels = {}
    for name in names:
        module = measured_programs.pointwise(8, 4)
        kernel = measured_kernels.Kernel(name, name, module, 'root')
        configs = [
            {'output': (8, 4), 'kernel': (), 'input': (8, 4)},
            {'output': (4, 4), 'kernel': (), 'input': (4, 4)},
        ]
        tuning = tile_choices.tuning_data(kernel, configs, [20, 10])
        nodes = graph.extract_graph(tuning.module)
        configs = raw.configs_of('tile', tuning, nodes)
        path = str(folder / f'{name}.npz')
        raw.write_record(path, name, nodes, configs)
        kernels[name] = {
            **measurements.SIDECAR_KERNEL,
            'file': f'{name}.npz',
            'program': families.program_of_kernel(name),
            'noisy': name in noisy,
            'halves': [[20, 10], [21, 12]],
        }
    content = {'machine': {'cpu': 'x'}, 'kernels': kernels}
    (folder / 'measured.json').write_text(json.dumps(content))
    return str(folder)


def test_folders_are_packed_together(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(places.ROOT / 'tools' / 'measured_data'))
    pack = importlib.import_module('pack')
    sources = []
    for origin in ('ours', 'theirs'):
        (tmp_path / origin).mkdir()
        names = [f'{origin}_{letter}_{n:016x}' for n, letter in enumerate('abcde')]
        folder = made_collection(tmp_path / origin, names, noisy=names[:1])
        sources.append((origin, folder))
    made = []
    for name in ('a', 'b'):
        archive = str(tmp_path / f'{name}.zip')
        monkeypatch.setattr(shipped, 'archive_of', lambda task, to=archive: to)
        summary = pack.pack('tile', sources)
        made.append(open(archive, 'rb').read())
    assert made[0] == made[1]
    # The first of each is noisy, and the others of theirs are kernels of ours.
    assert summary['graphs'] == 4 and summary['graphs by origin'] == {'ours': 4}
    assert summary['configurations'] == 8 and summary['families'] == 4
    assert summary['graphs by split'] == {'train': 2, 'valid': 1, 'test': 1}
    assert json.loads((tmp_path / 'b.json').read_text()) == summary
    tests = [n for n, k in _kernels(tmp_path).items() if k['split'] == 'test']
    program = families.program_of_kernel(tests[0])
    archive = str(tmp_path / 'c.zip')
    monkeypatch.setattr(shipped, 'archive_of', lambda task: archive)
    summary = pack.pack('tile', sources, train=[families.family(program)])
    assert summary['graphs by split'] == {'train': 3, 'valid': 1}
    # Those of the train split take nanoseconds, and have a tau of 1.
    archive = str(tmp_path / 'd.zip')
    monkeypatch.setattr(shipped, 'archive_of', lambda task: archive)
    summary = pack.pack('tile', sources, small_tau=1.01)
    assert summary['graphs by split'] == {'valid': 1, 'test': 1}


def _kernels(folder):
    root = shipped.folder('tile', str(folder / 'unpacked'))
    kernels = collection_folder.read_sidecar(root)['kernels']
    for name, kernel in kernels.items():
        assert kernel['file'] == f'{kernel["split"]}/{name}.npz'
        assert os.path.exists(os.path.join(root, kernel['file']))
    return kernels
