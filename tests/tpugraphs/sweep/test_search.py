"""Sweeps: trials that go well, the ways in which they do not, and their storages."""

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from baselines import config
from baselines.core import files
from tests.helpers import places
from tests.helpers import shapes
from tests.helpers import stub_trial
from tests.helpers import tile_records
from tests.helpers import tile_runs
from tpugraphs import commands

optuna = pytest.importorskip('optuna')
import sqlalchemy  # noqa: E402

from tpugraphs.sweep import results  # noqa: E402
from tpugraphs.sweep import search  # noqa: E402
from tpugraphs.sweep import study as study_lib  # noqa: E402
from tpugraphs.sweep import trials as trials_lib  # noqa: E402

pytestmark = pytest.mark.filterwarnings('ignore')  # Optuna calls much experimental

_SPACE = 'epochs = 9\n[lr]\nlow = 0.2\nhigh = 0.4\n'


def _run(folder, space=_SPACE, settings=(), **options):
    """Runs a sweep of one trial by default; returns its trials."""
    file = folder / 'space.toml'
    file.write_text(space)
    base = config.TileConfig(out_dir=str(folder / 'out'), **dict(settings))
    options = trials_lib.SweepOptions(**{'space': str(file), 'trials': 1, **options})
    search.run(base, options, stub_trial.train)
    return _trials(folder)


def _trials(folder):
    return study_lib.trials_of(_study(folder))


def _study(folder):
    return study_lib.load(study_lib.default_storage(str(folder / 'out')), '')


@pytest.mark.slow
def test_a_trial_is_the_mean_over_seeds_and_folds(tmp_path, capsys):
    own = {'losses': 'my.py:loss:1', 'models_file': 'my.py', 'toy_data': True}
    settings = {'seed': 1, 'model': 'MLP', 'data_root': '~/my data', **own}
    [trial] = _run(tmp_path, settings=settings, seeds=2, folds=2)
    # The stub reaches lr + seed / 10, with the seeds 1 and 2.
    assert trial.values[0] == pytest.approx(trial.params['lr'] + 0.15)
    # Steps 1 to 9 are the first run's, 28 to 36 the last one's.
    assert set(trial.intermediate_values) == set(range(1, 37))
    assert trial.intermediate_values[36] == pytest.approx(trial.values[0])
    out = tmp_path / 'out'
    assert 'seed 2, fold 2/2' in (out / 'trial_0000/log.txt').read_text()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith('trial 0  0.') and '  complete  lr=' in lines[0]
    assert lines[1] == 'tile:xla: 1 trial: 1 complete'
    assert lines[-1] == (
        f'next: tpugraphs train tile --recipe={out}/best.json --models_file=my.py '
        "--losses=my.py:loss:1 '--data_root=~/my data' --toy_data"
    )
    # Neither data nor files: whoever uses the recipe names them.
    best = json.loads((out / 'best.json').read_text())
    assert best['collection'] == 'tile:xla'
    assert best['settings'] == {'model': 'MLP', 'epochs': 9, **trial.params}


@pytest.mark.slow
def test_trials_that_fall_behind_are_ended_early(tmp_path):
    # At 9 epochs, the first rung is 1; the default, 0.9, is tried first.
    space = 'epochs = 9\n[lr]\nchoices = [0.9, 0.3]\n'
    trials = _run(tmp_path, space, settings={'lr': 0.9}, trials=4)
    for trial in trials:
        steps = {0.9: 9, 0.3: 1}[trial.params['lr']]
        assert (trial.last_step, trial.state.name == 'PRUNED') == (steps, steps == 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    'way, reason',
    [
        ('killed', 'its process ended with signal 9 (out of memory?); see log.txt'),
        ('memory', 'out of memory'),
        ('hang', 'out of time: more than 0.05 minutes'),
    ],
)
def test_a_trial_that_goes_wrong_is_recorded(tmp_path, capsys, way, reason):
    [trial] = _run(tmp_path, f'averaging = "{way}"\n{_SPACE}', minutes=0.05)
    assert trial.state.name == 'FAIL'
    assert trial.user_attrs[study_lib.REASON].startswith(reason)
    assert f'\nfailed: {reason}' in capsys.readouterr().out


