"""Sweeps: trials that go well, the ways in which they do not, and their storages."""

import concurrent.futures
import functools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types

import pytest

from baselines import config
from baselines.training import cross_validation
from baselines.training import progress
from baselines.training import run_training
from tests.faults import calls
from tests.helpers import places
from tests.helpers import processes
from tests.helpers import shapes
from tests.helpers import tile_records
from tests.helpers import tile_runs

optuna = pytest.importorskip('optuna')

from tpugraphs.sweep import trials as trials_lib  # noqa: E402

_SPACE = 'epochs = 9\n[lr]\nlow = 0.2\nhigh = 0.4\n'
_TRAINED = []  # settings of the trainings of a test


def _train(settings, command='', after_epoch=lambda state: None):
    """Stands for a training: the score rises to `lr`; or raises."""
    _TRAINED.append(settings)
    print(f'seed {settings.seed}')
    if settings.weight_decay == 7:
        raise ValueError('there is no\nsuch data')
    if settings.weight_decay == 8:
        raise KeyboardInterrupt
    state = progress.State()
    for epoch in range(1, settings.epochs + 1):
        state.curve['epoch'].append(epoch)
        state.best_score = settings.lr * epoch / settings.epochs
        after_epoch(state)
    return str(state.best_score)


def _load(score):
    """Stands for `finding.load`, of what `_train` returned."""
    return types.SimpleNamespace(validation_score=('OPA', float(score)))


@pytest.fixture(autouse=True)
def trainings(monkeypatch):
    """Replaces trainings; the list of their settings."""
    _TRAINED.clear()
    monkeypatch.setattr(run_training, 'train', _train)
    monkeypatch.setattr(cross_validation.finding, 'load', _load)
    monkeypatch.setattr(cross_validation, '_measure_validation', lambda run, config: {})
    return _TRAINED


def _run(folder, space=_SPACE, settings=(), **options):
    """Runs a sweep of one trial by default; returns its trials."""
    file = folder / 'space.toml'
    file.write_text(space)
    base = config.TileConfig(out_dir=str(folder / 'out'), **dict(settings))
    options = trials_lib.SweepOptions(**{'space': str(file), 'trials': 1, **options})
    trials_lib.run_sweep(base, options)
    return _trials(folder)


def _trials(folder):
    return trials_lib.load_study(
        trials_lib.make_default_storage(str(folder / 'out')), ''
    ).trials


def test_a_trial_is_the_mean_over_its_seeds(tmp_path, capsys, trainings):
    own = {'losses': 'my.py:loss:1', 'models_file': 'my.py', 'toy_data': True}
    settings = {'seed': 5, 'seeds': 2, 'model': 'MLP', 'data_root': '~/my data', **own}
    options = {'trials': 2, 'no_pruning': True}
    first, second = _run(tmp_path, settings=settings, **options)
    assert first.value == pytest.approx(first.params['lr'])
    # Steps 1 to 9 are those of the first training, 10 to 18 of the second one.
    assert set(first.intermediate_values) == set(range(1, 19))
    # Each trial has its own seeds.
    assert [t.seed for t in trainings] == [5, 6, 7, 8]
    out = tmp_path / 'out'
    assert 'seed 6' in (out / 'trial_0000/log.txt').read_text()
    lines = capsys.readouterr().out.splitlines()
    # A line as a trial begins and one as it ends, with the best so far; and a table.
    begin = f'trial 0: lr={first.params["lr"]:g}: '.replace('=0.', '=.')
    assert lines[0].startswith(begin) and lines[1].startswith(begin)
    best = max((first, second), key=lambda trial: trial.value)
    found = f'best: {best.value:.3f}, trial {best.number}'
    assert f' {first.value:.3f} ' in lines[1] and lines[1].endswith('trial 0')
    assert f' {second.value:.3f} ' in lines[3] and lines[3].endswith(f'; {found}')
    assert lines[6].split()[:3] == ['0', 'complete', f'{first.value:.3f}']
    assert lines[-2] == found
    assert lines[-1] == (
        f'next: tpugraphs train tile --recipe={out}/best.json --models_file=my.py '
        "--losses=my.py:loss:1 '--data_root=~/my data' --toy_data"
    )
    # Neither data nor files: whoever uses the recipe names them.
    recipe = json.loads((out / 'best.json').read_text())
    assert recipe['collection'] == 'tile:xla'
    assert recipe['settings'] == {'model': 'MLP', 'epochs': 9, **best.params}
    # The same sweep has nothing left to do; another one may not mix with it.
    assert len(_run(tmp_path, settings=settings, **options)) == 2
    settings['seeds'] = 1
    with pytest.raises(ValueError, match="another sweep tile:xla: .*'seeds': 2.*, not"):
        _run(tmp_path, settings=settings, **options)


