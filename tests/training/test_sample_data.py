"""Trainings on the measured data that ship, and runs of other samples."""

import pytest

from baselines import config
from baselines.data import collections
from baselines.scoring import prediction
from baselines.tasks import lookup
from tests.helpers import finished_runs
from tests.helpers import tile_runs


@pytest.fixture(name='home', scope='module', autouse=True)
def _home(tmp_path_factory):
    """Where the shipped archives are unpacked, once for all tests."""
    home = tmp_path_factory.mktemp('home')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('HOME', str(home))
        yield home


@pytest.mark.parametrize(
    'flags, toy_files', [({}, 100), ({'source': 'xla', 'search': 'random'}, 5)]
)
def test_toy_data_are_the_first_measured_graphs(home, flags, toy_files):
    collection = collections.select_collection(flags)
    options = prediction.Options(
        cache_dir=str(home / 'cache'), sample_data=True, toy_data=True
    )
    store = lookup.TASKS[collection.task].store_class.open_collection(
        collection, options, 'train'
    )
    assert len(store) == toy_files and store.has_runtimes
    assert store.source.startswith(str(home))


def test_layouts_that_were_not_measured():
    flags = {'source': 'nlp', 'search': 'random'}
    collection = collections.select_collection(flags)
    options = prediction.Options(sample_data=True)
    with pytest.raises(ValueError, match='layout:nlp:random'):
        lookup.TASKS[collection.task].store_class.open_collection(
            collection, options, 'train'
        )


@pytest.mark.slow
def test_a_run_remembers_that_it_was_trained_on_them(tmp_path, capsys):
    settings = dict(tile_runs.TINY, sample_data=True, toy_data=True, epochs=1)
    settings.update(data_root=config.TileConfig.data_root)
    run, _ = tile_runs.train(tmp_path, **settings)
    info = finished_runs.read_info(run)
    assert info['args']['sample_data'] and info['measured_data']
    assert 4030 in info['xla_releases']
    capsys.readouterr()
    options = prediction.Options(models_file=tile_runs.TINY['models_file'])
    resolved = prediction.load(str(run), options).options
    assert resolved.sample_data and resolved.data_root == ''
    assert capsys.readouterr().err == ''
