"""Models are made only as large as the checkpoint that they are for."""

import json

import pytest
import tensorflow as tf

from baselines.core import registry
from baselines.runs import weights
from baselines.scoring import prediction
from tests.helpers import finished_runs
from tests.helpers import made_runs


@pytest.fixture(name='model_dir')
def _model_dir(tmp_path):
    # Two variables, 20 weights.
    values = [tf.Variable(tf.zeros([3, 6])), tf.Variable(tf.zeros([2]))]
    tf.train.Checkpoint(variables=values).write(str(tmp_path / 'variables/variables'))
    return str(tmp_path)


def _layer(units):
    return tf.keras.layers.Dense(units)(tf.zeros([1, 3]))


def test_what_fits_is_made(model_dir):
    options = {'dim': 64, 'names': ['x', None, 2.5]}
    with registry.limit_size(weights.compute_size_limit(model_dir, options)):
        assert _layer(1000).shape == (1, 1000)


def _layers():
    for _ in range(200):
        _layer(1)


@pytest.mark.parametrize(
    'make, options',
    [
        (lambda: _layer(10**6), {}),
        (lambda: _layer(10**15), {}),
        (_layers, {}),
        (lambda: None, {'dims': [{'a': 4097}]}),
    ],
)
def test_what_is_far_larger_is_not(model_dir, make, options):
    with pytest.raises(ValueError, match='far larger'):
        with registry.limit_size(weights.compute_size_limit(model_dir, options)):
            make()
    assert _layer(1).shape == (1, 1)


@pytest.fixture(name='untrusted_run', scope='module')
def _stranger(tmp_path_factory):
    """Changes the settings in a run file; returns the model directory."""
    model_dir = made_runs.make_tile_run(tmp_path_factory.mktemp('untrusted_run'))
    info = finished_runs.read_info(model_dir)

    def change(**settings):
        changed = {**info, 'args': {**info['args'], **settings}}
        finished_runs.write_info(model_dir, changed)
        return model_dir

    return change


def test_options_of_an_untrusted_run_file(untrusted_run):
    for kwargs in ('{"num_gnns": 1000000}', '{"hidden_dim": 60000}'):
        model_dir = untrusted_run(model_kwargs_json=kwargs)
        with pytest.raises(ValueError, match=f'far larger .*{model_dir}'):
            prediction.load(model_dir, prediction.Options())


@pytest.mark.parametrize(
    'model, name',
    [('ConfigAttentionSAGE', 'get'), ('MLP', 'deserialize'), ('MLP', '\x1b[31m')],
)
def test_activations_that_are_none(untrusted_run, model, name):
    kwargs = json.dumps({'hidden_activation': name})
    model_dir = untrusted_run(model=model, model_kwargs_json=kwargs)
    with pytest.raises(
        ValueError, match=f'--model_kwargs_json=.*making {model} raised'
    ):
        prediction.load(model_dir, prediction.Options())


def test_the_flag_of_options_is_named_only_where_it_was_given():
    class Broken(tf.keras.Model):
        def __init__(self, num_configs, num_ops, depth=1):
            super().__init__()
            self.depth = depth

    def fail(model):
        return model.absent

    for kwargs, start in (
        ({}, 'making'),
        ({'depth': 2}, '--model_kwargs_json={"depth'),
    ):
        with pytest.raises(
            ValueError, match="AttributeError: .*'absent' .*line"
        ) as caught:
            registry.construct_model(Broken, 2, 3, kwargs, {}, fail)
        assert str(caught.value).startswith(start)
