"""Runs saved by 0.1.0 score as they did there, or say that their model is gone.

`tests/old_runs` holds runs by task and model, a made-up graph of each task, and
the scores of the version that trained them (on another machine than this may be).
"""

import os
import shutil

import numpy as np
import pytest

from baselines.runs import loading
from baselines.runs import prediction
from tests.helpers import places

_OLD = places.ROOT / 'tests' / 'old_runs'


def _predictor(task, model, tmp_path):
    """The run of a model, with the graph of its task as a test split."""
    split, graph = {
        'tile': ('test', 'kernel.npz'),
        'layout': ('xla/random/test', 'program.npz'),
    }[task]
    folder = tmp_path / 'data' / split
    os.makedirs(folder)
    shutil.copy(_OLD / graph, folder)
    data = prediction.Options(
        data_root=str(tmp_path / 'data'), cache_dir=str(tmp_path / 'cache')
    )
    return loading.load_predictor(str(_OLD / f'{task}_{model}' / 'model_0'), data)


@pytest.mark.slow
@pytest.mark.parametrize(
    'task, model',
    [
        ('tile', 'LateJoinResSAGE'),
        ('tile', 'ConfigAttentionSAGE'),
        ('layout', 'TGraph'),
    ],
)
def test_scores_are_those_of_the_version_that_trained(tmp_path, task, model):
    predictor = _predictor(task, model, tmp_path)
    [scores] = predictor.score(predictor.open_split('test'))
    with np.load(_OLD / f'{task}_{model}' / 'scores.npz') as stored:
        wanted = stored['scores']
    # A different CPU adds in another order: some 2^-23 of the terms, which are
    # about as large as the scores.  What decides is the spread of the scores.
    assert np.abs(scores - wanted).max() <= 1e-4 * np.ptp(wanted)
    assert scores.shape == wanted.shape


@pytest.mark.parametrize(
    'task, model, message',
    [
        (
            'tile',
            'ResSAGE',
            'the model ResSAGE was removed after 0.1.0; train it again with '
            '--model=LateJoinResSAGE',
        ),
        (
            'layout',
            'PaddedSAGE',
            'the layout model PaddedSAGE was removed after 0.1.0; train it again '
            'with --model=Trees',
        ),
    ],
)
def test_runs_of_removed_models_say_so(tmp_path, task, model, message):
    with pytest.raises(ValueError) as caught:
        _predictor(task, model, tmp_path)
    assert str(caught.value) == message
