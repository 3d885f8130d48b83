"""The layout collections' jobs from end to end, on small simulated data."""

import collections
import csv
import io
import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest

from baselines import config
from baselines.layout import graphs
from baselines.tasks import layout_training
from baselines.tasks import predict
from baselines.tasks import prediction
from baselines.tasks import tile_training
from baselines.training import fitting
from baselines.training import runs
import finished_runs
import layout_files
import tile_records
import tiny_layout_models
import tiny_models

pytestmark = pytest.mark.slow

_TINY = dict(model='Tiny', models_file=tiny_layout_models.__file__)
# ResModel as small as it gets.
_SMALL = '{"hidden_dim": 4, "num_gnns": 1, "mlp_layers": 1, "op_embed_dim": 2}'
_NODES = 12  # of a training program; its splits are [0, 6, 12]


def _programs(count, seed, nodes=_NODES, configs=40, **changes):
    rng = np.random.default_rng(seed)
    return [
        layout_files.make_program(
            rng, f'program_{i}', nodes=nodes + i % 3, configs=configs, **changes)
        for i in range(count)]


def _settings(root, **changes):
    fields = dict(
        model_kwargs_json=_SMALL, data_root=str(root / 'data'),
        cache_dir=str(root / 'cache'), out_dir=str(root / 'out'), epochs=3)
    if 'models_file' in changes:
        del fields['model_kwargs_json']
    return config.LayoutConfig(**{**fields, **changes})


def _train(*args, **kwargs):
    return finished_runs.quietly(layout_training.train, _settings(*args, **kwargs))


def _data(root, **changes):
    return prediction.DataOptions('', str(root / 'cache'), **changes)


@pytest.fixture(name='root', scope='module')
def _root(tmp_path_factory):
    """xla:random; one training program is too small, test has no runtimes."""
    root = tmp_path_factory.mktemp('layout')
    folder = root / 'data' / 'xla' / 'random'
    small = layout_files.make_program(
        np.random.default_rng(9), 'small', configs=10,
        node_feat=np.full((9, 140), 1000, np.float32),
        node_opcode=np.full(9, 250, np.int32))
    train = layout_files.write_split(folder / 'train', [
        *[layout_files.make_program(
            np.random.default_rng(i), f'program_{i}', nodes=_NODES, configs=40)
          for i in range(6)], small])
    layout_files.write_split(folder / 'valid', _programs(4, seed=1))
    layout_files.write_split(
        folder / 'test', _programs(2, seed=2, configs=120, is_test=True))
    for program in train[:6]:
        groups = len(np.unique(program.node_config_feat, axis=0))
        assert 16 < groups < 40
    return root


@pytest.fixture(name='trained', scope='module')
def _trained(root):
    """(model directory, what was printed) of a ResModel, else default flags."""
    return _train(root)


@pytest.fixture(name='run')
def _run(trained, tmp_path):
    """A copy of the trained run that may be changed."""
    shutil.copytree(trained[0].parent, tmp_path / 'out')
    return tmp_path / 'out' / trained[0].name


# --- What a training leaves ------------------------------------------------


def test_what_a_training_leaves(trained):
    model_dir, printed = trained
    run_hash = model_dir.name[len('model_'):]
    names = sorted(os.listdir(model_dir.parent))
    assert names[:1] == [model_dir.name]
    assert re.fullmatch(r'results_1\d{12}_xla_random\.csv', names[1])
    assert names[2:] == [f'run_{run_hash}.jsonz']
    for name in names:
        assert str(model_dir.parent / name) in printed


def test_fewer_programs_than_a_batch_are_trained_on_and_it_says_so(trained):
    assert (
        'note: 6 training programs have at least 16 configurations, fewer than '
        '--batch=8; training on batches of 6\n') in trained[1]


