"""Exported models: raw features in, the same scores out, with TensorFlow alone."""

import json
import re
import subprocess
import sys

from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf

from baselines.runs import loading
from baselines.runs import prediction
from tests.fuzz import strategies
from tests.helpers import layout_files
from tests.helpers import made_runs
from tests.helpers import places
from tests.helpers import processes
from tests.helpers import tile_records


@pytest.fixture(name='exported', scope='module', params=['tile', 'layout'])
def _exported(request, tmp_path_factory):
    """(task, model directory, folder of what was exported)."""
    folder = tmp_path_factory.mktemp('exported')
    make = {'tile': made_runs.make_tile_run, 'layout': made_runs.make_layout_run}
    model_dir = make[request.param](folder)
    assert processes.command('export', model_dir, folder / 'served') == 0
    return request.param, model_dir, folder / 'served'


@pytest.mark.slow
@pytest.mark.parametrize('exported', ['tile'], indirect=True, scope='module')
def test_the_client_of_the_documents(exported, tmp_path):
    """docs/guide/models.md: fifteen lines, with TensorFlow and NumPy alone."""
    text = (places.ROOT / 'docs/guide/models.md').read_text(encoding='utf-8')
    [client] = [
        b for b in re.findall(r'```python\n(.*?)```', text, re.S) if 'argv' in b
    ]
    assert len([line for line in client.splitlines() if line.strip()]) <= 15
    _, model_dir, served = exported
    # TensorFlow reads it alone: of ours nothing is imported.
    client += "assert not {'tensorflow_gnn', 'baselines', 'tpugraphs'} & {*sys.modules}"
    record = tile_records.make_record(np.random.default_rng(0), 'k', configs=30)
    tile_records.write_split(tmp_path, [record])
    words = [sys.executable, '-c', client, str(served), str(tmp_path / 'k.npz')]
    done = subprocess.run(
        words, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    expected = _predictor(model_dir).score_record(record)
    found = json.loads(done.stdout)
    np.testing.assert_allclose(found['scores'], np.sort(expected)[:10], atol=1e-5)
    assert found['order'] == np.argsort(expected, kind='stable')[:10].tolist()


def _inputs(record, *more):
    names = ('node_feat', 'node_opcode', 'edge_index', *more)
    return {
        name: getattr(record, name).astype(
            np.float32 if name.endswith('_feat') else np.int32
        )
        for name in names
    }


def _predictor(model_dir):
    return loading.load_predictor(model_dir, prediction.DataOptions('x', 'x'))


@pytest.mark.slow
def test_tiles_of_raw_features(tmp_path, capsys):
    model_dir = made_runs.make_tile_run(tmp_path)
    assert processes.command('export', model_dir, tmp_path / 'served') == 0
    assert capsys.readouterr().out.splitlines() == [
        f'{tmp_path}/served: EarlyJoinSAGE on tile:xla',
        '  node_feat [?, 140]',
        '  node_opcode [?]',
        '  edge_index [?, 2]',
        '  config_feat [?, 24]',
        '  -> scores [?]',
    ]
    # 70 nodes x 300 configurations are scored in three slices of 8,192 cells.
    record = tile_records.make_record(np.random.default_rng(0), nodes=70, configs=300)
    model = tf.saved_model.load(str(tmp_path / 'served'))
    inputs = _inputs(record, 'config_feat')
    found = model.signatures['serving_default'](
        **{name: tf.constant(array) for name, array in inputs.items()}
    )['scores']
    expected = _predictor(model_dir).score_record(record)
    spread = np.ptp(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * spread)


@pytest.mark.slow
@pytest.mark.parametrize('exported', ['layout'], indirect=True, scope='module')
def test_layouts(exported):
    _, model_dir, served = exported
    # 37 configurations are two slices of 16 and one that is filled up.
    program = layout_files.make_program(
        np.random.default_rng(0), 'p', nodes=9, configs=37
    )
    more = ('node_config_ids', 'node_config_feat')
    inputs = _inputs(program, *more)
    found = tf.saved_model.load(str(served)).signatures['serving_default'](
        **{name: tf.constant(array) for name, array in inputs.items()}
    )['scores']
    expected = _predictor(model_dir).score_record(program)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.ptp(expected))


def _one_more(x, axis):
    return np.concatenate([x, x.take([0], axis)], axis)


_OF_BOTH = [
    ('node_feat', lambda x: _one_more(x, 1), 'node_feat: should have 140 columns'),
    ('node_feat', lambda x: _one_more(x, 0), 'node_opcode: axis 0 should be as long'),
    ('node_feat', lambda x: x[:0], 'node_feat: is empty'),
    ('node_opcode', lambda x: x - 300, 'node_opcode: opcodes are from 0'),
    ('edge_index', lambda x: x[:, :1], 'edge_index: should have 2 columns'),
    ('edge_index', lambda x: x + 99, 'edge_index: has a node that does not exist'),
]
_REFUSED = {
    'tile': [
        *_OF_BOTH,
        ('config_feat', lambda x: x[:, :22], 'config_feat: should have 24 columns'),
        ('config_feat', lambda x: x.repeat(2, 1), 'config_feat: should have 24 col'),
        ('config_feat', lambda x: x[:0], 'config_feat: is empty'),
    ],
    'layout': [
        *_OF_BOTH,
        ('node_config_ids', lambda x: x + 99, 'node_config_ids: has a node that does'),
        ('node_config_feat', lambda x: x[..., 1:], 'node_config_feat: should have 18'),
        ('node_config_feat', lambda x: x[:, 1:], 'node_config_feat: axis 1 should be'),
    ],
}


@pytest.mark.slow
def test_inputs_of_other_sizes_are_refused_by_name(exported):
    task, _, served = exported
    rng = np.random.default_rng(0)
    if task == 'tile':
        inputs = _inputs(tile_records.make_record(rng, nodes=6), 'config_feat')
    else:
        program = layout_files.make_program(rng, nodes=6)
        inputs = _inputs(program, 'node_config_ids', 'node_config_feat')
    model = tf.saved_model.load(str(served))
    score = model.signatures['serving_default']
    tensors = {name: tf.constant(array) for name, array in inputs.items()}
    assert np.isfinite(score(**tensors)['scores']).all()
    for name, change, message in _REFUSED[task]:
        changed = {**tensors, name: tf.constant(change(inputs[name]))}
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            score(**changed)

    @settings(suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(sorted(inputs)), strategies.ARRAYS)
    def check(name, array):
        changed = dict(tensors)
        try:
            changed[name] = tf.constant(array)
            scores = score(**changed)['scores']
        except (TypeError, ValueError, tf.errors.InvalidArgumentError):
            return
        configs = 'config_feat' if task == 'tile' else 'node_config_feat'
        assert scores.shape == changed[configs].shape[:1]

    check()


@pytest.mark.slow
def test_what_cannot_be_exported(tmp_path, capsys):
    model_dir = made_runs.make_tile_run(tmp_path)
    full = tmp_path / 'full'
    full.mkdir()
    (full / 'x').touch()
    assert processes.command('export', model_dir, full) == 1
    assert f'{full} is there already: name a new folder' in capsys.readouterr().err
    assert processes.command('export', tmp_path / 'x' / 'none', full) == 1
    assert 'there is no directory' in capsys.readouterr().err