def test_trials_that_fall_behind_are_ended_early(tmp_path):
    # At 9 epochs, the first rung is 1; the default, 0.9, is tried first.
    space = 'epochs = 9\n[lr]\nchoices = [0.9, 0.3]\n'
    for trial in _run(tmp_path, space, settings={'lr': 0.9}, trials=4):
        steps = {0.9: 9, 0.3: 1}[trial.params['lr']]
        assert (trial.last_step, trial.state.name == 'PRUNED') == (steps, steps == 1)


def test_a_sweep_of_failures_ends_with_their_reason(tmp_path):
    with pytest.raises(ValueError, match='there is no such data'):
        _run(tmp_path, f'weight_decay = 7\n{_SPACE}', trials=9)
    assert [trial.state.name for trial in _trials(tmp_path)] == ['FAIL'] * 3
    log = (tmp_path / 'out/trial_0000/log.txt').read_text()
    assert 'Traceback' in log  # of the user's own code, perhaps


def test_ctrl_c_queues_the_settings_again(tmp_path, monkeypatch, trainings):
    space = 'weight_decay = {choices = [8, 0]}\n'
    with pytest.raises(KeyboardInterrupt):
        _run(tmp_path, space, settings={'weight_decay': 8.0}, trials=2)
    failed, waiting = _trials(tmp_path)
    assert (failed.state.name, waiting.state.name) == ('FAIL', 'WAITING')
    assert waiting.params == failed.params == {'weight_decay': 8.0}
    monkeypatch.setattr(
        run_training, 'train', lambda settings, **_: _TRAINED.append(settings) or '1'
    )
    _run(tmp_path, space, settings={'weight_decay': 8.0}, trials=1)
    assert {os.path.basename(t.out_dir) for t in trainings} == {'trial_0000'}


def test_no_trial_begins_after_the_minutes(tmp_path, monkeypatch):
    monkeypatch.setattr(run_training, 'train', lambda *_, **__: time.sleep(0.1) or '1')
    assert 1 <= len(_run(tmp_path, trials=30, minutes=0.2 / 60)) < 30


def test_a_killed_trial_is_tried_again(tmp_path, monkeypatch):
    heartbeat = {'heartbeat_interval': 1, 'grace_period': 1}
    monkeypatch.setattr(trials_lib, '_HEARTBEAT', heartbeat)

    def killed(*_, **__):
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(run_training, 'train', killed)
        with pytest.raises(SystemExit):
            _run(tmp_path, trials=2)
    time.sleep(2.1)
    lost, again, _ = _run(tmp_path, trials=2)
    assert lost.state.name == 'FAIL' and again.params == lost.params


def test_storages_that_cannot_be_used_are_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(trials_lib.time, 'sleep', lambda seconds: None)
    for storage, cause in [
        (str(tmp_path / 'sweep.journal'), 'Could not parse'),
        (f'sqlite:///{tmp_path}/nowhere/a.db', 'unable to open'),
        ('nosuchdb://me:secret@host/x', 'nosuchdb'),
    ]:
        with pytest.raises(ValueError, match='^--storage .* cannot be used: ') as bad:
            _run(tmp_path, storage=storage)
        assert cause in str(bad.value) and '\n' not in str(bad.value)
        assert 'secret' not in str(bad.value)
    with pytest.raises(ValueError, match='--storage: .*sweep.db'):
        trials_lib.load_study(trials_lib.make_default_storage(str(tmp_path)), '')
    _run(tmp_path)
    with pytest.raises(ValueError, match="has no --study 'x'"):
        trials_lib.load_study(
            trials_lib.make_default_storage(str(tmp_path / 'out')), 'x'
        )


def _join(storage, folder):
    """Joins a sweep, in a process of its own."""
    run_training.train = lambda *_, **__: time.sleep(0.5) or '0.5'
    cross_validation.finding.load = _load
    base = config.TileConfig(out_dir=folder)
    trials_lib.run_sweep(base, trials_lib.SweepOptions(trials=8, storage=storage))


