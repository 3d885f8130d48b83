"""`tpugraphs extract`: files in, npz out, and a summary of what became of it."""

import pathlib
import re
import tracemalloc

import numpy as np
import pytest

from baselines.data import raw as raw_lib
from baselines.data.tile import records
from baselines.data.tile import store as tile_store
from baselines.hlo import layout_configs
from baselines.hlo import reading
from baselines.hlo import schema
from tests.helpers import hlo_modules
from tests.helpers import layout_files
from tests.helpers import same_records
from tests.helpers.hlo_modules import good_layout
from tests.helpers.hlo_modules import good_tile
from tests.helpers.hlo_modules import tile_file
from tests.helpers.hlo_modules import tile_run
from tpugraphs import commands

_SHARED = hlo_modules.SHARED
_needs_shared = pytest.mark.skipif(not _SHARED.is_dir(), reason=hlo_modules.NO_SHARED)


def _extract(*arguments):
    return commands.run('extract', [str(a) for a in arguments])


def _write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _names(folder):
    return sorted(p.name for p in pathlib.Path(folder).iterdir())


def _assert_same_arrays(path, other):
    with np.load(path) as a, np.load(other) as b:
        assert sorted(a.files) == sorted(b.files)
        for key in a.files:
            assert a[key].dtype == b[key].dtype
            np.testing.assert_array_equal(a[key], b[key])


@pytest.fixture
def raw(tmp_path):
    """A tile file of two modules; the second has a run that fails."""
    second = good_tile('copy.2', 0x2)
    second.runs.add(error=True).op_config.tile_size_config.SetInParent()
    return _write(tmp_path / 'raw.pb', tile_file(good_tile(), second))


def test_each_module_becomes_a_file_of_the_published_keys(raw, tmp_path, capsys):
    assert _extract(raw, tmp_path / 'out') == 0
    names = ['copy_2_0000000000000002.npz', 'fusion_1_00000000000000ab.npz']
    assert _names(tmp_path / 'out') == names
    with np.load(tmp_path / 'out' / names[0]) as arrays:
        keys = 'config_feat config_runtime config_runtime_normalizers edge_index'
        assert sorted(arrays.files) == [*keys.split(), 'node_feat', 'node_opcode']
        assert arrays['node_opcode'].dtype == np.uint8
        assert arrays['node_opcode'].tolist() == [63, 97 - 1, 2]
        assert arrays['edge_index'].tolist() == [[1, 0], [2, 1]]
        assert arrays['config_runtime'].tolist() == [5, 7, 9]
        assert arrays['config_runtime_normalizers'].tolist() == [5, 5, 5]
        assert arrays['config_feat'].shape == (3, 24)
    out = capsys.readouterr().out
    assert ' 2 read, 2 written, ' in out and ' 6 kept, 1 dropped (1 error)' in out


def test_a_layout_file(tmp_path, capsys):
    path = _write(tmp_path / 'a.pb', good_layout().SerializeToString())
    assert _extract(path, tmp_path / 'out') == 0
    assert _names(tmp_path / 'out') == ['main_1_00000000000000cd.npz']
    record = layout_files.read(str(tmp_path / 'out/main_1_00000000000000cd.npz'))
    assert record.node_config_ids.tolist() == [2]
    assert record.node_config_feat.tolist() == [
        [[1, 0] + [-1] * 4 + [i] + [-1] * 11] for i in (0, 1)
    ]
    assert record.config_runtime.tolist() == [5, 7]
    assert "'main.1'" in capsys.readouterr().out


@pytest.mark.slow
def test_layouts_are_never_unpacked_all_at_once(tmp_path, monkeypatch, capsys):
    # 100 configurations of 1,000 nodes: 72 bytes each are 7.2 MB, codes 0.4 MB.
    instructions = [dict(id=i + 1, opcode='parameter') for i in range(1000)]
    module = hlo_modules.module(hlo_modules.computation(*instructions))
    runs = [
        hlo_modules.layout_run([[[i % 5, 0]]] * 1000, time=i + 1) for i in range(100)
    ]
    tuning = hlo_modules.tuning(module, runs, 1, range(1000))
    path = _write(tmp_path / 'a.pb', tuning.SerializeToString())
    monkeypatch.setattr(layout_configs, 'BLOCK_BYTES', 1 << 18)
    del runs, tuning
    for read in (
        lambda: _extract(path, tmp_path / 'out'),
        lambda: commands.run('show', [str(path)]),
        lambda: commands.run('show', [str(tmp_path / 'out/m_1_0000000000000001.npz')]),
    ):
        tracemalloc.start()
        assert read() == 0
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 6e6
    record = layout_files.read(str(tmp_path / 'out/m_1_0000000000000001.npz'))
    assert record.node_config_feat[:, 7, 0].tolist() == [i % 5 for i in range(100)]


