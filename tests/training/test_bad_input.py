"""Bad input to a training: one line that names it, and nothing half-written.

What is wrong inside a file is tested by `tests/data/test_records.py`.
"""

import json
import os
import shutil

import numpy as np
import pytest

from baselines import config
from baselines.core import exits
from baselines.training import run_training
from tests.helpers import finished_runs
from tests.helpers import layout_runs
from tests.helpers import processes
from tests.helpers import tile_records
from tests.helpers import tile_runs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('weights_alone')]

_BAD = 'program_1_0001.npz'  # in every split


def _assert_refused(code, printed, *words):
    """Checks for exit code 1 and one line on stderr that has all the words."""
    assert code == 1
    assert printed.err.startswith('error: ') and printed.err.endswith('\n')
    assert printed.err.count('\n') == 1, printed.err
    for word in words:
        assert word in printed.err


def _outputs(folder):
    """Returns what a training wrote, but for finished or locked caches."""
    names = processes.list_files(folder)
    kept = ('data/', 'cache/')
    return [n for n in names if n.startswith('cache/.') or not n.startswith(kept)]


def _hide_runtimes(path):
    """Makes all runtimes of a file 0, as in a published test file."""
    with np.load(path) as stored:
        arrays = dict(stored)
    np.savez(path, **{**arrays, 'config_runtime': 0 * arrays['config_runtime']})


@pytest.fixture(name='data')
def _data(tmp_path):
    """Splits of four kernels each that may be damaged."""
    tile_records.write_splits(tmp_path / 'data')
    return tmp_path / 'data'


@pytest.fixture(name='train')
def _train(tmp_path):
    """Runs a training as the script does; returns its exit code.

    What trains to the end is quick with `TINY`; what does not, without.
    """

    def train(runs=tile_runs, **changes):
        def work():
            settings = runs.settings(tmp_path, **{'epochs': 1, **changes})
            run_training.train(config.check_config(settings))

        return exits.run_guarded(work)

    return train


@pytest.fixture(name='refused')
def _refused(train, tmp_path, capsys):
    """Trains; checks for one line with all the words, and for no output."""

    def call(*words, **changes):
        _assert_refused(train(**changes), capsys.readouterr(), *words)
        assert _outputs(tmp_path) == []

    return call


def test_damaged_files_are_named_and_left_out_where_that_is_wanted(
    train, refused, data, tmp_path, capsys
):
    for split in ('train', 'test'):
        os.truncate(data / split / _BAD, 100)
    refused(f'{data}/train/{_BAD}: ', '--skip_bad_files')
    assert train(skip_bad_files=True, **tile_runs.TINY) == 0
    printed = capsys.readouterr()
    assert [line.partition(': not ')[0] for line in printed.err.splitlines()] == [
        f'warning: left out: {data}/{split}/{_BAD}' for split in ('train', 'test')
    ]
    assert 'training on 3 kernels' in printed.out
    ranking = next((tmp_path / 'out').glob('results_*.csv')).read_text()
    assert ranking.count('\n') == 1 + 3
    assert _BAD[: -len('.npz')] not in ranking


def test_no_data_of_this_collection(refused, tmp_path):
    (tmp_path / 'data/xla/random/train').mkdir(parents=True)
    words = f'{tmp_path}/data/nlp/default/train: ', '--data_root', '--sample_data'
    refused(*words, runs=layout_runs, source='nlp', search='default')
    # A folder of splits, of another collection than the flags choose.
    folder = tmp_path / 'data' / 'xla' / 'random'
    words = f'{folder}/xla/default/train: ', '--source=xla --search=random'
    refused(*words, runs=layout_runs, search='default', data_root=str(folder))


def test_unusable_runtimes(refused, data):
    refused(f'{data}/train: ', '--configs=31', '28', configs=31)
    _hide_runtimes(data / 'valid' / _BAD)
    refused(f'{data}/valid: program_1_0001 has a runtime of 0')
    for path in (data / 'train').iterdir():
        _hide_runtimes(path)
    refused(f'{data}/train: all runtimes are 0')


def test_a_collection_of_too_few_to_divide(train, refused, data, tmp_path, capsys):
    for split in ('valid', 'test'):
        shutil.rmtree(data / split)
    refused(f'{data}/valid: ')
    (tmp_path / 'data/measured.json').write_text('{}')  # as `collect` writes it
    assert train(**tile_runs.TINY) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith(f'note: {data}/train: ')
    assert printed.err.count('\n') == 1 and 'nothing is validated' in printed.err
    assert 'validating on' not in printed.out and 'val:' not in printed.out
    ranking = next((tmp_path / 'out').glob('results_*.csv')).read_text()
    assert ranking.count('\n') == 1 + len([*(data / 'train').iterdir()])


_BLIND = """
from tests.helpers import tiny_models
import tensorflow as tf

class Blind(tiny_models.Tiny):
    def forward(self, graph, num_configs, training=False):
        scores = super().forward(graph, num_configs, training)
        return tf.reduce_mean(scores, axis=1, keepdims=True) + 0.0 * scores

class Begun(tiny_models.Tiny):
    def build_weights(self, width):
        super().build_weights(width)
        self.w.assign(tf.zeros_like(self.w))
"""


def test_a_model_that_ignores_configurations(train, refused, data, tmp_path):
    """One that begins with weights of 0 learns, and is none."""
    path = tmp_path / 'data' / 'models.py'  # of what `refused` leaves out
    path.write_text(_BLIND)
    changes = dict(models_file=str(path), epochs=2)
    refused('Blind', 'configurations', model='Blind', **changes)
    assert train(model='Begun', **changes) == 0


@pytest.mark.parametrize(
    'model, kwargs', [('MLP', {'hidden_dim': 'x'}), ('AttentionSAGE', {'heads': 5})]
)
def test_keywords_of_the_wrong_kind(refused, data, model, kwargs):
    assert data.exists()
    words = ('--model_kwargs_json', model, next(iter(kwargs)))
    refused(*words, model=model, model_kwargs_json=json.dumps(kwargs))


_FRAGILE = """
import tensorflow as tf
from tests.helpers import tiny_models

class Fragile(tiny_models.Tiny):
    def forward(self, graph, num_configs, training=False):
        edges = graph.edge_sets['feed'].sizes
        tf.debugging.assert_positive(edges)
        return super().forward(graph, num_configs, training)
"""


def test_a_model_that_cannot_rank_a_kernel_is_saved(data, train, tmp_path, capsys):
    rng, path = np.random.default_rng(0), tmp_path / 'fragile.py'
    alone = tile_records.make_record(rng, 'no_edges', nodes=1, is_test=True)
    tile_records.write_split(data / 'test', [alone])
    path.write_text(_FRAGILE)
    code = train(model='Fragile', models_file=str(path))
    _assert_refused(code, capsys.readouterr(), 'no_edges', f'{path}, line 8')
    [run] = (tmp_path / 'out').glob('model_*')
    info = finished_runs.read_info(run)
    assert info['final_error'] == info['test_predictions'] == {}
    assert info['train_curve']['epoch'] == [0]
    assert not list((tmp_path / 'out').glob('unfinished_*'))
    assert processes.command('runs', '--out_dir', tmp_path / 'out') == 0
    assert 'Fragile' in capsys.readouterr().out
    words = ['--dir', run, '--models_file', path, '--split', 'valid']
    words += ['--cache_dir', tmp_path / 'cache', '--output', tmp_path / 'a.csv']
    assert processes.command('predict', *words) == 0
