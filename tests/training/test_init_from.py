"""--init_from: a training that starts from another run's weights."""

import shutil

import numpy as np
import pytest

from baselines import config
from baselines.runs import finding
from baselines.runs import run_files
from baselines.scoring import prediction
from baselines.training import init_from
from tests.helpers import layout_files
from tests.helpers import layout_runs
from tests.helpers import made_runs
from tests.helpers import refusals

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('weights_alone')]

# The source's model and its options.
_SAME = dict(layout_runs.TINY, model_kwargs_json='{"start": 2.0}')


@pytest.fixture(name='source', scope='module')
def _source(tmp_path_factory):
    folder = tmp_path_factory.mktemp('source')
    code = layout_runs.TINY['models_file']
    return made_runs.make_layout_run(folder, 'Tiny', {'start': 2.0}, code)


@pytest.fixture(name='root', scope='module')
def _root(tmp_path_factory):
    """Other data: features of the training programs are up to 5,000, not 1."""
    root = tmp_path_factory.mktemp('other')
    folder = root / 'data' / 'xla' / 'random'
    layout_runs.write_splits(folder)
    path = folder / 'train' / 'program_0.npz'
    with np.load(path) as stored:
        arrays = dict(stored)
    arrays['node_feat'] = 5000 * arrays['node_feat']
    np.savez(path, **arrays)
    return root


def test_weights_and_scaling_are_those_of_the_source(source, root):
    changed, _ = layout_runs.train(root, epochs=1, lr=1e-12, init_from=source, **_SAME)
    options = prediction.Options(
        str(root / 'data'), str(root / 'cache'), models_file=_SAME['models_file']
    )
    first, then = (
        prediction.load(str(model_dir), options) for model_dir in (source, changed)
    )
    models = [predictor.scorer.keras_model for predictor in (first, then)]
    for a, b in zip(*(model.variables for model in models)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)
    scaling = then.scorer.scaling.normalizer
    assert scaling.to_json() == first.scorer.scaling.normalizer.to_json()
    assert then.run.args['init_from'] == source
    assert scaling.ranges['node'][1].max() < 5000  # of the new data


def test_other_runs_are_refused(source, root):
    for init, words in (('/none/model_0', ['/none']), (source, ['Tiny', 'Signed'])):
        train = lambda init=init: layout_runs.train(
            root, **{**_SAME, 'init_from': init, 'model': 'Signed'}
        )
        refusals.assert_refused(train, '--init_from: ', *words)
    for settings, words in (
        (config.TileConfig(init_from=source), ['layout', 'tile']),
        (config.LayoutConfig(init_from=source, model='Trees'), ['Trees']),
    ):
        read = lambda settings=settings: init_from.read_start(settings, None, 1)
        refusals.assert_refused(read, *words)


def test_other_data_are_refused(source, root, tmp_path):
    shutil.copytree(root / 'data', tmp_path / 'data')
    unknown = layout_files.make_record(
        np.random.default_rng(0), 'unknown', node_opcode=np.full(9, 255, np.uint8)
    )
    layout_files.write_split(tmp_path / 'data/xla/random/valid', [unknown])
    with pytest.raises(ValueError, match='opcodes'):
        layout_runs.train(tmp_path, init_from=source, **_SAME)


def test_a_run_of_which_trees_alone_score_is_refused(source, root, monkeypatch):
    monkeypatch.setattr(run_files, 'has_weights', lambda model_dir: False)
    monkeypatch.setattr(finding, 'load', lambda *_: run_files.read(source))
    with pytest.raises(ValueError, match='only trees'):
        layout_runs.train(root, init_from=source, **_SAME)


def test_a_run_without_a_normaliser_is_refused(source, root, tmp_path, monkeypatch):
    stripped = finding.load(source)
    del stripped.info['normalizer']
    monkeypatch.setattr(finding, 'load', lambda *_: stripped)
    settings = layout_runs.settings(root, init_from=source, **_SAME)
    with pytest.raises(ValueError, match='normaliser'):
        init_from.read_start(settings, None, 1)