def test_extra_columns_are_an_array_of_their_own(raw, tmp_path):
    assert _extract(raw, tmp_path / 'plain') == 0
    assert _extract(raw, tmp_path / 'out', '--extra') == 0
    name = 'fusion_1_00000000000000ab.npz'
    with np.load(tmp_path / 'out' / name) as arrays:
        assert arrays['node_feat_extra'].shape == (3, len(schema.EXTRA))
        with np.load(tmp_path / 'plain' / name) as plain:
            for key in plain.files:
                np.testing.assert_array_equal(arrays[key], plain[key])
    store = tile_store.TileStore.open(str(tmp_path / 'out'), str(tmp_path / 'cache'))
    read = records.TileRecord.read(str(tmp_path / 'out' / name))
    same_records.assert_same(store.record(store.graph_ids.index(name[:-4])), read)
    # tanh uses the parameter before it, and so on.
    distance = schema.EXTRA.at('operand_distance_0')
    assert read.node_feat_extra[:, distance].tolist() == [0, 1, 1]


def test_files_folders_and_globs(raw, tmp_path, monkeypatch):
    _write(tmp_path / 'in/deep/b.pb', tile_file(good_tile('b', 1)))
    _write(tmp_path / 'in/c.pb', tile_file(good_tile('c', 1)))
    _write(tmp_path / 'in/notes.txt', b'not looked at')
    _write(tmp_path / 'odd [x]/d.pb', tile_file(good_tile('d', 1)))
    monkeypatch.setenv('HOME', str(tmp_path))
    found = reading.find_files(
        ['~/raw.pb', str(tmp_path / 'in'), str(tmp_path / 'in/*.pb'), '~/odd [x]']
    )
    assert [pathlib.Path(f).name for f in found] == ['raw.pb', 'c.pb', 'b.pb', 'd.pb']


@pytest.mark.parametrize(
    'arguments, word',
    [
        (['absent.pb', 'out'], 'absent.pb: '),
        (['empty', 'out'], 'empty: '),
        (['raw.pb', 'raw.pb'], 'raw.pb: '),
        (['raw.pb', 'out', '--beam_options=--x=1'], '--runner'),
    ],
)
def test_wrong_arguments_are_one_line(
    raw, tmp_path, monkeypatch, capsys, arguments, word
):
    (tmp_path / 'empty').mkdir()
    monkeypatch.chdir(tmp_path)
    assert _extract(*arguments) == 1
    error = capsys.readouterr().err
    assert word in error and error.count('\n') == 1
    assert not (tmp_path / 'out').exists()


def test_a_wrong_module_is_named_and_the_others_are_written(tmp_path, capsys):
    wrong = good_tile('broken.9', 9)
    wrong.module.computations[0].instructions[2].operand_ids.append(3)
    repeated = good_tile()
    body = repeated.module.computations.add(name='body', id=7, root_id=70)
    body.instructions.add(id=70, opcode='topk')
    caller = repeated.module.computations[0].instructions[1]
    caller.called_computation_ids.extend([7, 7])
    path = _write(tmp_path / 'raw.pb', tile_file(wrong, repeated))
    assert _extract(path, tmp_path / 'out') == 1
    assert _names(tmp_path / 'out') == ['fusion_1_00000000000000ab.npz']
    out, error = capsys.readouterr()
    place = f"error: {path}: module 'broken.9': computation 'main', instruction 'a': "
    assert error.startswith(place)
    assert "'topk' 1\n" in out and "module 'fusion.1': 1 repeated edge" in out


def test_modules_passed_over_are_named_with_the_reason(tmp_path, capsys):
    runs = [tile_run(5, default=True), tile_run(5, error=True)]
    lonely = hlo_modules.tuning(hlo_modules.chain('lonely'), runs)
    empty = good_tile('empty')
    del empty.module.computations[:]
    x, y, *single = (
        hlo_modules.tuning(hlo_modules.chain(name), [tile_run()] * (1 + (name < 'z')))
        for name in ('x', 'y', 'z0', 'z1', 'z2', 'z3', 'z4', 'z5', 'z6')
    )
    modules = tile_file(good_tile(), lonely, empty, x, y, good_tile())
    path = _write(tmp_path / 'raw.pb', modules)
    assert _extract(path, tmp_path / 'out') == 0
    out = capsys.readouterr().out
    assert '6 read, 1 written, 0 already there, 5 skipped, 0 wrong' in out
    for names in ("'x', 'y'", "'lonely'", "'empty'", "'fusion.1'"):
        assert f'skipped  {names}: ' in out
    # Where none is usable, it is an error.
    _write(path, tile_file(*single))
    assert _extract(path, tmp_path / 'none') == 1
    assert "'z0', 'z1', 'z2', 'z3', 'z4' and 2 more" in capsys.readouterr().err
    assert not (tmp_path / 'none').exists()


