"""Archives of measured kernels, and how they are packed."""

import importlib
import json
import os
import zipfile

import pytest

from baselines.data import families
from baselines.data import raw
from baselines.data import shipped
from baselines.hlo import graph
from lab.benchmarks import judging
from lab.tests.helpers import measured_programs
from lab.tests.helpers import measurements
from tests.helpers import places
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import tile_choices
from tpugraphs_lab.measure import collection_folder


@pytest.fixture(name='pack')
def _pack(monkeypatch):
    folder = places.ROOT / 'lab' / 'tools' / 'measured_data'
    monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module('pack')


def test_families_that_are_tested_on_stand_nowhere_else():
    kernels = {}
    for archive in ('tile', 'by_others', 'by_others_real'):
        with zipfile.ZipFile(judging.path_of(archive)) as packed:
            sidecar = json.loads(packed.read('measured.json'))
        kernels[archive] = sidecar['kernels']
    sides = {
        archive: {families.find_family(kernel['program']) for kernel in inside.values()}
        for archive, inside in kernels.items()
    }
    assert not sides['tile'] & (sides['by_others'] | sides['by_others_real'])
    digests = [name.rpartition('_')[2] for names in kernels.values() for name in names]
    assert len(set(digests)) == len(digests)


def _write_collection(folder, names, noisy=()):
    """Writes a folder as `collect` leaves it, of kernels of one operation each."""
    kernels = {}
    for name in names:
        module = measured_programs.pointwise(8, 4)
        kernel = cutting.Kernel(name, name, module, 'root')
        configs = [
            {'output': (8, 4), 'kernel': (), 'input': (8, 4)},
            {'output': (4, 4), 'kernel': (), 'input': (4, 4)},
        ]
        tuning = tile_choices.tuning_data(kernel, configs, [20, 10])
        nodes = graph.extract_graph(tuning.module)
        configs = raw.extract_configs('tile', tuning, nodes)
        path = str(folder / f'{name}.npz')
        raw.write_record(path, name, nodes, configs)
        kernels[name] = {
            **measurements.SIDECAR_KERNEL,
            'file': f'{name}.npz',
            'program': families.find_program(name),
            'noisy': name in noisy,
            'halves': [[20, 10], [21, 12]],
        }
    content = {'machine': {'cpu': 'x'}, 'kernels': kernels}
    (folder / 'measured.json').write_text(json.dumps(content))
    return str(folder)


def test_folders_are_packed_together(pack, tmp_path, monkeypatch):
    sources = []
    for origin in ('ours', 'theirs'):
        (tmp_path / origin).mkdir()
        names = [f'{origin}_{letter}_{n:016x}' for n, letter in enumerate('abcde')]
        folder = _write_collection(tmp_path / origin, names, noisy=names[:1])
        sources.append((origin, folder))
    made = []
    for name in ('a', 'b'):
        path = str(tmp_path / f'{name}.zip')
        monkeypatch.setattr(judging, 'path_of', lambda archive, to=path: to)
        summary = pack.pack('tile', sources)
        made.append(open(path, 'rb').read())
    assert made[0] == made[1]
    # The first of each is noisy, and the others of theirs are kernels of ours.
    assert summary['graphs'] == 4 and summary['graphs by origin'] == {'ours': 4}
    assert summary['configurations'] == 8 and summary['families'] == 4
    assert summary['graphs by split'] == {'train': 2, 'valid': 1, 'test': 1}
    assert json.loads((tmp_path / 'b.json').read_text()) == summary
    tests = [n for n, k in _kernels(path, tmp_path).items() if k['split'] == 'test']
    program = families.find_program(tests[0])
    path = str(tmp_path / 'c.zip')
    monkeypatch.setattr(judging, 'path_of', lambda archive: path)
    summary = pack.pack('tile', sources, train=[families.find_family(program)])
    assert summary['graphs by split'] == {'train': 3, 'valid': 1}
    # Those of the train split take nanoseconds, and have a tau of 1.
    path = str(tmp_path / 'd.zip')
    monkeypatch.setattr(judging, 'path_of', lambda archive: path)
    summary = pack.pack('tile', sources, small_tau=1.01)
    assert summary['graphs by split'] == {'valid': 1, 'test': 1}


def _kernels(archive, folder):
    root = shipped.find_folder(archive, str(folder / 'unpacked'))
    kernels = collection_folder.read_sidecar(root)['kernels']
    for name, kernel in kernels.items():
        assert kernel['file'] == f'{kernel["split"]}/{name}.npz'
        assert os.path.exists(os.path.join(root, kernel['file']))
    return kernels
