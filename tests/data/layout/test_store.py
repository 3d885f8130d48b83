"""The store of a layout split: what it holds, when it is packed, what it takes."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest

from baselines.data.layout import store as layout_store
from tests.helpers import layout_files
from tests.helpers import places

_ROOT = places.ROOT
_REAL = _ROOT.parent / 'shared/data/npz/layout/xla/random'


@pytest.fixture(name='split')
def _split(tmp_path):
    layout_files.write_split(tmp_path / 'train', layout_files.make_programs(4))
    return tmp_path / 'train'


def _open(split, **kwargs):
    return layout_store.LayoutStore.open(
        str(split), str(split.parent / 'cache'), **kwargs
    )


def _folders(split):
    """Names of all folders in the cache, finished or not."""
    cache_dir = split.parent / 'cache'
    return sorted(entry.name for entry in cache_dir.iterdir() if entry.is_dir())


def _message(split, **kwargs):
    with pytest.raises(ValueError) as caught:
        _open(split, **kwargs)
    assert '\n' not in str(caught.value)
    return str(caught.value)


def _assert_same(record, expected):
    for field in dataclasses.fields(expected):
        found, wanted = getattr(record, field.name), getattr(expected, field.name)
        if isinstance(wanted, np.ndarray):
            assert found.dtype == wanted.dtype, field.name
            np.testing.assert_array_equal(found, wanted, field.name)
        else:
            assert found == wanted


def test_every_program_comes_back(tmp_path):
    programs = layout_files.write_split(
        tmp_path / 'train', layout_files.make_programs(20)
    )
    for _ in range(2):
        store = _open(tmp_path / 'train')
        assert store.num_graphs == len(store) == 20
        assert store.graph_ids == [program.graph_id for program in programs]
        for i, program in enumerate(programs):
            _assert_same(store.record(i), program)
            features = program.node_config_feat
            assert store.config_counts[i] == len(features)
            assert store.group_counts[i] == len(np.unique(features, axis=0))
            for low, high, rows in (
                (store.node_min, store.node_max, program.node_feat),
                (store.config_min, store.config_max, features.reshape(-1, 18)),
            ):
                assert low.dtype == high.dtype == np.float32
                np.testing.assert_array_equal(low[i], rows.min(axis=0))
                np.testing.assert_array_equal(high[i], rows.max(axis=0))
            assert store.max_opcode[i] == program.node_opcode.max()
    assert store.has_runtimes and store.pad == 0 and store.skipped == []


def test_programs_in_memory_are_packed_as_their_files_are(split, monkeypatch):
    monkeypatch.setattr(layout_store, '_AT_ONCE', 5)
    programs = layout_files.make_programs(4)
    opened, made = _open(split), layout_store.LayoutStore.of_records('here', programs)
    for name, column in opened.arrays.items():
        assert made.arrays[name].dtype == column.dtype
        np.testing.assert_array_equal(made.arrays[name], column, name)
    assert (made.source, made.graph_ids) == ('here', opened.graph_ids)
    assert made.has_runtimes and not made.fingerprint
    features = np.full_like(programs[0].node_config_feat, 200)
    wrong = dataclasses.replace(programs[0], node_config_feat=features)
    with pytest.raises(
        ValueError, match=': node_config_feat has 200.0 in configuration'
    ):
        layout_store.LayoutStore.of_records('here', [wrong])


def test_groups_by_hand(tmp_path):
    features = np.full((6, 2, 18), -1, np.float32)
    features[[0, 2, 5], 0, 0] = 3
    features[3, 1, 17] = 5
    # Groups: {0, 2, 5}, {1, 4}, {3}.
    layout_files.write_split(
        tmp_path / 'train',
        [
            layout_files.make_program(
                np.random.default_rng(0),
                configurable=2,
                configs=6,
                node_config_feat=features,
                config_runtime=np.array([100, 50, 130, 70, 50, 160]),
            )
        ],
    )
    store = _open(tmp_path / 'train')
    assert store.config_group.tolist() == [0, 1, 0, 2, 1, 0]
    assert store.group_first.tolist() == [0, 1, 3]
    assert store.group_size.tolist() == [3, 2, 1]
    assert store.group_runtime.tolist() == [130, 50, 70]
    # sqrt((30**2 + 0 + 30**2) / 2) = 30.
    np.testing.assert_allclose(store.group_std, [30, 0, 0])
    # Squares (30 / 130)**2 with 2 degrees of freedom, and 0 with 1.
    assert store.relative_noise() == pytest.approx(np.sqrt(2 * (30 / 130) ** 2 / 3))
    assert store.relative_noise([0]) == store.relative_noise()
    np.testing.assert_array_equal(
        store.vectors(0)[store.group_codes(0)], features[[0, 1, 3]]
    )


def test_noise_without_repetitions_is_unknown(tmp_path):
    features = np.zeros((6, 1, 18), np.float32)
    features[:, 0, 3] = range(6)
    layout_files.write_split(
        tmp_path / 'train',
        [
            layout_files.make_program(
                np.random.default_rng(0),
                configurable=1,
                configs=6,
                node_config_feat=features,
            )
        ],
    )
    assert np.isnan(_open(tmp_path / 'train').relative_noise())


def test_there_is_no_such_graph(split):
    store = _open(split)
    for graph in (4, -1):
        with pytest.raises(IndexError, match=f'graph {graph} of 4'):
            store.record(graph)


def test_codes_of_all_widths_lie_side_by_side(tmp_path):
    rng = np.random.default_rng(0)
    programs = []
    # 15 codes of one byte, 900 of two, 15 of one; odd so that padding matters.
    for name, configs, nodes in (('a', 5, 3), ('b', 300, 3), ('c', 5, 3)):
        features = rng.integers(-1, 6, (configs, nodes, 18)).astype(np.float32)
        programs.append(
            layout_files.make_program(
                rng,
                name,
                configurable=nodes,
                configs=configs,
                node_config_feat=features,
            )
        )
    layout_files.write_split(tmp_path / 'train', programs)
    store = _open(tmp_path / 'train')
    assert [store.group_codes(i).dtype for i in range(3)] == [
        np.uint8,
        np.uint16,
        np.uint8,
    ]
    for i, program in enumerate(programs):
        codes = store.group_codes(i)
        assert codes.flags.aligned and not codes.flags.writeable
        _assert_same(store.record(i), program)


def test_arrays_are_mapped(split):
    store = _open(split)
    for name in (
        'node_feat',
        'node_opcode',
        'edge_index',
        'node_config_ids',
        'config_runtime',
        'config_group',
    ):
        assert isinstance(getattr(store, name), np.memmap), name
        assert not getattr(store, name).flags.writeable
    assert not store.vectors(0).flags.writeable


def test_test_splits_and_names(tmp_path):
    names = tuple('abc')
    layout_files.write_split(
        tmp_path / 'test',
        layout_files.make_programs(
            3, is_test=True, node_features=3, feature_names=names, pad=-1
        ),
    )
    store = _open(tmp_path / 'test')
    assert not store.has_runtimes and not store.group_runtime.any()
    assert np.isnan(store.relative_noise())
    assert store.pad == -1 and store.feature_names == names
    assert store.record(1).feature_names == names


def test_limit(split):
    assert _open(split, limit=2).graph_ids == ['program_000', 'program_001']


def test_packed_once_and_anew_when_changed(split, monkeypatch):
    first = _open(split)
    with monkeypatch.context() as patch:
        patch.setattr(layout_store.LayoutStore, 'read', None)
        assert _open(split).fingerprint == first.fingerprint
    path = split / 'program_001.npz'
    changed = layout_files.make_program(
        np.random.default_rng(9), 'program_001', configs=50
    )
    layout_files.write_split(split, [changed])
    second = _open(split)
    _assert_same(second.record(1), changed)
    assert second.fingerprint != first.fingerprint
    assert len(_folders(split)) == 1
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert _open(split).fingerprint == second.fingerprint


def test_fingerprint_is_of_the_content(tmp_path):
    program = layout_files.make_program(np.random.default_rng(0))
    other = np.array(program.node_config_feat)
    other[3, 1, 5] = 0 if other[3, 1, 5] else 1
    splits = np.array([[0, 1, program.num_nodes]])
    found = []
    for name, changes in (
        ('one', {}),
        ('two', {}),
        ('three', {'node_config_feat': other}),
        ('four', {'node_splits': splits}),
        ('five', {'graph_id': 'zzz'}),
        ('six', {'node_config_ids': program.node_config_ids[::-1]}),
    ):
        layout_files.write_split(
            tmp_path / name, [dataclasses.replace(program, **changes)]
        )
        found.append(
            layout_store.LayoutStore.open(
                str(tmp_path / name), str(tmp_path / 'cache')
            ).fingerprint
        )
    # As int8 and not compressed it is the same program.
    (tmp_path / 'seven').mkdir()
    np.savez(
        tmp_path / 'seven/program_0.npz',
        **layout_files.arrays_of(
            program, node_config_feat=program.node_config_feat.astype(np.int8)
        ),
    )
    found.append(
        layout_store.LayoutStore.open(
            str(tmp_path / 'seven'), str(tmp_path / 'cache')
        ).fingerprint
    )
    assert found[0] == found[1] == found[6] and len(set(found)) == 5


def test_a_bad_value_stops_or_is_skipped_whole(split, capsys):
    bad = split / 'program_001.npz'
    record = layout_files.read(str(bad))
    features = np.array(record.node_config_feat)
    features[-1, 0, 0] = 200
    np.savez(bad, **layout_files.arrays_of(record, node_config_feat=features))
    message = _message(split)
    last = len(features) - 1
    assert message.startswith(
        f'{bad}: node_config_feat has 200.0 in configuration {last}, configurable'
    )
    assert message.endswith('(--skip_bad_files leaves such files out)')
    assert _folders(split) == []
    store = _open(split, skip_bad_files=True)
    assert store.graph_ids == ['program_000', 'program_002', 'program_003']
    for i, graph_id in enumerate(store.graph_ids):
        _assert_same(store.record(i), layout_files.read(str(split / f'{graph_id}.npz')))
    assert f'warning: left out: {bad}: ' in capsys.readouterr().err
    assert f'{bad}: ' in _message(split)


def test_missing_and_empty_splits(tmp_path):
    (tmp_path / 'empty').mkdir()
    for what, words in (('gone', 'there is no such folder'), ('empty', 'no .npz')):
        message = _message(tmp_path / what)
        assert message.startswith(f'{tmp_path / what}: ') and words in message
        assert 'one .npz file per program' in message


def _child(split):
    """Starts a process that opens the split; prints fingerprint and peak MB."""
    program = """