def test_run_file(root, trained):
    info = finished_runs.info_of(trained[0])
    curve = info['train_curve']
    assert set(curve) == {
        'epoch', 'train_loss', 'train_opa', 'val_loss', 'val_opa', 'val_tau'}
    assert curve['epoch'] == [0, 1, 2]
    for name, values in curve.items():
        assert len(values) == 3 and np.isfinite(values).all(), name
    assert set(info['final_error']['val']) == {'kendall_tau', '1', '10', '100'}
    assert info['final_error']['test'] is None
    assert info['args'] == config.to_json(_settings(root))
    assert {'source': 'xla', 'search': 'random', 'keep_nodes': 5000}.items() <= (
        info['args'].items())
    assert info['num_ops'] <= 120  # the small program's 250 does not count
    assert max(info['normalizer']['node_max']) < 1000
    assert info['config_features'] == 18
    assert info['best_epoch'] == int(np.argmax(curve['val_tau']))
    assert set(info['data_fingerprint']) == {'train', 'valid', 'test'}
    assert info['seed'] == 0 and info['simulated_data'] is False


def test_ranking_has_every_configuration(trained):
    rows = csv.DictReader(io.StringIO(finished_runs.csv_of(trained[0])))
    ranked = {
        row['ID']: [int(i) for i in row['TopConfigs'].split(';')] for row in rows}
    assert ranked == finished_runs.info_of(trained[0])['test_predictions']
    assert list(ranked) == [
        'layout:xla:random:program_0', 'layout:xla:random:program_1']
    for order in ranked.values():
        assert sorted(order) == list(range(120)) != order


def test_model_and_keywords_choose(root, trained, tmp_path):
    info = finished_runs.info_of(trained[0])
    f, q = (sum(info['normalizer'][f'{part}_used']) for part in ('node', 'config'))
    # Embedding, input MLP, one layer, head, each with a hidden width of 4.
    weights = (
        info['num_ops'] * 2 + (q + f + 2) * 4 + 4 + (q + 4) * 4 + 4 + 12 * 4 + 4)
    assert f'ResModel: {weights:,} weights; ' in trained[1]
    changes = dict(_TINY, epochs=1, lr=1e-9, out_dir=str(tmp_path))
    for name, start, weights in (('Tiny', 0.5, q), ('TinyWithBias', -2.0, q + 1)):
        changes.update(
            model=name, model_kwargs_json=json.dumps({'start': start}))
        model_dir, printed = _train(root, **changes)
        assert f'{name}: {weights} weights; ' in printed
        stored = finished_runs.weights_of(model_dir)
        assert len(stored) == weights - q + 1
        assert any(np.allclose(value, start) for value in stored.values())


# --- What a training does --------------------------------------------------


class _Drawn(Exception):
    """Ends a training whose steps have been seen."""


class _Seen:
    """The steps of a training, which are not taken: what is drawn for them."""

    def __init__(self, monkeypatch, root, **changes):
        self.programs = {}  # number -> list of (configs, segment, labels)
        self.steps = []
        items = graphs.LayoutGraphs.items

        def spy(graphs_self, numbers, configs, segments=None):
            packed = items(graphs_self, numbers, configs, segments)
            if segments is not None:  # else it is an example
                self.steps.append(numbers[0].tolist())
                for i, number in enumerate(numbers[0]):
                    self.programs.setdefault(int(number), []).append((
                        configs[0, i], tuple(segments[0, i]),
                        packed['runtimes'][0, i]))
            return packed

        def fit(trainer, state, *, epochs, chunks, steps_per_epoch, **unused):
            for epoch in range(epochs):
                assert sum(c.steps for c in chunks(epoch)) == steps_per_epoch
            raise _Drawn

        with monkeypatch.context() as patch:
            patch.setattr(graphs.LayoutGraphs, 'items', spy)
            patch.setattr(fitting, 'fit', fit)
            with pytest.raises(_Drawn):
                _train(root, **{**_TINY, **changes})

    def draws(self):
        """All (number, configs, labels)."""
        return [(number, configs, labels)
                for number, steps in self.programs.items()
                for configs, _, labels in steps]

    def segments(self):
        """All segments that were drawn."""
        return {
            segment for steps in self.programs.values() for _, segment, _ in steps}


