"""Data of one kind does not reach a model of another."""

import dataclasses

import numpy as np
import pytest

from baselines.data.packed import splits
from baselines.data.tile import store as tile_store
from baselines.hlo import schema
from tests.helpers import refusals
from tests.helpers import tile_records


def _store(**changes):
    return tile_store.TileStore.from_records(
        '/data/train', tile_records.make_records(2, **changes)
    )


@pytest.mark.parametrize(
    'changes', [{}, dict(pad=-1), dict(node_features=7, config_features=3)]
)
def test_a_run_file_gives_it_back(changes):
    store = _store(**changes)
    variant = splits.Variant.from_store(store)
    again = splits.Variant.from_json(variant.to_json())
    assert again == variant
    again.check(store, 'it was made of')


def test_runs_without_the_keys_had_published_columns():
    assert splits.Variant.from_json({}) == splits.Variant(0, 140, 24)
    assert splits.Variant.from_json({}, 18).config_features == 18
    used = {'node_used': [True] * 7, 'config_used': [False] * 3}
    assert splits.Variant.from_json({'normalizer': used}) == (splits.Variant(0, 7, 3))


@pytest.mark.parametrize(
    'trained, given, words',
    [
        ({}, dict(pad=-1), ('--pad=-1', ' 0 ')),
        ({}, dict(node_features=150), ('node_feat', '150', '140')),
        (dict(config_features=30), {}, ('config_feat', '24', '30')),
    ],
)
def test_another_kind_is_refused(trained, given, words):
    variant = splits.Variant.from_store(_store(**trained))
    check = lambda: variant.check(_store(**given), 'the model was trained on')
    refusals.assert_refused(check, '/data/train: ', *words)


def _with_extra(count):
    """Kernels of which the first `count` have the further columns."""
    kernels = tile_records.make_records(2)
    for number, kernel in enumerate(kernels[:count]):
        extra = np.full((kernel.num_nodes, len(schema.EXTRA)), number, np.float32)
        kernels[number] = dataclasses.replace(kernel, node_feat_extra=extra)
    return tile_store.TileStore.from_records('/data/train', kernels)


def test_a_run_with_further_columns_reads_them_and_no_other_run_does():
    store = _with_extra(2)
    wide = store.with_extra()
    assert (store.node_feat.shape[1], wide.node_feat.shape[1]) == (140, 260)
    np.testing.assert_array_equal(wide.node_feat[:, :140], store.node_feat)
    assert wide.node_min[:, 140:].tolist() == [[0] * 120, [1] * 120]
    assert wide.node_max[1, 139:141].tolist() == [store.node_max[1, 139], 1]
    for trained in (store, wide):
        variant = splits.Variant.from_json(splits.Variant.from_store(trained).to_json())
        for given in (store, wide)[: 1 + variant.extra]:
            found = variant.check(given, 'the model was trained on')
            assert found.node_feat.shape == trained.node_feat.shape


def test_a_run_with_further_columns_refuses_data_without():
    variant = splits.Variant.from_store(_with_extra(2).with_extra())
    check = lambda: variant.check(_with_extra(1), 'the model was trained on')
    words = '/data/train: --extra', 'program_1_0001', '1 of 2'
    refusals.assert_refused(check, *words)


@pytest.mark.parametrize(
    'key, value', [('pad', 1), ('node_features', '140'), ('config_features', 0)]
)
def test_a_damaged_run_file(key, value):
    refusals.assert_refused(lambda: splits.Variant.from_json({key: value}), key)
