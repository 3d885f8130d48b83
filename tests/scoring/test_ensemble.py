"""Folds, families and ensembles in trainings and predictions, end to end."""

import csv
import os

import numpy as np
import pytest

from baselines.data import families
from baselines.evaluation import ensembles
from baselines.runs import run_files
from baselines.scoring import measuring
from baselines.scoring import prediction
from tests.helpers import finished_runs
from tests.helpers import made_runs
from tests.helpers import processes
from tests.helpers import shapes
from tests.helpers import tile_records
from tests.helpers import tile_runs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('weights_alone')]

# Program -> kernels.
_TRAIN = {'net_1': 6, 'net_2': 2, 'net_3': 2}
_VALID = {'net_4': 2, 'other_5': 1}
_SCALED = 20_000  # a feature that only net_1 has
_CODE = tile_runs.TINY['models_file']


def _kernels(programs, seed, **changes):
    rng = np.random.default_rng(seed)
    return [
        tile_records.make_record(rng, f'{program}_{i:02d}', configs=12, **changes)
        for program, count in programs.items()
        for i in range(count)
    ]


@pytest.fixture(name='root', scope='module')
def _root(tmp_path_factory):
    root = tmp_path_factory.mktemp('ensemble')
    kernels = _kernels(_TRAIN, 0)
    for kernel in kernels:
        if kernel.graph_id.startswith('net_1'):
            kernel.node_feat[0, 3] = _SCALED
    tile_records.write_split(root / 'data' / 'train', kernels)
    tile_records.write_split(root / 'data' / 'valid', _kernels(_VALID, 1))
    tile_records.write_split(
        root / 'data' / 'test', _kernels({'net_6': 3}, 2, is_test=True)
    )
    return root


def _train(root, out, **changes):
    fields = dict(tile_runs.TINY, epochs=2, batch=2, lr=0.1, clip_norm=1.0)
    return tile_runs.train(root, **{**fields, **changes, 'out_dir': str(root / out)})


@pytest.fixture(name='plain', scope='module')
def _plain(root):
    """Two runs of different seeds."""
    return [str(_train(root, 'plain', seed=seed)[0]) for seed in (0, 1)]


@pytest.fixture(name='folded', scope='module')
def _folded(root):
    """The runs of two folds."""
    return [str(_train(root, 'folded', fold=f'{i}/2')[0]) for i in (1, 2)]


@pytest.fixture(name='data')
def _data(root):
    return prediction.Options(cache_dir=str(root / 'cache'), models_file=_CODE)


@pytest.fixture(name='run_command')
def _run_command(root):
    """Runs a command on the data of the runs; returns its exit code."""
    places = ('--cache_dir', root / 'cache', '--models_file', _CODE)
    return lambda name, *argv: processes.command(name, *places, *argv)


# Folds ------------------------------------------------------------------------


def _valid_ids(model_dir, data):
    predictor = prediction.load(model_dir, data)
    return predictor.open_split('valid').graph_ids


def test_each_program_validates_once(folded, data):
    found = [_valid_ids(model_dir, data) for model_dir in folded]
    assert sorted(sum(found, [])) == sorted(
        kernel.graph_id
        for programs, seed in ((_TRAIN, 0), (_VALID, 1))
        for kernel in _kernels(programs, seed)
    )
    programs = [{families.find_program(graph_id) for graph_id in ids} for ids in found]
    # By size: 1 alone, then 2, 3, 4 of two kernels each, then 5, to the first of two.
    assert programs == [{'net_1', 'other_5'}, {'net_2', 'net_3', 'net_4'}]


def test_evaluation_is_on_the_fold(folded, data):
    found = measuring.measure(prediction.load(folded[0], data), 'valid')[0]
    assert found['fold'] == '1/2' and set(found['groups']) == {'net_1', 'other_5'}
    assert found['overall']['top_5_error']['mean'] == pytest.approx(
        finished_runs.read_info(folded[0])['final_error']['val']['5'], rel=1e-6
    )


# Ensembles --------------------------------------------------------------------


def test_an_ensemble_ranks_by_the_mean(
    plain, folded, data, run_command, tmp_path, capsys
):
    output = tmp_path / 'e.csv'
    assert run_command('ensemble', '--dirs', *plain, '--output', output) == 0
    # The test split has no runtimes: nothing is measured.
    assert capsys.readouterr().out == f'{output}: 3 rows\n'
    scores = []
    for model_dir in plain:
        predictor = prediction.load(model_dir, data)
        store = predictor.open_split('test')
        scores.append(dict(zip(store.graph_ids, predictor.score(store))))
    for graph_id, order in finished_runs.read_ranking(output).items():
        one, two = (s[graph_id.rpartition(':')[2]] for s in scores)
        mean = (ensembles.scale_to_range(one) + ensembles.scale_to_range(two)) / 2
        assert order == ';'.join(map(str, np.argsort(mean, kind='stable')[:5]))
    # Of folds, too.
    assert run_command('ensemble', '--dirs', *folded, '--output', output) == 0
    assert len(finished_runs.read_ranking(output)) == 3


