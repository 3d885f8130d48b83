"""Workers: trials that go well, and all the ways in which they do not."""

import os
import signal
import subprocess
import sys
import time

import pytest

from baselines import config
from tests.helpers import places
from tests.helpers import stub_trial
from tests.helpers import tile_records
from tests.helpers import tile_runs
from tpugraphs import commands
from tpugraphs.sweep import jobs
from tpugraphs.sweep import processes
from tpugraphs.sweep import results
from tpugraphs.sweep import storage as storage_lib
from tpugraphs.sweep import study as study_lib
from tpugraphs.sweep import worker

pytest.importorskip('optuna')

_SPACE = {'epochs': 9, 'lr': {'low': 0.2, 'high': 0.4}}


def _order(tmp_path, space=None, trials=1, seeds=1, folds=0, seed=0, **changes):
    """An order, and the sweep that it is for."""
    storage = storage_lib.default_storage(str(tmp_path))
    definition = study_lib.Definition('tile:xla', space or _SPACE, {}, seeds, folds)
    sweep = study_lib.Sweep(storage, 's', definition)
    base = config.to_json(config.TileConfig(out_dir=str(tmp_path / 'out'), seed=seed))
    changes.setdefault('train', stub_trial.train)
    return worker.Order(storage, 's', trials, base, **changes), sweep


@pytest.mark.slow
def test_a_trial_is_the_mean_over_seeds_and_folds(tmp_path, capsys):
    order, sweep = _order(tmp_path, seeds=2, folds=2, seed=1)
    worker.work(order)
    [trial] = sweep.trials()
    # The stub reaches lr + seed / 10, with the seeds 1 and 2.
    assert trial.value == pytest.approx(trial.params['lr'] + 0.15)
    names = [run['model'] for run in trial.user_attrs[study_lib.RUNS]]
    assert names == ['model_11of2', 'model_12of2', 'model_21of2', 'model_22of2']
    # Steps 1 to 9 are the first run's, 28 to 36 the last one's.
    assert set(trial.intermediate_values) == set(range(1, 37))
    # Both are means of four; `sum` adds otherwise from Python 3.12 on.
    rounding = 4 * 2**-52
    assert trial.intermediate_values[36] == pytest.approx(trial.value, rel=rounding)
    assert capsys.readouterr().out.startswith('trial 0  ')
    assert (tmp_path / 'out/trial_0000/log.txt').exists()
    assert results.recipe(sweep)['settings']['lr'] == trial.params['lr']


@pytest.mark.slow
def test_what_falls_behind_is_ended_early(tmp_path):
    space = {**_SPACE, 'lr': {'choices': [0.9, 0.3]}}
    order, sweep = _order(tmp_path, space, trials=2)
    for lr in (0.9, 0.3):
        sweep.study.enqueue_trial({'lr': lr})
    worker.work(order)
    ended = [(trial.state.name, trial.last_step) for trial in sweep.trials()]
    assert ended == [('COMPLETE', 9), ('PRUNED', 1)]  # the first rung of 9 epochs


@pytest.mark.slow
def test_trials_that_go_wrong_are_recorded_and_the_next_one_starts(tmp_path):
    reasons = {
        'crash': 'the process ended with exit code 1: Segmentation fault, or so',
        'killed': 'the process was ended by SIGKILL (out of memory?)',
        'realtime': f'the process was ended by signal {signal.SIGRTMIN + 1}',
        'memory': 'out of memory',
        'error': 'there is no such data',
    }
    space = {'epochs': 1, 'lr': 0.5, 'averaging': {'choices': [*reasons, '']}}
    order, sweep = _order(tmp_path, space, trials=6)
    for way in [*reasons, '']:
        sweep.study.enqueue_trial({'averaging': way})
    worker.work(order)
    *failed, last = sweep.trials()
    assert [t.user_attrs[study_lib.REASON] for t in failed] == list(reasons.values())
    assert {t.state.name for t in failed} == {'FAIL'} and last.value == 0.5


@pytest.mark.slow
def test_a_trial_that_hangs_is_ended(tmp_path):
    order, sweep = _order(tmp_path, {**_SPACE, 'averaging': 'hang'}, minutes=0.01)
    worker.work(order)
    [trial] = sweep.trials()
    reason = 'out of time: more than 0.01 minutes'
    assert (trial.state.name, trial.user_attrs['reason']) == ('FAIL', reason)


@pytest.mark.slow
def test_a_sweep_of_failures_ends_with_their_reason(tmp_path):
    order, sweep = _order(tmp_path, {**_SPACE, 'averaging': 'error'}, trials=9)
    worker.work(order)
    assert len(sweep.trials()) == 3
    assert sweep.common_failure() == 'there is no such data'


