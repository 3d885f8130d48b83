"""Exported models: raw features in, the same scores out, with TensorFlow alone."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from typing import NamedTuple

from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf

from baselines.data.tile import store as tile_store
from baselines.features import column_sets
from baselines.features import tile_table
from baselines.scoring import prediction
from tests.faults import strategies
from tests.helpers import disks
from tests.helpers import exported as exported_models
from tests.helpers import layout_files
from tests.helpers import made_runs
from tests.helpers import places
from tests.helpers import processes
from tests.helpers import tile_records


class _Exported(NamedTuple):
    """What `tpugraphs export` writes of a run."""

    task: str
    predictor: prediction.Predictor
    folder: str
    printed: str

    def record(self):
        """A graph whose configurations are scored in three slices."""
        rng = np.random.default_rng(0)
        if self.task == 'tile':  # 70 nodes x 300 in slices of 8,192 cells
            return tile_records.make_record(rng, nodes=70, configs=300)
        return layout_files.make_record(rng, 'p', nodes=9, configs=37)


@pytest.fixture(name='exported', scope='module', params=['tile', 'layout'])
def _exported(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp('exported')
    make = {'tile': made_runs.make_tile_run, 'layout': made_runs.make_layout_run}
    model_dir = make[request.param](folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert processes.command('export', model_dir, folder / 'served') == 0
    predictor = prediction.load(model_dir, prediction.Options('x', 'x'))
    served = str(folder / 'served')
    return _Exported(request.param, predictor, served, printed.getvalue())


@pytest.mark.slow
@pytest.mark.parametrize('exported', ['tile'], indirect=True, scope='module')
def test_the_client_of_the_documents(exported, tmp_path):
    """docs/guide/models.md: fifteen lines, with TensorFlow and NumPy alone."""
    text = (places.ROOT / 'docs/guide/models.md').read_text(encoding='utf-8')
    [client] = [
        b for b in re.findall(r'```python\n(.*?)```', text, re.S) if 'argv' in b
    ]
    assert len([line for line in client.splitlines() if line.strip()]) <= 15
    # TensorFlow reads it alone: of ours nothing is imported.
    client += "assert not {'tensorflow_gnn', 'baselines', 'tpugraphs'} & {*sys.modules}"
    record = tile_records.make_record(np.random.default_rng(0), 'k', configs=30)
    tile_records.write_split(tmp_path, [record])
    words = [sys.executable, '-c', client, exported.folder, str(tmp_path / 'k.npz')]
    done = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    expected = exported.predictor.score_record(record)
    found = json.loads(done.stdout)
    np.testing.assert_allclose(found['scores'], np.sort(expected)[:10], atol=1e-5)
    assert found['order'] == np.argsort(expected, kind='stable')[:10].tolist()


@pytest.mark.slow
def test_raw_features_give_the_scores_of_the_run(exported):
    if exported.task == 'tile':
        head, *shapes = exported.printed.splitlines()
        assert exported.folder in head and 'EarlyJoinSAGE' in head
        inputs = 'node_feat [?, 140];node_opcode [?];edge_index [?, 2]'
        expected = f'{inputs};config_feat [?, 24];-> scores [?]'
        assert [line.strip() for line in shapes] == expected.split(';')
    record = exported.record()
    scores = exported_models.load_function(exported.folder)(
        **exported_models.make_inputs(record)
    )
    expected = exported.predictor.score_record(record)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5 * np.ptp(expected))


@pytest.mark.slow
def test_computed_columns_are_an_input(tmp_path, capsys):
    model_dir = made_runs.make_tile_run(tmp_path, estimate=True)
    assert processes.command('export', model_dir, tmp_path / 'served') == 0
    names = column_sets.find()['estimate'].names
    assert f'  config_table [?, {len(names)}]' in capsys.readouterr().out.splitlines()
    [record] = made_runs.kernel_records([made_runs.FIRST], 0)
    store = tile_store.TileStore.from_records('kernel', [record])
    table = tile_table.TileTable(store, ['estimate']).rows(np.arange(3))
    score = exported_models.load_function(tmp_path / 'served')
    found = score(config_table=table, **exported_models.make_inputs(record))
    expected = prediction.load(model_dir, prediction.Options('x', 'x'))
    np.testing.assert_allclose(found, expected.score_record(record), atol=1e-5)


def _one_more(x, axis):
    return np.concatenate([x, x.take([0], axis)], axis)


_REFUSED = {
    'tile': [
        ('node_feat', lambda x: _one_more(x, 1), 'node_feat: .*140'),
        ('node_feat', lambda x: _one_more(x, 0), 'node_opcode: '),
        ('node_feat', lambda x: x[:0], 'node_feat: '),
        ('node_opcode', lambda x: x - 300, 'node_opcode: '),
        ('edge_index', lambda x: x[:, :1], 'edge_index: .*2'),
        ('edge_index', lambda x: x + 99, 'edge_index: '),
        ('config_feat', lambda x: x[:0], 'config_feat: '),
    ],
    'layout': [
        ('node_config_ids', lambda x: x + 99, 'node_config_ids: '),
        ('node_config_feat', lambda x: x[..., 1:], 'node_config_feat: .*18'),
        ('node_config_feat', lambda x: x[:, 1:], 'node_config_feat: '),
    ],
}


@pytest.mark.slow
def test_inputs_of_other_sizes_are_refused_by_name(exported):
    inputs = exported_models.make_inputs(exported.record())
    score = exported_models.load_function(exported.folder)
    assert np.isfinite(score(**inputs)).all()
    for name, change, message in _REFUSED[exported.task]:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            score(**{**inputs, name: change(inputs[name])})

    @settings(suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(sorted(inputs)), strategies.ARRAYS)
    def check(name, array):
        changed = {**inputs, name: array}
        try:
            scores = score(**changed)
        except (TypeError, ValueError, tf.errors.InvalidArgumentError):
            return
        configs = [*inputs][-1]  # config_feat, or node_config_feat
        assert scores.shape == changed[configs].shape[:1]

    check()


@pytest.mark.slow
def test_what_cannot_be_exported(tmp_path, capsys):
    model_dir = made_runs.make_tile_run(tmp_path)
    full = tmp_path / 'full'
    full.mkdir()
    (full / 'x').touch()
    assert processes.command('export', model_dir, full) == 1
    assert f'{full} ' in capsys.readouterr().err
    # It is there whole or not at all.
    with disks.room(10_000):
        assert processes.command('export', model_dir, tmp_path / 'new') == 1
    assert 'error: ' in capsys.readouterr().err
    assert not [name for name in os.listdir(tmp_path) if 'new' in name]