def test_an_ensemble_is_measured_beside_its_members(
    plain, data, run_command, tmp_path, capsys
):
    words = ['--dirs', *plain, '--split', 'valid', '--by', 'ranks', '--evaluate']
    words += ['--output', tmp_path / 'e.csv']
    assert run_command('ensemble', *words) == 0
    table = capsys.readouterr().out.split('\n\n')[-2]
    for name in ('Tiny seed 0', 'Tiny seed 1', 'ensemble of 2', 'mean of', 'gain over'):
        assert name in table
    assert run_command('ensemble', *words, '--json') == 0
    captured = capsys.readouterr()
    assert captured.err == f'{tmp_path}/e.csv: 3 rows\n'
    found = shapes.check_shape('ensemble', captured.out)
    assert list(found['members']) == plain
    for model_dir, summary in found['members'].items():
        assert summary.pop('group') == 'Tiny'
        assert summary.pop('name') == f'Tiny seed {plain.index(model_dir)}'
        alone, _ = measuring.measure(prediction.load(model_dir, data), 'valid')
        assert summary == alone
    for key, sign in (('opa', 1), ('top_1_error', -1)):
        figures = [part['overall'][key]['mean'] for part in found['members'].values()]
        ours = found['ensemble']['overall'][key]['mean']
        assert found['gain_over_mean'][key]['gain'] == pytest.approx(
            sign * (ours - np.mean(figures))
        )


def test_what_is_no_ensemble(plain, folded, run_command, tmp_path, capsys):
    output = tmp_path / 'e.csv'
    layout_dir = made_runs.make_layout_run(tmp_path)
    for argv, word in (
        ([plain[0]], 'two or more'),
        ([plain[0], layout_dir], layout_dir),
        ([*plain, '--weights', '1'], '--weights'),
        ([*plain, '--evaluate'], 'runtimes'),
        ([*folded, '--split', 'valid'], '--split=test'),
        ([*plain, '--output', tmp_path], f'{tmp_path}'),
    ):
        capsys.readouterr()
        assert run_command('ensemble', '--output', output, '--dirs', *argv) == 1, word
        message = capsys.readouterr().err
        assert word in message and message.count('\n') == 1
    assert not output.exists()


def test_two_models_are_compared(root, plain, folded, run_command, capsys):
    train = ['--split', 'train']
    other = str(_train(root, 'other', lr=1e-6)[0])
    capsys.readouterr()
    assert (
        run_command('evaluate', '--compare', f'{root}/plain/Tiny', other, *train) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        'A: Tiny lr=.1 seed 0, Tiny lr=.1 seed 1',
        'B: Tiny lr=1e-06 seed 0',
        'train of tile:xla: 10 kernels of 3 programs',
    ]
    table = root / 'table.csv'
    by_model = [f'{root}/plain/Tiny', other, *train, '--output', str(table), '--json']
    assert run_command('evaluate', '--compare', *by_model) == 0
    rows = list(csv.reader(table.open()))
    assert rows[0][:4] == ['', 'A', 'B', 'gain of A'] and rows[1][0] == 'top-1'
    test = shapes.check_shape('evaluate --compare', capsys.readouterr().out)
    names = ['Tiny lr=.1 seed 0', 'Tiny lr=.1 seed 1']
    assert test['a'] == {'names': names, 'dirs': plain}
    gain = test['measures']['opa']
    assert gain['gain'] == pytest.approx(gain['ours'] - gain['theirs'])
    (root / 'mixed').mkdir()
    for model_dir in (plain[0], other):
        for path in (model_dir, run_files.run_file(model_dir)):
            (root / 'mixed' / os.path.basename(path)).symlink_to(path)
    for argv, word in (
        ([plain[0], f'{root}/plain/Tiny'], plain[0]),
        ([f'{root}/mixed/Tiny', folded[0]], 'mixed/Tiny'),
        ([plain[0], f'{root}/none/gone'], f'{root}/none'),
        ([*plain, '--dir', plain[0]], '--dir'),
        ([*plain, other], '3'),
        ([plain[0], folded[0], '--split=valid'], '--compare'),
    ):
        assert run_command('evaluate', '--compare', *argv) == 1
        assert word in capsys.readouterr().err, word