def _means(number):
    """Each configuration's mean runtime over those equal to it, and its group."""
    program = layout_files.make_program(
        np.random.default_rng(number), f'program_{number}', nodes=_NODES,
        configs=40)
    _, group = np.unique(
        program.node_config_feat, axis=0, return_inverse=True)
    group = group.reshape(-1)
    runtimes = program.config_runtime
    return np.array([runtimes[group == g].mean() for g in group]), group


def test_an_epoch_is_every_program_with_different_configurations(
    root, tmp_path, monkeypatch
):
    seen = _Seen(monkeypatch, root, batch=4, out_dir=str(tmp_path))
    # Six programs are a step and a half: two come twice.  `small` never does.
    assert [len(step) for step in seen.steps] == [4] * 6
    for first, second in zip(seen.steps[::2], seen.steps[1::2]):
        counts = collections.Counter(first + second)
        assert sorted(counts) == list(range(6))
        assert sorted(counts.values()) == [1, 1, 1, 1, 2, 2]
    assert seen.steps[:2] != seen.steps[2:4]
    for number, configs, labels in seen.draws():
        means, group = _means(number)
        assert len(set(group[configs])) == len(configs) == 16
        np.testing.assert_allclose(labels, means[configs], rtol=1e-6)


def test_max_configs_is_a_fixed_uniform_subset(root, tmp_path, monkeypatch):
    seen = _Seen(
        monkeypatch, root, max_configs=16, out_dir=str(tmp_path))
    for number in range(6):
        drawn = [sorted(c) for n, c, _ in seen.draws() if n == number]
        assert len(drawn) == 3 and drawn[0] == drawn[1] == drawn[2]
        means, _ = _means(number)
        different = np.unique(means)
        ranks = np.searchsorted(different, means[drawn[0]])
        # Neither the fastest 16 nor the slowest.
        assert ranks.max() > 15 and ranks.min() < len(different) - 16
    finished_runs.assert_refused(
        lambda: _train(root, max_configs=15, out_dir=str(tmp_path), **_TINY),
        'nothing has --configs=16 configurations to draw; the most is 15')


def test_sampling(root, tmp_path, monkeypatch):
    means_of = [_means(number) for number in range(6)]
    # `small`, too, has 4 different configurations, but is not looked at.
    places = {}
    for sampling in ('skewed', 'uniform', 'stratified'):
        seen = _Seen(
            monkeypatch, root, sampling=sampling, configs=4, epochs=30,
            out_dir=str(tmp_path))
        places[sampling] = []
        for number, configs, _ in seen.draws():
            if number == len(means_of):
                continue
            means, _ = means_of[number]
            different = np.unique(means)
            rank = np.searchsorted(different, means[configs])
            places[sampling].append(np.sort(rank) / len(different))
    # A place x from 0 to 1 has density exp(-x) / (1 - 1/e), of which the mean
    # is (1 - 2/e) / (1 - 1/e) = 0.418; the mean of 720 draws is within 0.04.
    assert np.mean(places['skewed']) == pytest.approx(0.418, abs=0.04)
    assert np.mean(places['uniform']) == pytest.approx(0.49, abs=0.04)
    # One of each quarter, to a place.
    found = np.array(places['stratified'])
    assert (np.abs(found - np.arange(4) / 4 - 0.125) < 0.125 + 0.04).all()
    assert not (np.abs(np.array(places['uniform']) - np.arange(4) / 4 - 0.125)
                < 0.125 + 0.04).all()


@pytest.mark.parametrize('changes, expected', [
    ({'keep_nodes': 7}, {(0, 7), (7, 12)}),
    ({'keep_nodes': 7, 'segments': 'splits'}, {(0, 6), (6, 12)}),
    ({'keep_nodes': 4, 'segments': 'splits'}, {(0, 4), (4, 6), (6, 10), (10, 12)}),
    ({'keep_nodes': -1}, {(0, 12)}),
    ({}, {(0, 12)}),
])
def test_segments(root, tmp_path, monkeypatch, changes, expected):
    seen = _Seen(
        monkeypatch, root, epochs=6, out_dir=str(tmp_path), **changes)
    assert seen.segments() == expected


