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


@pytest.mark.parametrize('content', [b'[]', b'{"model": 1}', None])
def test_a_damaged_installation_says_to_install_again(content, tmp_path, monkeypatch):
    monkeypatch.setattr(finding, 'pretrained_folder', lambda: str(tmp_path))
    if content is not None:
        (tmp_path / 'about.json').write_bytes(content)
    message = f'{tmp_path}/about.json: damaged; install tpugraphs again'
    with pytest.raises(ValueError, match=message):
        finding.about_pretrained()
    with pytest.raises(ValueError, match='holds 0 runs, where one ships; install'):
        finding.find(finding.PRETRAINED)