@pytest.mark.slow
def test_a_trial_that_another_worker_took_over_is_left_to_it(tmp_path, monkeypatch):
    """As after a machine has slept: the trial is failed and queued while it runs."""
    order, sweep = _order(tmp_path)
    start = processes.start

    def start_and_lose(*arguments):
        monkeypatch.undo()
        [trial] = sweep.trials()
        sweep.study.tell(trial.number, state=type(trial.state).FAIL)
        sweep.queue_again(trial)
        return start(*arguments)

    monkeypatch.setattr(processes, 'start', start_and_lose)
    worker.work(order)
    [trial] = sweep.trials()
    assert (trial.number, trial.state.name) == (1, 'COMPLETE')


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
        (['--trials=0'], '--trials should be at least 1, not 0'),
        (['--seeds=0'], '--seeds should be at least 1, not 0'),
        (['--workers=-1'], '--workers should be at least 1, not -1'),
        (['--minutes=-1'], '--minutes should be at least 0, not -1.0'),
        (['--minutes=nan'], '--minutes should be at least 0, not nan'),
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
def test_a_sweep_of_real_trainings_ends_with_a_command(tmp_path, capfd):
    tile_records.write_splits(tmp_path / 'data')
    tiny = tile_runs.settings(tmp_path, **tile_runs.TINY)
    flags = [
        f'--{name}={value}'
        for name, value in config.to_json(tiny).items()
        if value != getattr(config.TileConfig(), name) and name != 'out_dir'
    ]
    space = tmp_path / 'space.toml'
    space.write_text('epochs = 2\n[lr]\nlow = 1e-3\nhigh = 1e-2\n')
    out_dir = tmp_path / 'sweep'
    words = ['--space', space, f'--out_dir={out_dir}', '--trials=1', '--seeds=2']
    assert _sweep('tile', *words, *flags) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith('trial 0  ')
    assert lines[-1].startswith(f'next: tpugraphs train tile --recipe={out_dir}/best')
    assert f'--data_root={tiny.data_root}' in lines[-1]
    [trial] = study_lib.Sweep(storage_lib.default_storage(str(out_dir))).trials()
    assert sorted(trial.intermediate_values) == [1, 2, 3, 4]
    for run in trial.user_attrs[study_lib.RUNS]:
        assert (out_dir / 'trial_0000' / run['model']).is_dir()
    # The same command has nothing left to do.
    assert _sweep('tile', *words, *flags) == 0
    assert 'tile:xla: 1 of 1 trials are there' in capfd.readouterr().out


_SWEEP = """
import pathlib
import sys

from baselines import command_line
from tpugraphs.sweep import jobs
from tpugraphs.sweep import processes
from tests.tpugraphs.sweep import test_worker

if __name__ == '__main__':
    order, _ = test_worker._order(pathlib.Path(sys.argv[1]), trials=2)
    sys.exit(command_line.guarded(lambda: jobs.run_workers([order] * 2)))
"""


@pytest.mark.slow
@pytest.mark.parametrize('way', ['interrupted', 'killed'])
def test_a_sweep_goes_on_where_it_was_broken_off(tmp_path, monkeypatch, way):
    """Two workers; one is killed and Ctrl-C ends the rest, or all are orphans."""
    psutil = pytest.importorskip('psutil')
    monkeypatch.setenv('STUB_SECONDS', '0.5')
    monkeypatch.setenv('PYTHONPATH', str(places.ROOT))
    monkeypatch.setattr(storage_lib, 'HEARTBEAT', 1)
    monkeypatch.setattr(storage_lib, 'GRACE', 2)
    (tmp_path / 'sweep.py').write_text(_SWEEP)
    order, sweep = _order(tmp_path, trials=2)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / 'sweep.py'), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len([t for t in sweep.in_state('RUNNING') if t.last_step]) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    descendants = psutil.Process(process.pid).children(recursive=True)
    if way == 'killed':
        process.kill()
    else:
        first = next(child for child in descendants if child.children())
        [trial] = first.children()
        first.kill()
        trial.wait(10)
        process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert error == ('' if way == 'killed' else '\ninterrupted\n')
    _, alive = psutil.wait_procs(descendants, timeout=10)
    assert not alive
    waiting, running, _ = sweep.counts()
    assert (waiting, running) == ((0, 2) if way == 'killed' else (1, 1))

    monkeypatch.setenv('STUB_SECONDS', '0')
    worker.work(order)
    trials = sweep.trials()
    assert {t.state.name for t in trials} <= {'COMPLETE', 'PRUNED'}
    folders = [study_lib.folder_of(trial) for trial in trials]
    assert sorted(folders) == sorted(p.name for p in (tmp_path / 'out').glob('trial_*'))
    assert len(trials) == 2
