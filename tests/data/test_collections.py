"""The table of collections, and how a run says which is its own."""

import pytest

from baselines.data import collections
from tests.helpers import refusals


def test_names_and_folders():
    names = 'layout:xla:random layout:xla:default layout:nlp:random layout:nlp:default'
    assert [*collections.NAMES[:5]] == ['tile:xla', *names.split()]
    tile, layout = collections.COLLECTIONS[:2]
    assert (tile.task, layout.task) == ('tile', 'layout')
    assert (tile.config_columns, layout.config_columns) == (24, 18)
    assert (tile.subfolder, layout.subfolder) == ('', 'xla/random')


def test_flags_choose():
    assert collections.select_collection({'lr': 1.0}).name == 'tile:xla'
    for collection in collections.COLLECTIONS:
        flags = {'model': 'MLP', **collection.flags}
        assert collections.select_collection(flags) is collection
    # A flag that no collection has on its own.
    assert collections.select_collection({'source': 'nlp'}).name == 'tile:xla'


def test_runs_from_before_a_flag_are_of_the_first_collection(monkeypatch):
    first, *layouts = collections.COLLECTIONS
    first = first._replace(flags={'kernels': 'xla'})
    second = first._replace(name='tile:mine', flags={'kernels': 'mine'})
    monkeypatch.setattr(collections, 'COLLECTIONS', (first, second, *layouts))
    assert collections.select_collection({'model': 'MLP'}) is first
    assert collections.select_collection({'kernels': 'mine'}) is second
    flags = {'source': 'nlp', 'search': 'random'}
    assert collections.select_collection(flags) is layouts[2]


def test_several_values_choose_a_joint_collection():
    joint = collections.select_collection(
        {'source': 'nlp,xla', 'search': 'random,default'}
    )
    assert joint.name == 'layout:nlp,xla:random,default'
    assert joint.flags == {'source': 'nlp,xla', 'search': 'random,default'}
    assert (joint.task, joint.config_columns, joint.toy_files) == ('layout', 18, 5)
    parts = 'layout:nlp:random layout:nlp:default layout:xla:random layout:xla:default'
    assert [part.name for part in joint.parts] == parts.split()
    for collection in collections.COLLECTIONS:
        assert collection.parts == [collection]


@pytest.mark.parametrize('source', ['tpu', None, ['xla'], 'xla,xla', 'xla,tpu'])
def test_flags_that_choose_none(source):
    flags = {'source': source, 'search': 'random'}
    choose = lambda: collections.select_collection(flags)
    words = f'--source={source} --search=random', 'layout:nlp:default'
    refusals.assert_refused(choose, *words)


@pytest.mark.parametrize('name', ['tile:xla', 'layout:nlp:default'])
def test_any_folder_on_the_way_to_the_splits_is_taken(name, tmp_path):
    collection = collections.find_collection(name)
    ways = ['npz', *name.split(':')]
    folder = tmp_path.joinpath(*ways, 'valid')
    folder.mkdir(parents=True)
    for n in range(len(ways) + 1):
        root = str(tmp_path.joinpath(*ways[:n]))
        assert collection.locate_split(root, 'valid') == str(folder)


def test_list_splits_another_collection_are_not_taken(tmp_path):
    (tmp_path / 'nlp' / 'default' / 'valid').mkdir(parents=True)
    root = str(tmp_path / 'nlp' / 'default')
    found = collections.find_collection('layout:nlp:random').locate_split(root, 'valid')
    assert found == f'{root}/nlp/random/valid'