@pytest.fixture(params=['sqlite', 'postgresql'])
def storage(request, tmp_path):
    """The URL of a new database."""
    if request.param == 'sqlite':
        yield f'sqlite:///{tmp_path}/sweep.db'
        return
    found = shutil.which('postgres')
    if not found:
        pytest.skip('needs a PostgreSQL server: apt-get install postgresql')
    pytest.importorskip('psycopg', reason='needs a driver: pip install psycopg')
    binaries = pathlib.Path(found).resolve().parent
    # The server refuses to be root.
    user = 'postgres' if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory() as folder:
        if user:
            shutil.chown(folder, user)
        call = functools.partial(
            subprocess.run, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL
        )
        call([binaries / 'initdb', '-D', 'data', '-U', 'me', '-A', 'trust'])
        with socket.create_server(('127.0.0.1', 0)) as probe:
            port = probe.getsockname()[1]
        control = [binaries / 'pg_ctl', '-D', 'data', '-w', '-l', 'log']
        listening = f'-h 127.0.0.1 -p {port} -k {folder}'
        call([*control, '-o', listening, 'start'])
        try:
            yield f'postgresql+psycopg://me@127.0.0.1:{port}/postgres'
        finally:
            call([*control, '-m', 'immediate', 'stop'])


@pytest.mark.slow
def test_processes_share_a_sweep(tmp_path, storage):
    with concurrent.futures.ProcessPoolExecutor(2, calls.FORKS) as pool:
        joined = [pool.submit(_join, storage, str(tmp_path / n)) for n in 'ab']
        for one in joined:
            one.result()
    trials = trials_lib.load_study(storage, '').trials
    # The last one may begin in both at once.
    assert 8 <= len(trials) <= 9
    assert {trial.state.name for trial in trials} == {'COMPLETE'}
    folders = [{p.name for p in tmp_path.glob(f'{n}/trial_*')} for n in 'ab']
    assert all(folders) and not folders[0] & folders[1]
    # They do not draw the same.
    drawn = [trial.params['lr'] for trial in trials[1:]]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize(
    'flag',
    '--folds=1 --trials=0 --minutes=nan --workers=2 --lr=0 --recipe=weak'.split(),
)
def test_wrong_options_are_one_line(tmp_path, capsys, flag):
    assert processes.command('sweep', 'tile', f'--out_dir={tmp_path}', flag) == 1
    error = capsys.readouterr().err
    assert error.startswith('error: ') and flag.partition('=')[0] in error
    assert error.count('\n') == 1 and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_sweep_of_real_trainings_ends_with_a_command(tmp_path, capfd, monkeypatch):
    monkeypatch.undo()
    tile_records.write_splits(tmp_path / 'data')
    tiny = tile_runs.settings(tmp_path, **tile_runs.TINY)
    names = [n for n in config.to_json(tiny) if n not in ('out_dir', 'epochs')]
    out_dir = tmp_path / 'sweep'
    # No kernel of the data has so many configurations.
    space = tmp_path / 'space.toml'
    space.write_text('epochs = 2\n[configs]\nchoices = [60]\n')
    words = ['--space', space, f'--out_dir={out_dir}', '--trials=1']
    words += config.format_flags(tiny, names)
    assert processes.command('sweep', 'tile', *words) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith('trial 0: configs=60')
    assert lines[-1].startswith(f'next: tpugraphs train tile --recipe={out_dir}/best')
    assert f'--data_root={tiny.data_root}' in lines[-1]
    # Nothing is left to do.
    assert processes.command('sweep', 'tile', *words, '--json') == 0
    said, progress = capfd.readouterr()
    assert shapes.check_shape('sweep show', said)[0]['state'] == 'complete'
    assert progress.startswith('next: ')
    assert len(list((out_dir / 'trial_0000').glob('model_*'))) == 1
    assert processes.command('sweep', 'show', f'--out_dir={out_dir}', '--json') == 0
    [trial] = shapes.check_shape('sweep show', capfd.readouterr().out)
    assert (trial['number'], trial['state']) == (0, 'complete')


@pytest.mark.slow
def test_ctrl_c_leaves_no_running_trial_and_no_part_of_a_run(tmp_path):
    """Also in the middle of a training, which goes on after it."""
    tile_records.write_splits(tmp_path / 'data', 12)
    tiny = tile_runs.settings(tmp_path, **{**tile_runs.TINY, 'epochs': 100_000})
    out = tmp_path / 'sweep'
    names = [n for n in config.to_json(tiny) if n != 'out_dir']
    flags = [*config.format_flags(tiny, names), '--early_stop=100000', '--trials=1']
    words = [sys.executable, '-m', 'tpugraphs', 'sweep', 'tile', f'--out_dir={out}']
    process = subprocess.Popen(
        [*words, *flags], cwd=places.ROOT, stderr=subprocess.PIPE, text=True
    )
    while not list(out.glob('trial_0000/unfinished_*')):
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and f'{out}; go on with: ' in error
    found = trials_lib.load_study(trials_lib.make_default_storage(str(out)), '').trials
    assert [trial.state.name for trial in found] == ['FAIL', 'WAITING']
    left = [path.name for path in (out / 'trial_0000').iterdir()]
    assert not [name for name in left if not name.startswith(('unfinished_', 'log'))]
