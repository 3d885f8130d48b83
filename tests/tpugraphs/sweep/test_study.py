"""Sweeps in storages: which trials count, and what becomes of lost ones."""

import json
import sqlite3
import time

import pytest

from baselines import config
from tpugraphs.sweep import results
from tpugraphs.sweep import storage as storage_lib
from tpugraphs.sweep import study as study_lib

pytest.importorskip('optuna')

_SPACE = {'epochs': 9, 'lr': {'low': 0.1, 'high': 1.0}}
_DEFINITION = study_lib.Definition('tile:xla', _SPACE, {'model': 'MLP'})


def _open(tmp_path, name='s', definition=_DEFINITION, **changes):
    storage = storage_lib.default_storage(str(tmp_path))
    return study_lib.Sweep(storage, name, definition, **changes)


def _begin(sweep, **attributes):
    trial = sweep.study.ask()
    sweep.space.suggest(trial, config.TileConfig())
    for name, value in attributes.items():
        trial.set_user_attr(name, value)
    return trial


@pytest.fixture
def sweep(tmp_path):
    return _open(tmp_path)


def test_workers_with_different_seeds_draw_different_settings(tmp_path):
    drawn = [
        _begin(_open(tmp_path, name, sampler_seed=seed)).params['lr']
        for name, seed in (('a', 1), ('b', 1), ('c', 2))
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_trial_without_signs_of_life_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(storage_lib, 'HEARTBEAT', 1)
    monkeypatch.setattr(storage_lib, 'GRACE', 1)
    monkeypatch.setattr(storage_lib, 'MOST_RETRIES', 1)
    sweep = _open(tmp_path)

    def lose():
        trial = _begin(sweep)
        sweep.study._storage.record_heartbeat(trial._trial_id)
        sweep.fail_lost_trials()
        assert sweep.counts() == (0, 1, 0)
        time.sleep(2.1)
        sweep.fail_lost_trials()
        return trial

    first = lose()
    assert sweep.counts() == (1, 0, 0)
    second = lose()
    assert (second.number, second.params) == (1, first.params)
    # Its settings were tried often enough; they are in the folder of the first.
    [failed] = sweep.in_state('FAIL')
    assert failed.number == 1 and study_lib.folder_of(failed) == 'trial_0000'


def test_a_trial_beyond_the_last_place_does_not_count(sweep):
    for _ in range(3):
        trial = _begin(sweep)
    assert sweep.give_up_surplus(trial, 2)
    assert [one.number for one in sweep.trials()] == [0, 1]
    # One that is tried again is not surplus, whatever its number.
    sweep.study.tell(1, state=sweep.trial(1).state.FAIL)
    sweep.queue_again(sweep.trial(1))
    again = sweep.study.ask()
    assert again.number == 3 and not sweep.give_up_surplus(again, 2)
    assert [one.number for one in sweep.trials()] == [0, 3]


@pytest.mark.parametrize(
    'changes, words',
    [
        ({'folds': 5}, 'its folds is 0, not 5'),
        ({'space': {'lr': {'low': 0.2, 'high': 1.0}}}, 'its space is'),
        ({'collection': 'layout:xla:random'}, 'its collection is tile:xla, not lay'),
    ],
)
def test_who_joins_brings_the_same_sweep(sweep, tmp_path, changes, words):
    other = study_lib.Definition(**{**vars(_DEFINITION), **changes})
    with pytest.raises(ValueError, match=words):
        _open(tmp_path, definition=other)


@pytest.mark.parametrize(
    'changes, words',
    [
        ({'format': 2}, 'is of version 2 .* this code writes 1'),
        ({'space': [1]}, r'space of its definition is \[1\], which is no dict'),
        ({'space': {'lrr': 1}}, "there is no setting 'lrr'"),
        ({'settings': {'lr': 'x'}}, "lr should be a number, not 'x'"),
        ({'collection': 'tiles'}, "there is no collection 'tiles'"),
        ({'more': 1}, 'its definition has .*more'),
    ],
)
def test_definitions_of_wrong_types_are_one_line(sweep, tmp_path, changes, words):
    sweep.study.set_user_attr('definition', {**vars(_DEFINITION), **changes})
    with pytest.raises(ValueError, match=f'--study s: .*{words}'):
        _open(tmp_path, '', None)


def test_attributes_of_wrong_types_count_as_missing(sweep):
    odd = {'seconds': 'x', 'reason': [1], 'runs': [{'model': '../../a'}, 3]}
    sweep.study.tell(_begin(sweep, **odd), 0.5)
    [trial] = results.summary(sweep)['trials']
    assert (trial['seconds'], trial['reason'], trial['runs']) == (None, None, [])
    assert results.line(sweep.trial(0)).startswith(
        'trial 0  0.5000  0 s  complete  lr='
    )


def test_a_study_that_is_not_ours_is_refused(tmp_path):
    import optuna

    storage = storage_lib.default_storage(str(tmp_path))
    other = optuna.create_study(storage=storage, study_name='s')
    other.add_trial(optuna.trial.create_trial(value=1.0))
    with pytest.raises(ValueError, match='is no sweep of ours'):
        _open(tmp_path)


def test_storages_that_cannot_be_used_are_one_line(tmp_path):
    (tmp_path / 'bad.journal').write_text('no journal\n')
    (tmp_path / 'file').touch()
    with sqlite3.connect(tmp_path / 'old.db') as database:
        database.execute('create table version_info (x int)')
    for storage, words in [
        (str(tmp_path / 'bad.journal'), 'Expecting value'),
        (f'sqlite:///{tmp_path}/file/a.db', 'file'),
        (f'sqlite:///{tmp_path}/old.db', 'version_info'),
        ('nosuchdb://me:secret@host/x', 'nosuchdb'),
    ]:
        with pytest.raises(ValueError, match='^--storage .* cannot be used: ') as bad:
            study_lib.Sweep(storage, 's', _DEFINITION)
        assert words in str(bad.value) and '\n' not in str(bad.value)
        assert 'secret' not in str(bad.value)


def test_a_sweep_is_opened_without_a_definition(sweep, tmp_path):
    storage = storage_lib.default_storage(str(tmp_path))
    assert study_lib.Sweep(storage).definition == _DEFINITION
    _open(tmp_path, 'other')
    with pytest.raises(ValueError, match='name one with --study; there are other, s'):
        study_lib.Sweep(storage)
    with pytest.raises(ValueError, match="there is no sweep 'x'; there are other, s"):
        study_lib.Sweep(storage, 'x')
    for missing in (tmp_path / 'b.journal', f'sqlite:///{tmp_path}/b.db'):
        with pytest.raises(ValueError, match='--storage: there is no file .*b.(j|d)'):
            study_lib.Sweep(str(missing))
    assert not list(tmp_path.glob('b.*'))


def test_folders_may_have_any_name(tmp_path):
    folder = tmp_path / 'a?b%20{c} d'
    sweep = _open(folder)
    sweep.study.tell(_begin(sweep), 0.5)
    assert [path.name for path in folder.iterdir()] == ['sweep.db']
    assert len(_open(folder).trials()) == 1


def test_a_journal_is_continued_after_half_a_line(tmp_path):
    journal = tmp_path / 'sweep.journal'
    journal.touch()
    sweep = _open(tmp_path)  # a journal that is there goes before a database
    sweep.study.tell(_begin(sweep), 0.5)
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code": 4, "work')
    again = _open(tmp_path)
    assert journal.read_bytes().startswith(whole + b'{"op_code":0')
    again.study.tell(_begin(again), 0.75)
    assert [trial.value for trial in _open(tmp_path).trials()] == [0.5, 0.75]
    assert not again.has_heartbeat


def test_importances_need_ten_complete_trials(sweep):
    for number in range(10):
        assert sweep.importances() == {}
        sweep.study.tell(_begin(sweep), number / 10)
    assert sweep.importances() == {'lr': 1.0}


def test_the_best_settings_become_a_recipe(tmp_path):
    own = {'losses': 'my.py:loss:1', 'models_file': 'my.py', 'toy_data': True}
    definition = study_lib.Definition('tile:xla', _SPACE, {'model': 'MLP', **own})
    sweep = _open(tmp_path, definition=definition)
    results.write_best(sweep, str(tmp_path))
    assert not (tmp_path / 'best.json').exists()  # nothing to write yet
    for value in (0.3, 0.8):
        trial = _begin(sweep, runs=[], seconds=1.0)
        sweep.study.tell(trial, value)
    failed = _begin(sweep, reason='out of memory')
    sweep.study.tell(failed, state=sweep.trial(2).state.FAIL)
    results.write_best(sweep, str(tmp_path))
    content = json.loads((tmp_path / 'best.json').read_text())
    assert content['collection'] == 'tile:xla'
    # Neither data nor files: whoever uses it names them.
    assert content['settings'] == {'model': 'MLP', 'epochs': 9, **trial.params}
    assert content['found_by']['score'] == 0.8
    base = config.TileConfig(out_dir=str(tmp_path), data_root='~/my data', **own)
    assert results.training_command(sweep, base) == (
        f'tpugraphs train tile --recipe={tmp_path}/best.json --models_file=my.py '
        "--losses=my.py:loss:1 '--data_root=~/my data' --toy_data"
    )
    summary = results.summary(sweep)
    assert [t['state'] for t in summary['trials']] == ['complete'] * 2 + ['failed']
    assert summary['endings'] == {'failed: out of memory': [2]}
    lines = results.table(sweep)
    assert lines[0] == ('s: 3 trials on tile:xla, 1 seed: 2 complete, 1 failed')
    assert lines[-1] == 'failed: out of memory (trial 2)'
    assert [line.split()[0] for line in lines[4:6]] == ['0.8000', '0.3000']


def test_the_folder_of_a_sweep_stands_for_the_runs_of_its_best_trial(sweep, tmp_path):
    with pytest.raises(ValueError, match='no trial of this sweep is complete'):
        results.resolve_folders([str(tmp_path)])
    for value in (0.8, 0.3):
        runs = [{'model': 'model_a', 'score': 1.0}, {'model': 'model_b', 'score': 1.0}]
        sweep.study.tell(_begin(sweep, runs=runs), value)
    names, [summary] = results.resolve_folders(['latest', str(tmp_path)])
    best = tmp_path / 'trial_0000'
    assert names == ['latest', str(best / 'model_a'), str(best / 'model_b')]
    assert summary['study'] == 's' and summary['trials'][0]['score'] == 0.8