def test_what_is_there_stays_unless_told_otherwise(raw, tmp_path, capsys):
    out = tmp_path / 'out'
    assert _extract(raw, out) == 0
    first = {p: p.stat().st_mtime_ns for p in out.iterdir()}
    (out / 'copy_2_0000000000000002.npz').unlink()
    assert _extract(raw, out) == 0
    assert '1 written, 1 already there' in capsys.readouterr().out
    kept = out / 'fusion_1_00000000000000ab.npz'
    assert kept.stat().st_mtime_ns == first[kept]
    assert _extract(raw, out, '--overwrite') == 0
    assert kept.stat().st_mtime_ns != first[kept]


def test_files_of_others_are_never_taken_for_done(raw, tmp_path, capsys):
    out = tmp_path / 'out'
    assert _extract(raw, out) == 0
    for flag in ('--pad=-1', '--extra'):
        capsys.readouterr()
        assert _extract(raw, out, flag) == 1
        error = capsys.readouterr().err
        assert 'fusion_1_00000000000000ab.npz: ' in error
        assert flag.partition('=')[0] in error
    _write(out / 'fusion_1_00000000000000ab.npz', b'PK\x03\x04')
    assert _extract(raw, out) == 1
    assert '--overwrite' in capsys.readouterr().err


def test_both_collections_do_not_go_into_one_folder(raw, tmp_path, capsys):
    other = _write(tmp_path / 'z.pb', good_layout().SerializeToString())
    assert _extract(raw, other, tmp_path / 'out') == 1
    assert len(_names(tmp_path / 'out')) == 2
    error = capsys.readouterr().err
    assert f'{other}: ' in error
    assert _extract(raw, other, tmp_path / 'b', '--kind=layout') == 1
    assert _names(tmp_path / 'b') == ['main_1_00000000000000cd.npz']


@pytest.mark.parametrize(
    'name, fingerprint, expected',
    [
        ('a/../b c\n', 2**64 - 1, 'a____b_c__ffffffffffffffff'),
        ('-x', 1, 'module-x_0000000000000001'),
        ('n' * 400, 1, 'n' * 180 + '_0000000000000001'),
    ],
)
def test_names_fit_file_systems(name, fingerprint, expected):
    tuning = hlo_modules.tuning(hlo_modules.module(name=name), fingerprint=fingerprint)
    assert raw_lib.name_graph(tuning) == expected
    # Without a fingerprint, content tells modules apart.
    modules = [*[hlo_modules.chain('m')] * 2, hlo_modules.module(name='m')]
    tunings = [hlo_modules.tuning(module, fingerprint=0) for module in modules]
    names = set(map(raw_lib.name_graph, tunings))
    assert len(names) == 2
    assert all(re.fullmatch('m_[0-9a-f]{16}', name) for name in names)


@pytest.mark.slow
def test_beam_writes_the_same_files(raw, tmp_path, capfd):
    other = _write(tmp_path / 'b.pb', tile_file(good_tile('other', 5)))
    bad = _write(tmp_path / 'bad.pb', b'')
    assert _extract(raw, other, bad, tmp_path / 'plain') == 1
    plain = capfd.readouterr()
    assert _extract(raw, other, bad, tmp_path / 'beam', '--runner=DirectRunner') == 1
    # Not a word of Beam's worker processes either.
    assert capfd.readouterr() == plain
    assert _names(tmp_path / 'beam') == _names(tmp_path / 'plain')
    for path in (tmp_path / 'beam').iterdir():
        _assert_same_arrays(path, tmp_path / 'plain' / path.name)


@_needs_shared
def test_the_real_tile_file(tmp_path):
    assert _extract(_SHARED / 'op_tuning_data.pb', tmp_path) == 0
    published = _SHARED.parent / 'npz/tile/xla'
    paths = [*published.glob('train/*'), *published.glob('valid/*')]
    for path in paths:
        _assert_same_arrays(path, tmp_path / path.name)
    assert len(paths) == len(_names(tmp_path)) == 15