def test_validation_chooses_by_tau(tmp_path):
    # The only thing that differs is one column of one node, x from 0 to 5.
    def program(name, runtimes):
        features = np.zeros((len(runtimes), 4, 18), np.float32)
        features[:, 0, 3] = np.arange(len(runtimes))
        return layout_files.make_program(
            np.random.default_rng(0), name, configs=len(runtimes),
            node_config_feat=features,
            config_runtime=np.array(runtimes) * 10**8)

    folder = tmp_path / 'data' / 'xla' / 'random'
    # To learn: the larger x, the faster, so that w falls from 1 by the learning
    # rate in every step, as Adam's steps are long: 0.2, then below 0.
    layout_files.write_split(
        folder / 'train', [program('a', [6, 5, 4, 3, 2, 1])])
    # To validate on: a long list that says the opposite, and two short ones.
    layout_files.write_split(folder / 'valid', [
        program('a', [1, 2, 3, 4, 5, 6]), program('b', [2, 1]),
        program('c', [2, 1])])
    layout_files.write_split(folder / 'test', [program('t', [1, 2])])
    model_dir, printed = _train(
        tmp_path, epochs=2, configs=2, lr=0.8, model_kwargs_json='{"start": 1.0}',
        test_mode='metrics', **_TINY)
    info = finished_runs.info_of(model_dir)
    # Of 15 + 1 + 1 pairs 15 are right, then 2.
    np.testing.assert_allclose(
        info['train_curve']['val_opa'], [15 / 17, 2 / 17], rtol=1e-6)
    np.testing.assert_allclose(
        info['train_curve']['val_tau'], [-1 / 3, 1 / 3], rtol=1e-6)
    assert info['best_epoch'] == 1
    assert info['final_error']['val'] == {
        'kendall_tau': pytest.approx(1 / 3), '10': 1, '100': 1,
        '1': pytest.approx((6 + 1 + 1) / 3)}
    assert info['final_error']['test'] == {
        'kendall_tau': -1, '1': 2, '10': 1, '100': 1}
    assert 'test tau: -1.0000; slowdown@1/10/100: 2.0000 / 1.0000 / 1.0000' in (
        printed)


def test_validation_keeps_its_configurations(root, tmp_path):
    # A model that does not move is measured the same in every epoch.
    changes = dict(
        _TINY, lr=1e-12, validation_configs=7, out_dir=str(tmp_path),
        model_kwargs_json='{"start": 1.0}')
    curve = finished_runs.info_of(_train(root, **changes)[0])['train_curve']
    assert len(set(curve['val_tau'])) == len(set(curve['val_opa'])) == 1
    assert curve['val_loss'] == [None] * 3  # 7 are fewer than --configs
    # Without validation the last epoch counts.
    changes.update(validate_batches=0)
    info = finished_runs.info_of(_train(root, **changes)[0])
    assert info['train_curve']['val_opa'] == [None] * 3
    assert 'val_tau' not in info['train_curve'] and info['best_epoch'] == 2


