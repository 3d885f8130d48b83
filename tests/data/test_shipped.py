"""The measured collections that ship."""

import importlib
import json
import os

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
from tests.helpers import places
from tpugraphs.measure import collection_folder
from tpugraphs.measure import tiles


@pytest.fixture(name='unpacked', scope='module')
def _unpacked(tmp_path_factory):
    """Where collections are unpacked, once for all tests."""
    return str(tmp_path_factory.mktemp('measured'))


@pytest.mark.slow
def test_the_tile_collection_is_what_was_promised(unpacked):
    root = shipped.folder('tile', unpacked)
    assert shipped.folder('tile', unpacked) == root
    kernels = collection_folder.read_sidecar(root)['kernels']
    assert len(kernels) >= 2500
    assert sum(len(kernel['halves'][0]) for kernel in kernels.values()) >= 60_000
    assert len({kernel['program'] for kernel in kernels.values()}) >= 250
    sides = {}
    for kernel in kernels.values():
        family = families.family(kernel['program'])
        assert sides.setdefault(family, kernel['split']) == kernel['split']
    assert len(sides) >= 60 and set(sides.values()) == set(collections.SPLITS)
    assert np.median([kernel['tau'] for kernel in kernels.values()]) >= 0.9
    assert os.path.getsize(shipped.archive_of('tile')) < 9e6
    for kernel in list(kernels.values())[::50]:
        record = records.read_tile(os.path.join(root, kernel['file']))
        assert (record.config_runtime == np.min(kernel['halves'], 0)).all()


@pytest.mark.slow
def test_kernels_by_others_are_of_families_that_stand_nowhere_else(unpacked):
    trained, tested = (
        collection_folder.read_sidecar(shipped.folder(name, unpacked))['kernels']
        for name in ('tile', 'by_others')
    )
    assert len(tested) >= 250
    assert {kernel['split'] for kernel in tested.values()} == {'test'}
    digests = [{name.rpartition('_')[2] for name in part} for part in (trained, tested)]
    assert not digests[0] & digests[1]
    # `decoder` is also a built-in program, by another hand.
    names = [
        {families.family(k['program']) for k in part.values() if k['origin'] in origins}
        for part, origins in ((trained, ['others']), (tested, ['models', 'programs']))
    ]
    assert len(names[0]) >= 15 and not names[0] & names[1]


def test_the_layout_collection_ships_too(tmp_path):
    root = shipped.folder('layout', str(tmp_path))
    programs = collection_folder.read_sidecar(root)['kernels']
    assert len(programs) >= 70
    assert {program['split'] for program in programs.values()} == set(
        collections.SPLITS
    )
    counts = []
    for program in programs.values():
        record = layout_files.read(os.path.join(root, program['file']))
        counts.append(len(record.config_runtime))
        assert counts[-1] == len(program['halves'][0])
    assert np.median(counts) >= 40


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
        item = tiles.TileItem(name, measured_programs.pointwise(8, 4), 'root')
        described = [
            {'output': (8, 4), 'kernel': (), 'input': (8, 4)},
            {'output': (4, 4), 'kernel': (), 'input': (4, 4)},
        ]
        tuning = item.tuning(described, [20, 10])
        nodes = graph.extract_graph(tuning.module)
        configs = raw.configs_of('tile', tuning, nodes)
        path = str(folder / f'{name}.npz')
        raw.write_record(path, name, nodes, configs)
        kernels[name] = {
            'file': f'{name}.npz',
            'program': families.program_of_kernel(name),
            'origin': 'root',
            'split': '',
            'tau': 0.9,
            'noisy': name in noisy,
            'halves': [[20, 10], [21, 12]],
            'passes': 6,
            'again': 1.0,
            'drift': 1.1,
        }
    content = {'machine': {'cpu': 'x'}, 'kernels': kernels}
    (folder / 'measured.json').write_text(json.dumps(content))
    return str(folder)


def test_folders_are_packed_together(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(places.ROOT / 'benchmarks'))
    pack_measured = importlib.import_module('pack_measured')
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
        summary = pack_measured.pack('tile', sources)
        made.append(open(archive, 'rb').read())
    assert made[0] == made[1]
    # The first of each is noisy, and the others of theirs are kernels of ours.
    assert summary['graphs'] == 4 and summary['graphs by origin'] == {'ours': 4}
    assert summary['configurations'] == 8 and summary['families'] == 4
    assert summary['graphs by split'] == {'train': 2, 'valid': 1, 'test': 1}
    assert json.loads((tmp_path / 'b.json').read_text()) == summary
    root = shipped.folder('tile', str(tmp_path / 'unpacked'))
    kernels = collection_folder.read_sidecar(root)['kernels']
    for name, kernel in kernels.items():
        assert kernel['file'] == f'{kernel["split"]}/{name}.npz'
        assert os.path.exists(os.path.join(root, kernel['file']))
