"""Layouts measured on the published configurations, and what figures say of it."""

import json

import numpy as np
import pytest

from baselines.data import published
from baselines.data.layout import store as layout_store
from baselines.evaluation import metrics
from tests.helpers import layout_files
from tests.helpers import made_runs
from tests.helpers import processes
from tests.helpers import refusals
from tests.helpers import tiny_layout_models
import tpugraphs

_COLLECTIONS = [
    f'layout:{s}:{w}' for s in ('xla', 'nlp') for w in ('random', 'default')
]


@pytest.mark.parametrize('collection', _COLLECTIONS)
def test_lists_have_1000_configurations_of_every_graph(collection):
    lists = published.read_validation_lists(collection)
    assert len(lists) == (7 if 'xla' in collection else 20)
    for numbers in lists.values():
        assert numbers.shape == (1000,) and numbers.min() >= 0
    if collection == 'layout:xla:random':  # of a small graph some are repeated
        assert np.unique(lists['unet_3d.4x4.bf16']).tolist() == list(range(481))


_CODE = tiny_layout_models.__file__


def _program(name, seed=0, configs=12):
    rng = np.random.default_rng(seed)
    return layout_files.make_record(rng, name, nodes=6, configs=configs)


def test_a_split_with_some_configurations():
    programs = [_program('a'), _program('b', seed=1)]
    store = layout_store.LayoutStore.from_records('made', programs)
    chosen = [np.array([3, 1, 3]), np.array([11])]
    found = store.with_configurations(chosen)
    assert found.config_counts.tolist() == [3, 1]
    for graph, (program, numbers) in enumerate(zip(programs, chosen)):
        record = found.record(graph)
        for name in ('node_config_feat', 'config_runtime'):
            expected = getattr(program, name)[numbers]
            np.testing.assert_array_equal(getattr(record, name), expected)


@pytest.fixture(name='root', scope='module')
def _root(tmp_path_factory):
    """A run of a random model, and a validation split of two programs."""
    root = tmp_path_factory.mktemp('protocol')
    made_runs.make_layout_run(root / 'out', 'Tiny', {'start': 1.0}, _CODE)
    programs = [_program('a'), _program('b', seed=1)]
    layout_files.write_split(root / 'xla' / 'random' / 'valid', programs)
    return root


def _evaluate(root, *words):
    data = [f'--data_root={root}', f'--cache_dir={root}/cache']
    data.append(f'--models_file={_CODE}')
    path = root / 'e.json'
    words = [root / 'out' / 'latest', '--output', path, *data, *words]
    return processes.command('evaluate', *words), path


@pytest.mark.slow
def test_the_published_protocol_is_the_default_of_its_graphs(root, monkeypatch, capsys):
    lists = {'a': np.array([5, 2, 9, 2]), 'b': np.array([0, 7, 1])}
    monkeypatch.setattr(published, 'read_validation_lists', lambda collection: lists)
    code, path = _evaluate(root)
    printed = capsys.readouterr().out
    assert code == 0
    assert ' on valid of layout:xla:random, published protocol: ' in printed
    found = json.loads(path.read_text())
    assert found['protocol'] == 'published'
    # What the run says of all configurations, of those listed.
    run = tpugraphs.load(root / 'out' / 'latest', _CODE)
    taus, slowdowns = [], []
    for name, seed in (('a', 0), ('b', 1)):
        program, numbers = _program(name, seed), lists[name]
        scores = run.ranker()(program)[numbers]
        runtimes = program.config_runtime[numbers]
        taus.append(metrics.kendall_tau(scores, runtimes))
        best = runtimes[np.argsort(scores, kind='stable')][0]
        slowdowns.append(best / runtimes.min() - 1)
    assert found['overall']['kendall_tau']['mean'] == pytest.approx(np.mean(taus))
    assert found['overall']['configurations'] == 7 and 'noise' not in found['overall']
    line = printed[printed.index('kendalltau') :].partition('\n')[0]
    assert line == (
        f'kendalltau {np.mean(taus):.4f}  slowdown@1/10/100 {np.mean(slowdowns):.4f} '
        '/ 0.0000 / 0.0000'
    )
    code, path = _evaluate(root, '--protocol=all')
    assert code == 0 and json.loads(path.read_text())['overall']['configurations'] == 24
    printed = capsys.readouterr().out
    assert 'layout:xla:random, all configurations: ' in printed
    assert 'kendalltau' not in printed


@pytest.mark.slow
def test_graphs_that_are_not_published(root, monkeypatch, capsys):
    run = tpugraphs.load(root / 'out' / 'latest', _CODE)
    measure = lambda protocol: run.evaluate(
        data=root, cache_dir=str(root / 'cache'), protocol=protocol
    )
    assert measure('')['protocol'] == 'all'
    refusals.assert_refused(lambda: measure('x'), "protocol 'x'")
    refusals.assert_refused(lambda: measure('published'), 'protocol=published')
    lists = {'a': np.array([5, 12]), 'b': np.array([0]), 'c': np.array([0])}
    monkeypatch.setattr(published, 'read_validation_lists', lambda collection: lists)
    assert measure('')['protocol'] == 'all'  # c is not there
    refusals.assert_refused(lambda: measure('published'), 'a has 12 ')