def test_same_seed_and_resumed_runs_are_the_same(root, tmp_path, monkeypatch):
    changes = dict(
        _TINY, epochs=4, batch=2, lr=0.1, clip_norm=1.0, out_dir=str(tmp_path),
        keep_nodes=7)

    def stop(epochs, **more):
        finished_runs.stop_after(
            monkeypatch, epochs, lambda: _train(root, **changes, **more))

    stop(2)
    kept = os.listdir(tmp_path)
    assert len(kept) == 1 and re.fullmatch(r'unfinished_[0-9a-f]{16}\.npz', kept[0])
    # Other settings are another run, and do not touch it.
    shutil.copytree(root / 'data/xla/random', tmp_path / 'xla/default')
    others = []
    for more in ({'seed': 1}, {'search': 'default', 'data_root': str(tmp_path)}):
        other, printed = _train(root, **{**changes, **more}, resume=True)
        others.append(finished_runs.info_of(other))
        assert 'note: --resume: there is no interrupted run of these' in printed
        assert (tmp_path / kept[0]).exists()
    resumed, printed = _train(root, **changes, resume=True, memory_budget=16)
    assert 'resuming after epoch 2\n' in printed
    assert 'epoch   3/4' in printed and 'epoch   2/4' not in printed
    assert not list(tmp_path.glob('unfinished_*'))
    stop(1)
    whole, printed = _train(root, **changes)
    assert 'note: a run of these settings was interrupted' in printed
    infos = [finished_runs.info_of(run) for run in (resumed, whole)]
    assert infos[0]['train_curve'] == infos[1]['train_curve']
    assert len(infos[0]['train_curve']['epoch']) == 4
    weights = finished_runs.weights_of(whole)
    assert finished_runs.weights_of(resumed) == weights and len(weights) == 1
    assert others[0]['train_curve'] != infos[0]['train_curve']
    assert others[1]['train_curve'] == infos[0]['train_curve']
    # Four runs of one folder: each has its pair, and its own CSV.
    assert len(list(tmp_path.glob('model_*'))) == 4
    assert len(list(tmp_path.glob('run_*'))) == 4
    assert len(list(tmp_path.glob('results_*_xla_random.csv'))) == 3
    assert len(list(tmp_path.glob('results_*_xla_default.csv'))) == 1


# --- What is done with a run -----------------------------------------------


def test_a_directory_alone_predicts_what_training_did(
    root, run, monkeypatch, capsys
):
    # Moved, relative, with a slash: the data is where training found it.
    monkeypatch.chdir(run.parent)
    assert finished_runs.command(
        monkeypatch, 'predict', '--dir', f'{run.name}/', '--output', 'p.csv',
        '--cache_dir', root / 'cache') == 0
    assert pathlib.Path('p.csv').read_text() == finished_runs.csv_of(run)
    assert capsys.readouterr() == (f'{run.parent}/p.csv: 2 rows\n', '')
    # Another split, from elsewhere, in little memory.
    shutil.copytree(root / 'data/xla', run.parent / 'new/xla')
    assert finished_runs.command(
        monkeypatch, 'predict', '--dir', run, '--output', 'v.csv', '--data_root',
        run.parent / 'new', '--split', 'valid', '--cache_dir',
        run.parent / 'cache', '--memory_budget', 16) == 0
    rows = pathlib.Path('v.csv').read_text().splitlines()[1:]
    assert [row.partition(',')[0] for row in rows] == [
        f'layout:xla:random:program_{i}' for i in range(4)]
    for row in rows:
        assert len(set(row.partition(',')[2].split(';'))) == 40


def test_evaluate(root, run, monkeypatch, capsys):
    assert finished_runs.command(
        monkeypatch, 'evaluate', '--dir', run, '--output', run.parent / 'e.json',
        '--cache_dir', root / 'cache') == 0
    table = capsys.readouterr().out
    assert table.startswith(f'ResModel on valid, {run}\n')
    for words in ('program_3', 'tau', 'slowd@1', 'slowd@100', 'random choice'):
        assert words in table
    assert finished_runs.command(
        monkeypatch, 'evaluate', '--dir', run, '--json', '--cache_dir',
        root / 'cache') == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary == json.loads((run.parent / 'e.json').read_text())
    assert (summary['task'], summary['split']) == ('layout', 'valid')
    assert summary['data'] == str(root / 'data/xla/random/valid')
    overall = summary['overall']
    assert overall['graphs'] == len(summary['groups']) == 4
    assert overall['configurations'] == 160
    found = finished_runs.info_of(run)['final_error']['val']
    for key, value in found.items():
        name = key if key == 'kendall_tau' else f'slowdown_{key}'
        assert overall[name]['mean'] == pytest.approx(value, rel=1e-6)
    assert overall['kendall_tau']['random'] == 0
    assert overall['slowdown_1']['random'] > overall['slowdown_10']['random'] > 1
    assert overall['slowdown_100'] == {
        'mean': 1, 'low': 1, 'high': 1, 'random': 1, 'graphs': 4}


