"""Workers: trials that go well, and all the ways in which they do not."""

import dataclasses
import os
import signal
import sys
import threading

import pytest

from baselines import commands
from baselines import config
from baselines.sweeps import jobs
from baselines.sweeps import results
from baselines.sweeps import study as study_lib
from baselines.sweeps import trial as trial_lib
from baselines.sweeps import worker
from tests.helpers import stub_trial
from tests.helpers import tile_records
from tests.helpers import tile_runs

pytest.importorskip('optuna')

_SPACE = {'epochs': 9, 'lr': {'low': 0.2, 'high': 0.4}}


def _order(tmp_path, space=None, trials=1, seeds=1, folds=0, **changes):
    """An order, and the study that it is for."""
    storage = str(tmp_path / 'a.journal')
    definition = study_lib.Definition('tile:xla', space or _SPACE, {}, seeds, folds)
    study_lib.Study(storage, 's', definition)
    base = config.to_json(config.TileConfig(out_dir=str(tmp_path / 'out')))
    changes.setdefault('program', stub_trial.__name__)
    order = worker.Order(storage, 's', trials, base, **changes)
    return order, study_lib.Study(storage, 's')


def test_a_trial_is_the_mean_over_seeds_and_folds(tmp_path, capsys):
    order, study = _order(tmp_path, seeds=2, folds=2, seed=1)
    worker.work(order)
    [trial] = study.trials()
    # The stub reaches lr + seed / 10, with the seeds 1 and 2.
    assert trial.value == pytest.approx(trial.params['lr'] + 0.15)
    names = [run['model'] for run in trial.user_attrs[study_lib.RUNS]]
    assert names == ['model_01of2', 'model_12of2', 'model_21of2', 'model_32of2']
    # Steps 1 to 9 are the first run's, 28 to 36 the last one's.
    assert set(trial.intermediate_values) == set(range(1, 37))
    # Both are means of four; `sum` adds otherwise from Python 3.12 on.
    rounding = 4 * 2**-52
    assert trial.intermediate_values[36] == pytest.approx(trial.value, rel=rounding)
    assert capsys.readouterr().out.startswith('trial    0  ')
    assert (tmp_path / 'out/trial_0000/log.txt').exists()
    assert results.recipe(study)['settings']['lr'] == trial.params['lr']


def test_what_falls_behind_is_ended_early(tmp_path):
    space = {**_SPACE, 'lr': {'choices': [0.9, 0.3, 0.31]}}
    order, study = _order(tmp_path, space, trials=6)
    study.try_first({'lr': 0.9})
    worker.work(order)
    ended = [(t.state.name, t.params['lr'], t.last_step) for t in study.trials()]
    assert ended[0] == ('COMPLETE', 0.9, 9)
    pruned = [last for state, lr, last in ended if lr != 0.9 and state == 'PRUNED']
    assert pruned and set(pruned) <= {1, 3}  # the rungs of 9 epochs


@pytest.mark.parametrize(
    'way, reason',
    [
        ('crash', 'the process ended with exit code 1: Segmentation fault, or so'),
        ('killed', 'the process was ended by SIGKILL (out of memory?)'),
        ('memory', 'out of memory'),
        ('error', 'there is no such data'),
        ('hang', 'out of time: more than 0.01 minutes'),
    ],
)
def test_a_trial_that_goes_wrong_is_recorded(tmp_path, way, reason):
    space = {'losses': {'choices': [way, 'ListMLELoss:1']}}
    minutes = 0.01 if way == 'hang' else 0
    order, study = _order(tmp_path, space, trials=2, minutes=minutes)
    study.try_first({'losses': way})
    base = {**order.base, 'epochs': 1}
    worker.work(dataclasses.replace(order, base=base))
    failed = study.of_state('FAIL')
    assert {t.user_attrs[study_lib.REASON] for t in failed} == {reason}
    assert len(study.trials()) == 2


def test_a_sweep_of_failures_ends_with_their_reason(tmp_path):
    order, study = _order(tmp_path, {**_SPACE, 'losses': 'error'}, trials=9)
    with pytest.raises(ValueError, match='first 3 trials failed: there is no such'):
        worker.work(order)
    assert len(study.trials()) == 3


def test_a_worker_that_is_interrupted_gives_its_trial_back(tmp_path, monkeypatch):
    order, study = _order(tmp_path)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(study_lib.Study, 'alive', interrupted)
    with pytest.raises(KeyboardInterrupt):
        worker.work(order)
    [trial] = study.trials()
    assert trial.state.name == 'WAITING'
    monkeypatch.undo()
    worker.work(order)
    assert [t.state.name for t in study.trials()] == ['COMPLETE']


