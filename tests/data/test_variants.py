"""Data of one kind does not reach a model of another."""

import pytest

from baselines.data import variants
from baselines.data.tile import store as tile_store
from tests.helpers import tile_records


def _store(**changes):
    return tile_store.TileStore.of_records(
        '/data/train', tile_records.make_records(2, **changes)
    )


@pytest.mark.parametrize(
    'changes', [{}, dict(pad=-1), dict(node_features=7, config_features=3)]
)
def test_a_run_file_gives_it_back(changes):
    store = _store(**changes)
    variant = variants.Variant.of(store)
    again = variants.Variant.from_json(variant.to_json())
    assert again == variant
    again.check(store, 'it was made of')


def test_runs_without_the_keys_had_published_columns():
    assert variants.Variant.from_json({}) == variants.Variant(0, 140, 24)
    assert variants.Variant.from_json({}, 18).config_features == 18
    used = {'node_used': [True] * 7, 'config_used': [False] * 3}
    assert variants.Variant.from_json({'normalizer': used}) == (
        variants.Variant(0, 7, 3)
    )


@pytest.mark.parametrize(
    'trained, given, message',
    [
        (
            {},
            dict(pad=-1),
            'absent entries are -1 (--pad=-1), but 0 in what the model was trained on',
        ),
        (
            dict(pad=-1),
            {},
            'absent entries are 0 (--pad=0), but -1 in what the model was trained on',
        ),
        (
            {},
            dict(node_features=150),
            'node_feat has 150 columns, but 140 in what the model was trained on',
        ),
        (
            dict(config_features=30),
            {},
            'config_feat has 24 columns, but 30 in what the model was trained on',
        ),
    ],
)
def test_another_kind_is_refused(trained, given, message):
    variant = variants.Variant.of(_store(**trained))
    with pytest.raises(ValueError) as error:
        variant.check(_store(**given), 'the model was trained on')
    assert str(error.value) == (
        f'/data/train: {message}; use data extracted in the same way, or train '
        'a model on this one'
    )


@pytest.mark.parametrize(
    'info, message',
    [
        (dict(pad=1), 'pad is not 0 or -1'),
        (dict(pad=True), 'pad is not 0 or -1'),
        (dict(pad=None), 'pad is not 0 or -1'),
        (dict(node_features='140'), 'node_features is not a number of columns'),
        (dict(config_features=0), 'config_features is not a number of columns'),
    ],
)
def test_a_damaged_run_file(info, message):
    with pytest.raises(ValueError, match=f'the run file: {message}'):
        variants.Variant.from_json(info)
