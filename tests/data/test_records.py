"""Records of both collections: what comes out, and what npz files may not say."""

import numpy as np
import pytest

from baselines.data.layout import records as layout_records
from baselines.data.tile import records as tile_records_lib
from tests.helpers import layout_files
from tests.helpers import refusals
from tests.helpers import same_records
from tests.helpers import tile_records

_TASKS = ('tile', 'layout')


def _record(task, **changes):
    """9 nodes and 7 configurations, of 3 nodes if they are layouts."""
    rng = np.random.default_rng(0)
    if task == 'tile':
        return tile_records.make_record(rng, 'graph', nodes=9, configs=7, **changes)
    return layout_files.make_record(
        rng, 'graph', nodes=9, configurable=3, configs=7, **changes
    )


def _arrays(task, **changes):
    """The arrays of a file; None leaves one out."""
    values = {**vars(_record(task)), **changes}
    return {k: v for k, v in values.items() if isinstance(v, (np.ndarray, np.number))}


def _written(folder, task, **changes):
    path = str(folder / 'graph.npz')
    np.savez_compressed(path, **_arrays(task, **changes))
    return path


def _read(task, path):
    read = tile_records_lib.TileRecord.read if task == 'tile' else layout_files.read
    return read(path)


@pytest.mark.parametrize('task', _TASKS)
@pytest.mark.parametrize(
    'changes',
    [
        {},
        {'pad': -1},
        {'config_runtime': np.zeros(7, np.int64)},
        {'edge_index': np.zeros((0, 2), np.int32)},
        {'node_opcode': np.array([1, 30, 2, 2, 5, 5, 5, 5, 255], np.int32)},
    ],
)
def test_round_trip(tmp_path, task, changes):
    record = _record(task, **changes)
    path = str(tmp_path / 'new' / 'graph.npz')
    record.write(path)
    same_records.assert_same(_read(task, path), record)
    assert (record.num_nodes, record.num_configs) == (9, 7)


_PUBLISHED = 'node_feat:<f4 node_opcode:|u1 edge_index:<i8 config_runtime:<i8'


@pytest.mark.parametrize(
    'task, others',
    [
        ('tile', 'config_feat:<f4 config_runtime_normalizers:<i8'),
        ('layout', 'node_config_ids:<i8 node_config_feat:<f4 node_splits:<i8'),
    ],
)
def test_written_files_have_the_published_schema(tmp_path, task, others):
    _record(task).write(str(tmp_path / 'graph.npz'))
    with np.load(tmp_path / 'graph.npz') as arrays:
        types = {f'{key}:{arrays[key].dtype.str}' for key in arrays.files}
    assert types == {*_PUBLISHED.split(), *others.split()}


@pytest.mark.parametrize('task', _TASKS)
def test_an_invalid_record_is_not_written(tmp_path, task):
    path = tmp_path / 'graph.npz'
    record = _record(task, edge_index=np.array([[9, 0]], np.int32))
    refusals.assert_refused(lambda: record.write(str(path)), f'{path}: edge_index')
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    'dtype', [np.int8, np.int64, np.float16, np.float64, '>f4', '>i4']
)
def test_layouts_of_any_number_type(tmp_path, dtype):
    program = _record('layout')
    path = _written(
        tmp_path,
        'layout',
        node_config_feat=program.node_config_feat.astype(dtype),
        node_splits=program.node_splits[0].astype(np.int32),
        node_config_ids=program.node_config_ids.astype(np.uint16),
        config_runtime_normalizers=np.ones(7, np.int64),
    )
    same_records.assert_same(_read('layout', path), program)


@pytest.mark.parametrize('task', _TASKS)
def test_names_of_columns_are_passed_over(tmp_path, task):
    path = _written(tmp_path, task, feature_names=np.array(['a', None]))
    same_records.assert_same(_read(task, path), _record(task))


_EMPTY_GRAPH = {
    'node_feat': np.zeros((0, 140), np.float32),
    'node_opcode': np.zeros(0, np.uint8),
    'edge_index': np.zeros((0, 2), np.int64),
    'node_config_ids': np.zeros(0, np.int64),
}


def _features(value):
    """Layout features with a wrong value in configuration 5, node 2, column 17."""
    features = np.full((7, 3, 18), -1.0)
    features[5, 2, 17] = value
    return {'node_config_feat': features}


def _configs(count):
    """A kernel's arrays of `count` configurations."""
    ones = np.ones(count, int)
    runtimes = {'config_runtime': ones, 'config_runtime_normalizers': ones}
    return {'config_feat': np.zeros((count, 24)), **runtimes}


# Ranges of numbers are one rule: tests/core/test_npz.py.
_BAD = [
    *(
        (task, changes, words)
        for task in _TASKS
        for changes, words in (
            ({'edge_index': np.array([[1, 9]])}, 'edge_index has 9 in row 0'),
            ({'node_opcode': np.full(9, 256)}, 'node_opcode has 256 in row 0'),
            ({'config_runtime': np.array([1, 0, 1, 1, 0, 1, 1])}, '2 of 7'),
            ({'pad': np.int64(1)}, 'pad has 1'),
            (_EMPTY_GRAPH, 'node_feat has no rows'),
            ({'node_feat': np.zeros((9, 0), np.float32)}, 'node_feat has no columns'),
        )
    ),
    ('tile', {'config_feat': np.zeros((7, 0))}, 'config_feat has no columns'),
    ('tile', _configs(0), 'config_feat has no configuration'),
    ('tile', _configs(1), 'config_feat has only 1 configuration'),
    ('layout', {'node_config_ids': np.array([4, 1, 4])}, 'node_config_ids has node 4'),
    (
        'layout',
        dict(node_config_ids=np.zeros(0, int), node_config_feat=np.zeros((7, 0, 18))),
        'node_config_ids is empty',
    ),
    *(
        ('layout', _features(value), f'{value} in configuration 5, configurable node 2')
        for value in (200.0, -2.0, 2.5, np.nan)
    ),
    (
        'layout',
        {'node_splits': np.array([[0, 5, 3, 9]])},
        'node_splits is [0, 5, 3, 9]',
    ),
    ('layout', {'node_splits': np.zeros((1, 0), int)}, 'node_splits is []'),
    ('layout', {'node_splits': np.array([[0, 9], [0, 9]])}, 'node_splits has shape (2'),
]


@pytest.mark.parametrize('task, changes, words', _BAD)
def test_one_thing_wrong(tmp_path, task, changes, words):
    if task == 'tile':
        changes = {k: v for k, v in changes.items() if k != 'node_config_ids'}
    path = _written(tmp_path, task, **changes)
    refusals.assert_refused(lambda: _read(task, path), f'{path}: ', words)


def test_an_array_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(layout_records, 'MAX_FILE_BYTES', 100_000)
    path = _written(tmp_path, 'layout', node_config_feat=np.zeros((700, 3, 18)))
    refusals.assert_refused(lambda: _read('layout', path), '302,528', '100,000')