def test_evaluate_without_runtimes(root, run, monkeypatch, capsys):
    assert finished_runs.command(
        monkeypatch, 'evaluate', '--dir', run, '--split', 'test',
        '--cache_dir', root / 'cache') == 1
    printed = capsys.readouterr()
    assert printed.out == '' and printed.err == (
        f'error: {root}/data/xla/random/test: all runtimes are 0, as in the '
        'published test files; there is nothing to compare with\n')


def test_metrics_need_runtimes(root, tmp_path):
    finished_runs.assert_refused(
        lambda: _train(root, test_mode='metrics', out_dir=str(tmp_path)),
        f'--test_mode=metrics: all runtimes in {root}/data/xla/random/test are 0',
        'use --test_mode=predictions')
    assert os.listdir(tmp_path) == []


def test_a_run_of_the_published_code(root, run, capsys):
    info = finished_runs.info_of(run)
    ours = {
        'models_file', 'sample_data', 'skip_bad_files', 'validation_configs',
        'seed', 'resume', 'sampling', 'segments', 'memory_budget', 'losses',
        'test_mode'}
    published = {
        key: info[key]
        for key in ('train_curve', 'final_error', 'test_predictions')}
    published['args'] = {
        key: value for key, value in info['args'].items() if key not in ours}
    finished_runs.write_info(run, published)
    predictor = predict.load_predictor(str(run), _data(root))
    assert predictor.normalizer.to_json() == info['normalizer']
    assert predictor.num_ops == info['num_ops']
    assert capsys.readouterr().err == (
        'note: this run does not hold its normaliser; fitting it to '
        f'{root}/data\n')
    predict.write_predictions([str(run)], _data(root), str(run.parent / 'p.csv'))
    assert (run.parent / 'p.csv').read_text() == finished_runs.csv_of(run)


def test_toy_data_and_known_test_runtimes(tmp_path):
    for seed, split in enumerate(('train', 'valid', 'test')):
        layout_files.write_split(
            tmp_path / 'data/nlp/default' / split, _programs(7, seed))
    model_dir, printed = _train(
        tmp_path, source='nlp', search='default', toy_data=True,
        test_mode='metrics', batch=5, epochs=1, **_TINY)
    assert 'training on 5 programs of nlp:default with ' in printed
    assert 'test tau: ' in printed and 'note:' not in printed
    info = finished_runs.info_of(model_dir)
    # The first 5 files by name.
    assert list(info['test_predictions']) == [
        f'layout:nlp:default:program_{i}' for i in range(5)]
    data = _data(tmp_path, toy_data=True)
    summary = predict.evaluate(str(model_dir), data, _TINY['models_file'], 'test')
    for key, value in info['final_error']['test'].items():
        name = key if key == 'kendall_tau' else f'slowdown_{key}'
        assert summary['overall'][name]['mean'] == pytest.approx(value)
    # A run that was made with --toy_data ranks the whole split too.
    paths = predict.write_predictions(
        [str(model_dir)], _data(tmp_path), str(tmp_path / 'p.csv'),
        _TINY['models_file'])
    assert pathlib.Path(paths[0]).read_text().count('layout:nlp:default:') == 7
    # Without its code the run is not read as something else.
    finished_runs.assert_refused(
        lambda: predict.load_predictor(str(model_dir), data),
        "there is no layout model 'Tiny'")


# --- The other collection --------------------------------------------------


