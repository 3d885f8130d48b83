"""Folds and seeds: their tables, and the out-of-fold scores that they write."""

import csv
import dataclasses
import re

import numpy as np
import pytest

from baselines import config
from baselines.evaluation import metrics
from baselines.training import cross_validation
from tests.helpers import finished_runs
from tests.helpers import refusals
from tests.helpers import tile_records
from tests.helpers import tile_runs
from tests.helpers import tiny_models
import tpugraphs
from tpugraphs import commands

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('weights_alone')]


def _train_all(settings):
    """Returns the score of several trainings, as text, and what they printed."""
    score, printed = finished_runs.run_quietly(
        lambda s: str(cross_validation.train_all(s)), settings
    )
    return str(score), printed


@pytest.fixture(name='root', scope='module')
def _root(tmp_path_factory):
    root = tmp_path_factory.mktemp('folds')
    tile_records.write_splits(root / 'data', 12)
    # Folds join train and valid, in which no ID is twice.
    for path in (root / 'data/valid').iterdir():
        path.rename(path.with_name(f'other_{path.name}'))
    return root


def _figure(printed, row, column):
    """Returns a figure of a table that was printed."""
    lines = printed.splitlines()
    head = next(line for line in lines if line.startswith(('fold ', 'seed ')))
    titles = re.split(' {2,}', head)
    cells = re.split(' {2,}', next(line for line in lines if line.startswith(row)))
    return float(cells[titles.index(column)])


def test_the_out_of_fold_figure_is_that_of_the_written_scores(tmp_path, capsys):
    flags = ['--sample_data', '--toy_data', '--epochs=1', '--configs=4', '--folds=2']
    flags += [f'--out_dir={tmp_path}', f'--cache_dir={tmp_path}/cache']
    flags += [f'--{name}={value}' for name, value in tile_runs.TINY.items()]
    assert commands.run('train', ['tile', *flags]) == 0
    printed = capsys.readouterr().out
    [path] = tmp_path.glob('folds_*.npz')
    accuracies = []
    with np.load(path) as scored:
        for split in ('train', 'valid'):
            for record in list(tpugraphs.open('sample', split))[:100]:
                scores = scored[record.graph_id]
                times = record.config_runtime / record.config_runtime_normalizers
                slower = times[:, np.newaxis] > times
                higher = scores[:, np.newaxis] > scores
                accuracies.append((slower & higher).sum() / max(slower.sum(), 1))
        assert len(scored.files) == len(accuracies) == 200
    assert _figure(printed, 'out of fold', 'OPA') == round(np.mean(accuracies), 3)
    # The mean of the folds is another figure: folds differ in size.
    folds = [_figure(printed, f'{number}/2', 'OPA') for number in (1, 2)]
    assert _figure(printed, 'mean', 'OPA') == pytest.approx(np.mean(folds), abs=1e-3)
    assert '--fold_epochs=same' in printed
    with path.with_suffix('.csv').open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 100 and all(row['TopConfigs'] for row in rows)


def test_finished_folds_are_kept_and_share_their_epochs(root, tmp_path):
    settings = tile_runs.settings(
        root, **tile_runs.TINY, folds=2, out_dir=str(tmp_path)
    )
    numbers = []

    def stop(number, state):
        numbers.append(number)
        if number == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cross_validation.train_all(settings, after_epoch=stop)
    assert numbers == [0, 0, 0, 1]
    [kept] = tmp_path.glob('model_*')
    resumed = dataclasses.replace(settings, resume=True, fold_epochs='same')
    _, printed = _train_all(resumed)
    assert printed.count('is finished already') == 1 and kept.exists()
    curves = {
        path.name: finished_runs.read_curve(path) for path in tmp_path.glob('model_*')
    }
    folds = [curve for curve in curves.values() if curve['val_opa'][0] is not None]
    means = np.mean([curve['val_opa'] for curve in folds], axis=0)
    same = [curve for curve in curves.values() if curve['val_opa'][0] is None]
    assert len(folds) == len(same) == 2
    assert {len(curve['epoch']) for curve in same} == {int(means.argmax()) + 1}
    assert f'epochs, {means.argmax() + 1}, ' in printed
    assert len(list(tmp_path.glob('folds_*'))) == 2


def test_seeds_have_a_table(root, tmp_path):
    settings = tile_runs.settings(
        root, **tile_runs.TINY, seeds=2, seed=3, epochs=1, out_dir=str(tmp_path)
    )
    score, printed = _train_all(settings)
    runs = [
        tpugraphs.load(path, model=tiny_models.__file__)
        for path in tmp_path.glob('model_*')
    ]
    by_seed = {run.info['seed']: run for run in runs}
    assert float(score) == pytest.approx(
        np.mean([run.info['val_score']['value'] for run in runs])
    )
    found = [by_seed[seed].evaluate('valid')['overall'] for seed in (3, 4)]
    for measure in metrics.MEASURES['tile']:
        values = [overall[measure.key]['mean'] for overall in found]
        rows = {'3': values[0], '4': values[1], 'mean': np.mean(values)}
        rows['deviation'] = np.std(values, ddof=1)
        for row, value in rows.items():
            assert _figure(printed, row, measure.title) == round(value, 3)
    name = f'compare: tpugraphs evaluate --compare Tiny OTHER --out_dir {tmp_path}'
    assert printed.splitlines()[-1].startswith(name)


@pytest.mark.parametrize(
    'changes, flag',
    [
        ({'folds': 2, 'fold': '1/2'}, '--fold'),
        ({'seeds': 2, 'fold_epochs': 'same'}, '--fold_epochs'),
        ({'folds': 2, 'fold_epochs': 'same', 'model': 'Trees'}, 'trees'),
        ({'seeds': 2, 'strategy': 'workers'}, '--strategy=workers'),
        ({'seeds': 2, 'results_csv': 'a.csv'}, '--results_csv'),
    ],
)
def test_what_several_trainings_do_not_take(changes, flag):
    settings = config.TileConfig(**changes)
    refusals.assert_refused(lambda: cross_validation.train_all(settings), flag)


def test_one_training_in_python_is_of_one_model(root):
    with pytest.raises(ValueError, match='--folds and --seeds'):
        tile_runs.train(root, **tile_runs.TINY, folds=2)
