"""Sweeps in a storage: who gets which trial, and what becomes of lost ones."""

import json
import sqlite3

import pytest

from baselines import config
from baselines.sweeps import results
from baselines.sweeps import space as space_lib
from baselines.sweeps import study as study_lib

pytest.importorskip('optuna')

_SPACE = {'epochs': 9, 'lr': {'low': 0.1, 'high': 1.0}}
_DEFINITION = study_lib.Definition('tile:xla', _SPACE, {'model': 'MLP'})
_BASE = config.TileConfig(model='MLP')


def _open(tmp_path, name='s', definition=_DEFINITION):
    return study_lib.Study(str(tmp_path / 'a.journal'), name, definition)


def _claim(study, most=3):
    space = space_lib.of(study.definition.space, config.TileConfig)
    return study.claim(most, space, _BASE, seed=0)


@pytest.fixture
def study(tmp_path):
    return _open(tmp_path)


def test_a_sweep_has_as_many_trials_as_were_ordered(study):
    study.try_first({'lr': 0.5})
    first, settings = _claim(study)
    assert settings == {'epochs': 9, 'lr': 0.5}
    for _ in range(2):
        trial, settings = _claim(study)
        assert 0.1 <= settings['lr'] <= 1
        study.finish(trial, 'COMPLETE', settings['lr'])
    study.finish(first, 'COMPLETE', 2.0)
    assert _claim(study) == (None, {})
    study.try_first({'lr': 0.9})  # a sweep that has begun is left alone
    assert _claim(study) == (None, {})
    assert study.best().number == 0 and len(study.trials()) == 3


def test_the_same_sweep_draws_the_same(tmp_path):
    drawn = []
    for name in 'ab':
        study = _open(tmp_path, name)
        for _ in range(2):
            trial, settings = _claim(study)
            study.finish(trial, 'COMPLETE', settings['lr'])
            drawn.append(settings['lr'])
            study = _open(tmp_path, name)  # as a new process would
    assert drawn[:2] == drawn[2:] and drawn[0] != drawn[1]


def test_a_lost_trial_is_tried_again_with_the_same_settings(study, monkeypatch):
    lost, settings = _claim(study, 1)
    study.reap()  # its owner, this process, lives
    assert [t.number for t in study.of_state('RUNNING')] == [0]
    monkeypatch.setattr(study_lib, '_is_gone', lambda owner: True)
    study.reap()
    monkeypatch.undo()
    again, same = _claim(study, 1)
    assert same == settings and again.number == 1
    assert again.user_attrs[study_lib.FOLDER] == 'trial_0000'
    # The first worker was only slow: what it finds is not taken.
    assert not study.alive(lost)
    study.finish(lost, 'COMPLETE', 0.7)
    study.finish(again, 'COMPLETE', 0.4)
    assert [(t.number, t.value) for t in study.trials()] == [(1, 0.4)]
    assert study.best().number == 1


def test_settings_that_are_lost_again_and_again_are_given_up(study):
    for number in range(3):
        trial, _ = _claim(study, 1)
        assert trial.number == number
        study.give_back(trial, 'lost')
    assert _claim(study, 1) == (None, {})
    [failed] = study.of_state('FAIL')
    assert failed.user_attrs[study_lib.REASON] == 'lost'


def test_silence_makes_a_trial_of_another_machine_lost(study, monkeypatch):
    _claim(study, 1)
    monkeypatch.setattr(study_lib.socket, 'gethostname', lambda: 'elsewhere')
    study.reap()
    assert study.of_state('RUNNING')
    monkeypatch.setattr(study_lib, 'GRACE', -1)
    study.reap()
    assert not study.of_state('RUNNING') and study.of_state('WAITING')


def test_who_comes_too_late_for_the_last_place_leaves_nothing(study, monkeypatch):
    kept, _ = _claim(study, 1)
    first = study.trials
    calls = iter([[]])  # at first another worker's trial is not seen
    monkeypatch.setattr(study, 'trials', lambda: next(calls, None) or first())
    monkeypatch.setattr(study, 'reap', lambda: None)
    study.finish(kept, 'COMPLETE', 0.5)
    calls = iter([[]])
    assert _claim(study, 1) == (None, {})
    assert [t.number for t in first()] == [0]


@pytest.mark.parametrize(
    'changes, words',
    [
        ({'folds': 5}, 'its folds is 0, not 5'),
        ({'space': {'lr': {'low': 0.2, 'high': 1.0}}}, 'its space is'),
        ({'collection': 'layout:xla:random'}, 'its collection is tile:xla, not lay'),
    ],
)
def test_who_joins_brings_the_same_sweep(study, tmp_path, changes, words):
    other = study_lib.Definition(**{**vars(_DEFINITION), **changes})
    with pytest.raises(ValueError, match=words):
        _open(tmp_path, definition=other)