@pytest.mark.slow
def test_ctrl_c_as_a_trial_starts_prints_no_traceback(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv('STUB_INTERRUPT', '1')
    [trial] = _run(tmp_path)  # the process that started the trial ends it, or not
    assert trial.state.name == 'COMPLETE'
    assert 'Traceback' not in capfd.readouterr().err


@pytest.mark.slow
def test_a_sweep_of_failures_ends_with_their_reason(tmp_path):
    with pytest.raises(
        ValueError, match='all of the first .* failed: there is no such'
    ):
        _run(tmp_path, f'averaging = "error"\n{_SPACE}', trials=9)
    assert len(_trials(tmp_path)) == 3


def test_two_processes_that_make_the_tables_at_once(tmp_path, monkeypatch):
    make = optuna.storages.RDBStorage.__init__
    unique = Exception('UNIQUE constraint failed: alembic_version.version_num')
    exists = Exception('table studies already exists')
    failures = [
        sqlalchemy.exc.IntegrityError('', {}, unique),
        sqlalchemy.exc.OperationalError('', {}, exists),
    ]

    def database(*args, **kwargs):
        if failures:
            raise failures.pop()
        make(*args, **kwargs)

    monkeypatch.setattr(optuna.storages.RDBStorage, '__init__', database)
    monkeypatch.setattr(study_lib.time, 'sleep', lambda seconds: None)
    assert study_lib.open_storage(study_lib.default_storage(str(tmp_path)))


def _sweep(storage, seed=0):
    return study_lib.create(storage, 's', {'collection': 'tile:xla'}, seed, 9)


@pytest.fixture
def storage(tmp_path):
    name = 'a?b%20{c} d'
    try:
        storage = study_lib.default_storage(str(tmp_path / name))
    except ValueError as error:  # of SQLAlchemy 2.0
        assert 'opens no file in a folder with a "?"' in str(error)
        name = name.replace('?', '')
        storage = study_lib.default_storage(str(tmp_path / name))
    (tmp_path / name).mkdir()
    return storage


def test_who_joins_brings_the_same_sweep(storage):
    _sweep(storage)
    with pytest.raises(ValueError, match='another sweep s: its folds is None, not 5'):
        study_lib.create(storage, 's', {'folds': 5}, 0, 9)
    opened = study_lib.open_storage(storage)
    optuna.create_study(storage=opened, study_name='other').enqueue_trial({})
    with pytest.raises(ValueError, match='--study other is no sweep of ours'):
        study_lib.create(storage, 'other', {'folds': 5}, 0, 9)


@pytest.mark.slow
def test_seeds_draw_different_settings(storage):
    drawn = [
        _sweep(storage, seed).ask().suggest_float('lr', 0, 1) for seed in (0, 0, 7)
    ]
    assert len(set(drawn)) == 3  # the second goes on after a trial


@pytest.mark.slow
def test_an_interrupted_sweep_draws_as_an_uninterrupted_one(tmp_path):
    def drawn(storage, is_interrupted):
        study = _sweep(storage)
        for _ in range(11):  # the first 8 are drawn at random
            if is_interrupted:
                study = _sweep(storage)
            trial = study.ask()
            study.tell(trial, trial.suggest_float('lr', 0, 1))
        return [trial.params['lr'] for trial in study.trials]

    storages = [f'sqlite:///{tmp_path}/{name}.db' for name in 'ab']
    assert drawn(storages[0], False) == drawn(storages[1], True)


@pytest.mark.slow
def test_a_sweep_of_a_killed_process_ends_as_an_uninterrupted_one(
    tmp_path, monkeypatch
):
    folders = [tmp_path / name for name in ('whole', 'killed', 'joined')]
    ways = []

    def train(*_):
        if ways:
            raise ways.pop()  # as a kill, it leaves the trial as it is
        return {'val_opa': [0.5]}

    monkeypatch.setattr(trials_lib.Objective, '_train', train)
    for folder in folders:
        (folder / 'out').mkdir(parents=True)
        if folder.name != 'whole':
            ways.append(SystemExit)
            with pytest.raises(SystemExit):
                _run(folder, trials=2)
            assert [trial.state.name for trial in _trials(folder)] == ['RUNNING']
    whole, killed = (_run(folder, trials=2) for folder in folders[:2])
    assert [trial.number for trial in killed] == [1, 2]
    assert [trial.params for trial in killed] == [trial.params for trial in whole]
    assert study_lib.folder_of(killed[0]) == 'trial_0000'  # of the first attempt
    # A trial may be one of another process that lives.
    with files.joined(str(folders[2] / 'out'), lambda: None):
        states = [trial.state.name for trial in _run(folders[2], trials=2)]
    assert states == ['RUNNING', 'COMPLETE', 'COMPLETE']


def test_a_sweep_is_opened_by_its_name(tmp_path, storage):
    [folder] = tmp_path.iterdir()
    with pytest.raises(ValueError, match='--storage: there is no file .*sweep.db'):
        study_lib.load(storage, '')
    assert not list(folder.iterdir())
    _sweep(storage)
    assert [path.name for path in folder.iterdir()] == ['sweep.db']
    assert study_lib.load(storage, '').study_name == 's'
    with pytest.raises(ValueError, match="there is no --study 'x'; there are: s"):
        study_lib.load(storage, 'x')


def test_storages_that_cannot_be_used_are_one_line(tmp_path):
    with sqlite3.connect(tmp_path / 'old.db') as database:
        database.execute('create table version_info (x int)')
    for storage, cause in [
        (str(tmp_path / 'sweep.journal'), 'Could not parse'),
        (f'sqlite:///{tmp_path}/nowhere/a.db', 'unable to open'),
        (f'sqlite:///{tmp_path}/old.db', 'version_info'),
        ('nosuchdb://me:secret@host/x', 'nosuchdb'),
    ]:
        with pytest.raises(ValueError, match='^--storage .* cannot be used: ') as bad:
            _sweep(storage)
        assert cause in str(bad.value) and '\n' not in str(bad.value)
        assert 'secret' not in str(bad.value)


def _execute(storage, command):
    path = sqlalchemy.engine.make_url(storage).database
    with sqlite3.connect(path) as database:
        database.execute(command)


def _fill_up(storage, table):
    """Makes insertions into a table fail as on a full disk."""
    _execute(
        storage,
        f'create trigger full before insert on {table} begin '
        "select raise(abort, 'database or disk is full'); end",
    )


@pytest.mark.parametrize('table', ['trials', 'trial_values'])
def test_a_storage_that_fills_up_is_one_line(tmp_path, monkeypatch, table):
    monkeypatch.setattr(
        trials_lib.Objective, '_train', lambda *unused: {'val_opa': [0.5]}
    )
    storage = f'sqlite:///{tmp_path}/sweep.db'
    study_lib.open_storage(storage)
    _fill_up(storage, table)
    # Optuna keeps some errors of its threads to itself.
    full = 'used: database or disk is full$|^a worker has ended early; the same'
    with pytest.raises(ValueError, match=full):
        _run(tmp_path, storage=storage)


def test_a_sign_of_life_that_cannot_be_written_is_missing(storage):
    study = _sweep(storage)
    _fill_up(storage, 'trial_heartbeats')
    study._storage.record_heartbeat(study.ask()._trial_id)


@pytest.mark.parametrize(
    'damage, cause',
    [
        ('delete from study_directions', 'the direction of its study is not ours'),
        ('delete from trial_values', 'trial 0 is damaged'),
        ('update trials set number = 7', 'trial 0 is damaged'),
        ("update trials set state = 'x'", "'x'"),
        ("update trial_values set value = 'x'", 'trial 0 is damaged'),
        ("update trial_params set param_name = x'ff00'", 'trial 0 is damaged'),
        ('update trial_params set param_value = null', 'trial 0 is damaged'),
    ],
)
def test_damaged_studies_are_one_line(storage, damage, cause):
    study = _sweep(storage)
    trial = study.ask()
    trial.suggest_float('lr', 0, 1)
    study.tell(trial, 0.5)
    _execute(storage, damage)
    for opening in (_sweep, lambda storage: study_lib.load(storage, '')):
        with pytest.raises(ValueError, match=f'cannot be used: {cause}'):
            opening(storage)


def test_a_damaged_name_is_one_line(storage):
    _sweep(storage)
    _execute(storage, "update studies set study_name = x'ff00'")
    with pytest.raises(ValueError, match='cannot be used: the name of a study is no'):
        study_lib.load(storage, '')


def test_the_importance_of_settings_is_shown(storage):
    study = _sweep(storage)
    for number in range(20):
        if number < 10:
            assert study_lib.importances(study) == {}
        if number == 9:
            assert results.table(study)[-1] == 'importance: from 10 complete trials on'
        trial = study.ask()
        lr = trial.suggest_float('lr', 0, 1)
        trial.suggest_float('l2', 0, 1)
        study.tell(trial, lr)
    shares = study_lib.importances(study)
    assert list(shares) == ['lr', 'l2'] and shares['lr'] > 0.5
    assert any(line.startswith('importance: lr ') for line in results.table(study))
    assert results.to_json(study)['importances'] == shares


def test_the_settings_of_a_trial_are_shown_whole(storage):
    study = _sweep(storage)
    trial = study.ask()
    names = [f'a_setting_with_a_long_name_{number}' for number in range(4)]
    for name in names:
        trial.suggest_categorical(name, ['its value'])
    study.tell(trial, 0.5)
    _, _, _, _, first, second, *_ = results.table(study)
    shown = [f'{name}=its value' for name in names]
    assert first == f'0.5000      0  {" ".join(shown[:2])}'
    assert second == f'{"":15}{" ".join(shown[2:])}'


@pytest.mark.slow
def test_a_trial_without_signs_of_life_is_tried_again(storage, monkeypatch):
    monkeypatch.setattr(study_lib, 'HEARTBEAT', 1)
    monkeypatch.setattr(study_lib, 'GRACE', 1)
    study, drawn = _sweep(storage), []

    def killed(trial):
        drawn.append(trial.suggest_float('lr', 0, 1))
        raise SystemExit

    with pytest.raises(SystemExit):
        study.optimize(killed, n_trials=1)
    time.sleep(2.1)
    study.optimize(lambda trial: trial.suggest_float('lr', 0, 1), n_trials=1)
    [trial] = study_lib.trials_of(study)
    assert (trial.number, trial.params) == (1, {'lr': drawn[0]})
    assert study_lib.folder_of(trial) == 'trial_0000'  # of the first attempt


def test_cores_are_divided(monkeypatch):
    monkeypatch.setattr(os, 'sched_getaffinity', lambda pid: {4, 5, 6}, raising=False)
    assert search.shared_cores(2) == [[4, 6], [5]]
    assert search.shared_cores(4) == [[4], [5], [6], [4]]


def _command(*words):
    return commands.run('sweep', [str(word) for word in words])


@pytest.mark.parametrize(
    'flag, message',
    [
        ('--folds=1', '--folds should be 2 or more, or 0, not 1'),
        ('--trials=0', '--trials should be at least 1, not 0'),
        ('--minutes=nan', '--minutes should be at least 0, not nan'),
        ('--sampling=uniform', '--sampling is not for tile:xla'),
        ('--lr=0', '--lr should be more than 0'),
        ('--recipe=weak', "there is no --recipe 'weak'"),
        ('--space=nowhere.toml', 'nowhere.toml'),
    ],
)
def test_wrong_options_are_one_line(tmp_path, capsys, flag, message):
    assert _command('tile', f'--out_dir={tmp_path}', flag) == 1
    error = capsys.readouterr().err
    assert error.startswith('error: ') and message in error
    assert error.count('\n') == 1 and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_sweep_of_real_trainings_ends_with_a_command(tmp_path, capfd):
    tile_records.write_splits(tmp_path / 'data')
    tiny = tile_runs.settings(tmp_path, **tile_runs.TINY)
    names = [n for n in config.to_json(tiny) if n not in ('out_dir', 'epochs')]
    out_dir = tmp_path / 'sweep'
    # No kernel of the data has so many configurations.
    space = tmp_path / 'space.toml'
    space.write_text('epochs = 2\n[configs]\nchoices = [60]\n')
    words = ['--space', space, f'--out_dir={out_dir}', '--trials=1']
    words += config.as_flags(tiny, names)
    assert _command('tile', *words) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith('trial 0  0.')
    assert lines[-1].startswith(f'next: tpugraphs train tile --recipe={out_dir}/best')
    assert f'--data_root={tiny.data_root}' in lines[-1]
    assert len(list((out_dir / 'trial_0000').glob('model_*'))) == 1
    # The same command has nothing left to do.
    assert _command('tile', *words) == 0
    assert 'tile:xla: done before: 1 of 1 trial;' in capfd.readouterr().out
    assert _command('show', f'--out_dir={out_dir}') == 0
    assert capfd.readouterr().out.startswith('tile:xla: 1 trial: 1 complete')
    assert _command('show', f'--out_dir={out_dir}', '--json') == 0
    found = shapes.check('sweep show', capfd.readouterr().out)
    assert found['best'] == 0 and found['trials'][0]['state'] == 'complete'


_SCRIPT = """
import sys

if __name__ == '__main__':
    from baselines import command_line
    from baselines import config
    from tests.helpers import stub_trial
    from tpugraphs.sweep import search
    from tpugraphs.sweep import trials

    options = trials.SweepOptions('space.toml', trials=2, workers=2, pruning=False)
    base = config.TileConfig(out_dir='out')
    run = lambda: search.run(base, options, stub_trial.train)
    sys.exit(command_line.guarded(run))
"""


@pytest.mark.slow
def test_a_sweep_goes_on_after_ctrl_c(tmp_path, monkeypatch):
    """Also where only the sweep is told: its children end with it."""
    psutil = pytest.importorskip('psutil')
    monkeypatch.setenv('STUB_SECONDS', '0.5')
    monkeypatch.setenv('PYTHONPATH', str(places.ROOT))
    (tmp_path / 'space.toml').write_text(_SPACE)
    (tmp_path / 'sweep.py').write_text(_SCRIPT)
    process = subprocess.Popen(
        [sys.executable, 'sweep.py'],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(list((tmp_path / 'out').glob('trial_*/log.txt'))) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.2)
    descendants = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    again = f'{shlex.quote(sys.executable)} sweep.py'
    assert error == f'\nkept the trials in out; go on with: {again}\n'
    _, alive = psutil.wait_procs(descendants, timeout=10)
    assert not alive
    waiting = _trials(tmp_path)
    assert [trial.state.name for trial in waiting] == ['WAITING'] * 2
    monkeypatch.setenv('STUB_SECONDS', '0')
    trials = _run(tmp_path, trials=2, pruning=False)
    assert [trial.params for trial in trials] == [trial.params for trial in waiting]
    assert {trial.state.name for trial in trials} == {'COMPLETE'}
    folders = [path.name for path in (tmp_path / 'out').glob('trial_*')]
    assert sorted(folders) == ['trial_0000', 'trial_0001']
