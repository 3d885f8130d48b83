"""The published models' weights, inputs and scores, which ../shared has."""

import json

import numpy as np
import pytest

from tests.helpers import places

_FOLDER = places.SHARED / 'parity'


LOSSES = _FOLDER / 'losses.npz'


def parameters(task):
    """Keywords of a fixture of a task's files, or of one that `read` skips."""
    files = sorted(_FOLDER.glob(f'{task}_*.npz')) or [_FOLDER / 'missing']
    return {'params': files, 'ids': lambda path: path.stem}


def read(path):
    """Returns the arrays of a file by name."""
    if not path.exists():
        pytest.skip(f'no goldens: {path} is missing')
    return dict(np.load(path))


def list_weights(values, letter='w'):
    """Returns the weights, or with 'g' the gradients, in the published order."""
    keys = [key for key in values if key[0] == letter and key[1:].isdigit()]
    return [values[key] for key in sorted(keys)]


def make_model(values, models, num_configs, graph, configs_of_graph):
    """Makes the model of a file, of a module, and gives it the published weights."""
    kwargs = json.loads(str(values['kwargs_json']))
    kind = getattr(models, str(values['model']))
    made = kind(num_configs, int(values['num_ops']), **kwargs)
    made.forward(graph, configs_of_graph)
    published, variables = list_weights(values), made.trainable_variables
    assert [w.shape for w in published] == [tuple(v.shape) for v in variables]
    for variable, value in zip(variables, published):
        variable.assign(value)
    return made


def assert_close(ours, published, relative=1e-5):
    """Compares with a tolerance relative to the largest published number."""
    assert ours.shape == published.shape
    tolerance = relative * np.abs(published).max()
    np.testing.assert_allclose(ours, published, rtol=0, atol=tolerance)
