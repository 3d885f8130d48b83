"""Runs saved by an earlier version score as they did there.

`tests/old_runs` holds a tile ResSAGE with the estimate and a layout HybridSAGE,
each with a made-up graph and the scores of the version that trained them
(0.1.0, on another machine than this may be).
"""

import os
import shutil

import numpy as np
import pytest

from baselines.runs import loading
from baselines.runs import prediction
from tests.helpers import places

_OLD = places.ROOT / 'tests' / 'old_runs'


@pytest.mark.slow
@pytest.mark.parametrize(
    'task, split, graph',
    [('tile', 'test', 'kernel.npz'), ('layout', 'xla/random/test', 'program.npz')],
)
def test_scores_are_those_of_the_version_that_trained(tmp_path, task, split, graph):
    folder = tmp_path / 'data' / split
    os.makedirs(folder)
    shutil.copy(_OLD / task / graph, folder / graph)
    data = prediction.DataOptions(
        data_root=str(tmp_path / 'data'), cache_dir=str(tmp_path / 'cache')
    )
    predictor = loading.load_predictor(str(_OLD / task / 'model_0'), data, '')
    [scores] = predictor.score(predictor.open_split('test'))
    with np.load(_OLD / task / 'scores.npz') as stored:
        wanted = stored['scores']
    # A different CPU adds in another order: some 2^-23 of the terms, which are
    # about as large as the scores.  What decides is the spread of the scores.
    assert np.abs(scores - wanted).max() <= 1e-4 * np.ptp(wanted)
    assert scores.shape == wanted.shape
