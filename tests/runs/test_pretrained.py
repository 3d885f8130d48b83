"""The run that ships."""

import json
import os

import numpy as np
import pytest

from baselines.data import shipped
from baselines.runs import finding
from baselines.scoring import graph_source
from baselines.scoring import loading


def test_it_ranks_as_when_it_was_made(tmp_path):
    pytest.importorskip('lightgbm', reason='LightGBM is not installed ([trees])')
    with open(os.path.join(finding.pretrained_folder(), 'about.json')) as stream:
        expected = json.load(stream)['scores']
    root = shipped.folder('by_others_real', str(tmp_path))
    options = graph_source.SourceOptions(
        data_root=root, cache_dir=str(tmp_path / 'cache')
    )
    predictor = loading.load_predictor(finding.PRETRAINED, options)
    store = predictor.open_split('test')
    scores = dict(zip(store.graph_ids, predictor.score(store)))
    assert len(expected) == 3
    for name, row in expected.items():
        # about.json has six digits behind the point.
        np.testing.assert_allclose(scores[name], row, atol=1e-6)