def test_a_study_that_is_not_ours_is_refused(tmp_path):
    import optuna

    storage = study_lib.open_storage(str(tmp_path / 'a.journal'))
    other = optuna.create_study(storage=storage, study_name='s')
    other.add_trial(optuna.trial.create_trial(value=1.0))
    with pytest.raises(ValueError, match='is no sweep of ours'):
        _open(tmp_path)


def test_a_sweep_of_another_version_is_refused(study, tmp_path, monkeypatch):
    monkeypatch.setattr(study_lib, 'FORMAT', 2)
    with pytest.raises(ValueError, match='is of version 1 .* this code writes 2'):
        _open(tmp_path)


def test_storages_that_cannot_be_used_are_one_line(tmp_path):
    (tmp_path / 'bad.journal').write_text('no journal\n')
    (tmp_path / 'old.db').touch()
    with sqlite3.connect(tmp_path / 'old.db') as database:
        database.execute('create table version_info (x int)')
    for storage, words in [
        (str(tmp_path / 'bad.journal'), 'Expecting value'),
        (f'sqlite:///{tmp_path}/no/such/a.db', 'unable to open database file'),
        (f'sqlite:///{tmp_path}/old.db', 'version_info'),
        ('nosuchdb://me:secret@host/x', 'nosuchdb'),
    ]:
        with pytest.raises(ValueError, match='^--storage .* cannot be used: ') as bad:
            study_lib.Study(storage, 's', _DEFINITION)
        assert words in str(bad.value) and '\n' not in str(bad.value)
        assert 'secret' not in str(bad.value)


def test_what_is_there_is_found_without_a_definition(study, tmp_path):
    path = str(tmp_path / 'a.journal')
    assert study_lib.Study(path).definition == _DEFINITION
    _open(tmp_path, 'other')
    with pytest.raises(ValueError, match='name one with --study; there are other, s'):
        study_lib.Study(path)
    with pytest.raises(ValueError, match="there is no sweep 'x'; there are other, s"):
        study_lib.Study(path, 'x')
    with pytest.raises(ValueError, match='--storage: there is no file .*/b.journal'):
        study_lib.Study(str(tmp_path / 'b.journal'))


def test_databases_work_as_journals_do(tmp_path):
    storage = f'sqlite:///{tmp_path}/a.db'
    study = study_lib.Study(storage, 's', _DEFINITION)
    trial, settings = _claim(study, 1)
    study.finish(trial, 'COMPLETE', 0.5)
    assert study_lib.Study(storage).best().params == {'lr': settings['lr']}


def test_the_best_settings_become_a_recipe(study, tmp_path, capsys):
    results.write_best(study, str(tmp_path))
    assert not (tmp_path / 'best.json').exists()  # nothing to write yet
    for value in (0.3, 0.8):
        trial, settings = _claim(study)
        study.finish(trial, 'COMPLETE', value, runs=[], seconds=1.0)
    trial, _ = _claim(study)
    study.finish(trial, 'FAIL', reason='out of memory')
    results.write_best(study, str(tmp_path))
    found = json.loads((tmp_path / 'best.json').read_text())
    assert found['collection'] == 'tile:xla'
    assert found['settings'] == {'model': 'MLP', **settings}
    assert found['found_by']['score'] == 0.8
    summary = results.summary(study)
    assert [t['state'] for t in summary['trials']] == ['complete'] * 2 + ['failed']
    assert summary['endings'] == {'failed: out of memory': [2]}
    lines = results.table(study)
    assert lines[0] == ('s: 3 trials on tile:xla, 1 seed: 2 complete, 1 failed')
    assert lines[-1] == 'failed: out of memory (trial 2)'
    assert [line.split()[0] for line in lines[4:6]] == ['0.8000', '0.3000']


def test_the_folder_of_a_sweep_stands_for_the_runs_of_its_best_trial(tmp_path):
    study = study_lib.Study(study_lib.default_storage(tmp_path), 's', _DEFINITION)
    with pytest.raises(ValueError, match='no trial of this sweep is complete'):
        results.of_folders([str(tmp_path)])
    for value in (0.8, 0.3):
        trial, _ = _claim(study, 2)
        attrs = {
            study_lib.FOLDER: study_lib.folder_of(trial),
            study_lib.RUNS: [{'model': 'model_a'}, {'model': 'model_b'}],
        }
        study.finish(trial, 'COMPLETE', value, **attrs)
    runs, [found] = results.of_folders(['latest', str(tmp_path)])
    best = tmp_path / 'trial_0000'
    assert runs == ['latest', str(best / 'model_a'), str(best / 'model_b')]
    assert found['study'] == 's' and found['trials'][0]['score'] == 0.8