import os, re, sys
from baselines.data.layout import store as layout_store
store = layout_store.LayoutStore.open(sys.argv[1], sys.argv[2])
# Not ru_maxrss, which a process inherits from the one that started it.
kilobytes = 0
if os.path.exists('/proc/self/status'):
    with open('/proc/self/status') as status:
        kilobytes = int(re.search('VmHWM:[^0-9]*([0-9]+)', status.read())[1])
print(store.fingerprint, kilobytes / 1024)
"""
    return subprocess.Popen(
        [sys.executable, '-c', program, str(split), str(split.parent / 'cache')],
        cwd=_ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.slow
@pytest.mark.skipif(
    not os.path.exists('/proc/self/status'), reason='needs Linux to measure'
)
@pytest.mark.parametrize('save', [np.savez, np.savez_compressed])
def test_a_large_file_takes_little_memory(tmp_path, save):
    # 230 MB of features, packed or not; Python with NumPy takes 30 to 60 MB.
    features = np.zeros((1000, 3200, 18), np.float32)
    features[::3, ::2] = 1
    features[np.arange(1000), np.arange(1000)] = 2
    program = layout_files.make_program(
        np.random.default_rng(0),
        nodes=3200,
        configurable=3200,
        configs=1000,
        node_config_feat=features[:0],
        node_features=2,
    )
    (tmp_path / 'train').mkdir()
    save(
        tmp_path / 'train/graph.npz',
        **layout_files.arrays_of(program, node_config_feat=features),
    )
    output, errors = _child(tmp_path / 'train').communicate(timeout=60)
    assert not errors
    assert float(output.split()[1]) < 150
    store = _open(tmp_path / 'train')
    assert store.group_counts.tolist() == [1000]
    np.testing.assert_array_equal(
        store.record(0).node_config_feat[[999, 998]], features[[999, 998]]
    )


@pytest.mark.skipif(not _REAL.is_dir(), reason=f'{_REAL} is not there')
@pytest.mark.parametrize(
    'split, configs, groups, vectors',
    [('train', 72, 65, 19), ('valid', 40, 38, 20), ('test', 112, 91, 20)],
)
def test_real_program(tmp_path, split, configs, groups, vectors):
    store = layout_store.LayoutStore.open(str(_REAL / split), str(tmp_path))
    path = str(_REAL / split / 'main_10904.npz')
    with np.load(path) as arrays:
        features, runtimes = arrays['node_config_feat'], arrays['config_runtime']
    np.testing.assert_array_equal(store.record(0).node_config_feat, features)
    _assert_same(store.record(0), layout_files.read(path))
    # Counted with numpy.unique over the file's rows.
    assert (store.config_counts[0], store.group_counts[0], len(store.vectors(0))) == (
        configs,
        groups,
        vectors,
    )
    for group in range(groups):
        members = np.flatnonzero(
            (features == features[store.group_first[group]]).all(axis=(1, 2))
        )
        np.testing.assert_array_equal(
            np.flatnonzero(store.config_group == group), members
        )
        assert store.group_runtime[group] == pytest.approx(
            runtimes[members].mean(), rel=1e-15
        )