def test_cores_are_divided(monkeypatch):
    monkeypatch.setattr(os, 'sched_getaffinity', lambda pid: {4, 5, 6}, raising=False)
    assert jobs.shared_cores(2) == [[4, 6], [5]]
    assert jobs.shared_cores(4) == [[4], [5], [6], [4]]


def _sweep(*words):
    return commands.run('sweep', [str(word) for word in words])


@pytest.mark.parametrize(
    'words, message',
    [
        (['--folds=1'], '--folds should be 2 or more, or 0, not 1'),
        (['--sampling=uniform'], '--sampling is not for tile:xla'),
        (['--lr=0'], '--lr should be more than 0'),
        (['--recipe=weak'], "there is no --recipe 'weak'"),
        (['--space=nowhere.toml'], 'nowhere.toml'),
    ],
)
def test_wrong_options_are_one_line(tmp_path, capsys, words, message):
    assert _sweep('tile', f'--out_dir={tmp_path}', *words) == 1
    error = capsys.readouterr().err
    assert error.startswith('error: ') and message in error
    assert error.count('\n') == 1 and not list(tmp_path.iterdir())


def test_without_optuna_one_line_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, 'optuna', None)
    assert _sweep('tile', f'--out_dir={tmp_path}') == 1
    assert capsys.readouterr().err == (
        "error: a sweep needs Optuna: pip install 'tpugraphs[sweep]'\n"
    )


@pytest.mark.slow
def test_the_real_trial_trains_and_stops(tmp_path):
    """In this process; after the second epoch of the second run it is told to stop."""
    tile_records.write_splits(tmp_path / 'data')
    said = []

    def settings(seed):
        made = tile_runs.settings(tmp_path, **tile_runs.TINY, seed=seed, resume=True)
        return config.to_json(made)

    def exchange(message):
        said.append(message)
        second = message['run'] == 1 and len(message['scores']) == 2
        return 'stop' if second else 'go'

    with pytest.raises(trial_lib.Stopped):
        trial_lib.train('tile', [settings(0), settings(1)], exchange)
    assert [(m['run'], len(m['scores'])) for m in said] == [
        *((0, epoch) for epoch in (1, 2, 3)),
        (0, 3),
        (1, 1),
        (1, 2),
    ]
    assert os.path.isdir(said[3]['model_dir'])
    assert said[3]['scores'] == sorted(said[3]['scores'])  # the best so far
    assert not list((tmp_path / 'out').glob('unfinished_*.npz'))


@pytest.mark.slow
def test_a_killed_worker_loses_one_trial(tmp_path, monkeypatch, capsys):
    """Two processes of workers; one is killed in the middle of a trial."""
    monkeypatch.setenv('STUB_SECONDS', '0.1')
    order, study = _order(tmp_path, trials=8)
    killed, ended = [], threading.Event()

    def kill():
        while not killed and not ended.wait(0.05):
            for trial in study.of_state('RUNNING'):
                if trial.last_step and not killed:
                    killed.append(int(trial.user_attrs['owner'].split(':')[1]))
                    os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    orders = [dataclasses.replace(order, cores=c) for c in jobs.shared_cores(2)]
    assert jobs.run_workers(orders) == 0
    ended.set()
    thread.join()
    assert len(killed) == 1
    assert 'was ended by SIGKILL' in capsys.readouterr().out
    trials = study.trials()
    assert [t.number for t in trials if study_lib.INSTEAD_OF in t.user_attrs]
    assert len(trials) == 8
    assert {t.state.name for t in trials} <= {'COMPLETE', 'PRUNED'}


@pytest.mark.parametrize(
    'options, words',
    [
        ({'trials': 2, 'folds': 3}, '--trials=2 are fewer than --folds=3: '),
        ({'folds': 1}, '--folds should be 2 or more, or 0, not 1'),
        ({'trials': 0}, '--trials should be at least 1, not 0'),
        ({'seeds': 0}, '--seeds should be at least 1, not 0'),
        ({'workers': -1}, '--workers should be at least 1, not -1'),
        ({'minutes': -1.0}, '--minutes should be at least 0, not -1.0'),
    ],
)
def test_numbers_that_make_no_sweep(options, words, tmp_path):
    base = config.TileConfig(out_dir=str(tmp_path / 'out'))
    with pytest.raises(ValueError, match=words):
        jobs.sweep(base, jobs.Options(**options))
    assert not (tmp_path / 'out').exists()
