"""One training on two collections, through the command line."""

import json

import numpy as np
import pytest

from baselines.runs import finding
from baselines.scoring import exporting
from baselines.scoring import prediction
from baselines.training import init_from
from baselines.training import run_training
from tests.helpers import exported
from tests.helpers import finished_runs
from tests.helpers import layout_files
from tests.helpers import layout_runs
from tests.helpers import made_runs
from tests.helpers import processes
from tests.helpers import refusals
from tests.helpers import tiny_layout_models
from tests.helpers.finished_runs import read_ranking

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('weights_alone')]

_XLA, _NLP = 'layout:xla:random', 'layout:nlp:random'
# Configuration i fills all 18 columns with the i-th, less 1.
_VALUES = np.array([3, 0, 6, 1, 5, 2, 4])
_ASCENDING = '1;3;5;0;6;4;2'
_DESCENDING = '2;4;6;0;5;3;1'


def _program(name):
    """Makes a program of one configurable node, slower for larger values."""
    features = np.repeat(_VALUES[:, None, None] - 1.0, 18, axis=2)
    return layout_files.make_record(
        np.random.default_rng(0),
        name,
        configurable=1,
        node_config_feat=features.astype(np.float32),
        config_runtime=1000 + _VALUES,
    )


def _write_data(folder):
    """Writes xla:random with two programs to validate on, and nlp:random with one."""
    for source, names in (('xla', 'pq'), ('nlp', 'p')):
        for split in ('train', 'valid', 'test'):
            of_split = names if split == 'valid' else 'p'
            programs = [_program(name) for name in of_split]
            layout_files.write_split(folder / source / 'random' / split, programs)


@pytest.fixture(name='trained', scope='module')
def _trained(tmp_path_factory):
    """The folder of a training whose model ranks nlp the other way round than xla.

    Its weights of 1 hardly move, so that a score is the sum of a configuration's
    scaled columns, times 1 for the flag of xla and -1 for that of nlp.
    """
    folder = tmp_path_factory.mktemp('joint')
    _write_data(folder / 'data')
    words = ['--source=xla,nlp', f'--data_root={folder}/data', '--configs=7']
    words += [f'--cache_dir={folder}/cache', f'--out_dir={folder}/out', '--epochs=1']
    words += ['--model=Signed', f'--models_file={tiny_layout_models.__file__}']
    words += ['--model_kwargs_json={"start": 1}', '--lr=1e-9']
    assert processes.command('train', 'layout', *words) == 0
    return folder


@pytest.fixture(name='model_dir')
def _model_dir(trained):
    [model_dir] = (trained / 'out').glob('model_*')
    return model_dir


def _options(trained, **changes):
    return prediction.Options(
        cache_dir=str(trained / 'cache'),
        models_file=tiny_layout_models.__file__,
        **changes,
    )


def test_each_collection_has_a_csv(trained):
    found = {path.name[22:]: path for path in (trained / 'out').glob('results_*.csv')}
    assert sorted(found) == ['nlp_random.csv', 'xla_random.csv']
    assert read_ranking(found['xla_random.csv']) == {f'{_XLA}:p': _ASCENDING}
    assert read_ranking(found['nlp_random.csv']) == {f'{_NLP}:p': _DESCENDING}
    words = ['--no_template', '--output', trained / 'all.csv']
    assert processes.command('combine', *found.values(), *words) == 0
    assert len(read_ranking(trained / 'all.csv')) == 2


def test_each_collection_is_validated(model_dir):
    info = finished_runs.read_info(model_dir)
    assert info['args']['source'] == 'xla,nlp'
    by_collection = info['final_error_by_collection']
    taus = {n: each['val']['kendall_tau'] for n, each in by_collection.items()}
    assert taus == {_XLA: 1.0, _NLP: -1.0}
    # Of three programs, two of xla; an epoch's counts collections alike.
    assert info['final_error']['val']['kendall_tau'] == pytest.approx(1 / 3)
    assert info['train_curve']['val_tau'] == pytest.approx([0])
    assert info['node_features'] == 140
    fingerprints = info['data_fingerprint']
    assert len({*fingerprints['valid'].split()}) == 2  # of one program, and of two
    assert len(info['normalizer']['node_used']) == 142


def test_predictions_are_those_of_the_training(trained, model_dir, capsys):
    words = ['--cache_dir', trained / 'cache', '--dir', model_dir]
    words += ['--models_file', tiny_layout_models.__file__]
    output = trained / 'again.csv'
    assert processes.command('predict', *words, '--output', output) == 0
    assert 'is not as it was' not in capsys.readouterr().err
    assert read_ranking(trained / 'again_xla_random.csv') == {f'{_XLA}:p': _ASCENDING}
    assert read_ranking(trained / 'again_nlp_random.csv') == {f'{_NLP}:p': _DESCENDING}
    words += ['--collection', _NLP]
    assert processes.command('predict', *words, '--output', output) == 0
    assert read_ranking(output) == {f'{_NLP}:p': _DESCENDING}
    capsys.readouterr()
    assert processes.command('evaluate', *words[:-2], '--json') == 0
    summaries = json.loads(capsys.readouterr().out)
    taus = {n: s['overall']['kendall_tau']['mean'] for n, s in summaries.items()}
    assert taus == {f'{model_dir} {_XLA}': 1.0, f'{model_dir} {_NLP}': -1.0}


def test_a_graph_in_memory_is_of_the_named_collection(trained, model_dir):
    options = _options(trained)
    load = lambda: prediction.load(str(model_dir), options)
    refusals.assert_refused(load, str(model_dir), _XLA, _NLP, '--collection')
    options = _options(trained, collection=_NLP)
    predictor = load()
    scores = predictor.score_record(_program('new'))
    # Seven values, scaled to [0, 1], in 18 columns.
    np.testing.assert_allclose(scores, -18 * _VALUES / 6, rtol=1e-6)


def test_an_exported_model_has_the_flags_inside(trained, model_dir):
    served, run = str(trained / 'served'), finding.load(str(model_dir))
    exporting.export(run, served, tiny_layout_models.__file__, _NLP)
    scores = exported.load_function(served)(**exported.make_inputs(_program('new')))
    np.testing.assert_allclose(scores, -18 * _VALUES / 6, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    'changes, words',
    [
        (dict(fold='1/2'), ['--fold', ' 2']),
        (dict(search='random,default', source='nlp'), [_NLP, 'layout:nlp:default']),
    ],
)
def test_settings_that_do_not_fit(changes, words, tmp_path):
    for split in ('train', 'valid', 'test'):
        layout_files.write_split(tmp_path / 'data' / split, [_program('p')])
    settings = layout_runs.settings(
        tmp_path, **layout_runs.TINY, **{'source': 'xla,nlp', **changes}
    )
    refusals.assert_refused(lambda: run_training.train(settings), *words)


def test_weights_of_other_collections(tmp_path):
    model_dir = made_runs.make_layout_run(tmp_path)
    settings = layout_runs.settings(tmp_path, init_from=model_dir, source='xla,nlp')
    read = lambda: init_from.read_start(settings, None, 1)
    refusals.assert_refused(read, _XLA, 'layout:xla,nlp:random')