@pytest.fixture(name='tile', scope='module')
def _tile(tmp_path_factory):
    """A folder with tile data and a run trained on it."""
    root = tmp_path_factory.mktemp('tile')
    for seed, split in enumerate(('train', 'valid', 'test')):
        tile_records.write_split(
            root / 'data' / split, tile_records.make_records(3, seed))
    model_dir, _ = finished_runs.quietly(
        tile_training.train, config.TileConfig(
            model='Tiny', models_file=tiny_models.__file__, epochs=1,
            data_root=str(root / 'data'), cache_dir=str(root / 'cache'),
            out_dir=str(root / 'out')))
    return root, model_dir


def test_a_tile_run_on_layout_data(root, tile, tmp_path):
    def rank(data_root):
        return lambda: predict.write_predictions(
            [str(tile[1])],
            prediction.DataOptions(str(data_root), str(tmp_path / 'cache')),
            str(tmp_path / 'p.csv'), tiny_models.__file__)

    finished_runs.assert_refused(
        rank(root / 'data'), f'{root}/data/test: there is no such folder',
        '--data_root')
    folder = root / 'data/xla/random'
    finished_runs.assert_refused(
        rank(folder), f'{folder}/test/program_0.npz', 'config_feat')
    assert not (tmp_path / 'p.csv').exists()


def test_a_layout_run_on_tile_data(run, tile, tmp_path):
    tiles = tile[0] / 'data'

    def rank(data_root):
        return lambda: predict.write_predictions(
            [str(run)],
            prediction.DataOptions(str(data_root), str(tmp_path / 'cache')),
            str(tmp_path / 'p.csv'))

    finished_runs.assert_refused(
        rank(tiles), f'{tiles}/xla/random/test: there is no such folder',
        '--data_root')
    shutil.copytree(tiles, tmp_path / 'data/xla/random')
    finished_runs.assert_refused(
        rank(tmp_path / 'data'), f'{tmp_path}/data/xla/random/test/program_0_0000',
        'node_config_ids')
    finished_runs.assert_refused(
        lambda: _train(tmp_path, **_TINY), f'{tmp_path}/data/xla/random/train/',
        'node_config_ids')
    assert not (tmp_path / 'p.csv').exists()


def test_data_of_another_width(run, tmp_path):
    layout_files.write_split(
        tmp_path / 'data/xla/random/test',
        _programs(2, seed=0, node_features=141))
    data = prediction.DataOptions(str(tmp_path / 'data'), str(tmp_path / 'cache'))
    finished_runs.assert_refused(
        lambda: predict.evaluate(str(run), data, split='test'),
        f'{tmp_path}/data/xla/random/test: node_feat has 141 columns, but 140 in '
        'what the model was trained on')


@pytest.mark.parametrize('args, words', [
    ({'model': 'ResModle'}, "there is no layout model 'ResModle'; did you mean"),
    ({'model_kwargs_json': '{"hidden_dim": 8}'}, 'variables where the model has'),
    ({'model_kwargs_json': _SMALL.replace('4', '8')}, 'holds variable 1 of shape'),
    ({'source': 'tpu'}, 'tpu/random/test: there is no such folder'),
    ({'search': 'random/../random'}, "ID 'layout:xla:random/../random:program_0'"),
    ({'configs': 'many'}, 'args.configs should be a positive number'),
])
def test_run_arguments_that_do_not_fit(root, run, args, words):
    info = finished_runs.info_of(run)
    info['args'].update(args)
    finished_runs.write_info(run, info)
    output = run.parent / 'p.csv'
    finished_runs.assert_refused(
        lambda: predict.write_predictions([str(run)], _data(root), str(output)),
        words)
    assert not output.exists()


def test_resuming_from_what_does_not_fit(root, tmp_path, monkeypatch):
    changes = dict(_TINY, epochs=2, out_dir=str(tmp_path), resume=True)
    finished_runs.stop_after(monkeypatch, 1, lambda: _train(root, **changes))
    path = next(tmp_path.glob('unfinished_*'))
    runs.Checkpoint(str(path)).write({'now_0000': np.zeros(3)}, {})
    finished_runs.assert_refused(
        lambda: _train(root, **changes), str(path), 'delete it to start anew')
    assert os.listdir(tmp_path) == [path.name]
