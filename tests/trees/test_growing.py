"""Trees as a run keeps them: what they learn, and what is read of their text."""

import os
import re
import types

import numpy as np
import pytest

from baselines.trees import booster as trees_lib
from baselines.trees import growing
from baselines.trees import tree_scores
from tests.helpers import finished_runs
from tests.helpers import refusals
from tests.helpers import shapes
from tpugraphs import commands

pytest.importorskip('lightgbm')

_NAMES = ['constant', 'step', 'noise']
_OPTIONS = growing.TreeOptions(
    trees=40, learning_rate=0.5, num_leaves=4, column_share=1, row_share=1
)


def _rows(count=400, seed=0):
    """A target of 3 above step 0.5, and of -1 below."""
    rng = np.random.default_rng(seed)
    columns = rng.random((count, 3)).astype(np.float32)
    columns[:, 0] = 7
    return growing.Rows(columns, np.where(columns[:, 1] > 0.5, 3.0, -1.0))


@pytest.fixture(name='trees', scope='module')
def _trees():
    return growing.fit_trees(_NAMES, _OPTIONS, _rows(), _rows(), seed=0)[0]


def test_they_learn_a_step_from_the_one_column_that_has_it(trees):
    assert trees.used[0] == 'step' and 'constant' not in trees.used
    columns = np.array([[0.2, 0.5], [0.8, 0.5]], np.float32)[:, : len(trees.used)]
    assert trees.predict(columns) == pytest.approx([-1, 3], abs=1e-5)
    # Each halves what is left of the error: 1/4 of its square.
    _, losses = growing.fit_trees(_NAMES, _OPTIONS, _rows(), _rows(), seed=0)
    first, second, *_ = losses['train_loss']
    assert second == pytest.approx(first / 4, rel=1e-3)
    assert len(losses['val_loss']) == len(losses['train_loss']) <= 40
    assert 1 <= trees.count <= 40


def test_what_is_saved_is_read_back(trees, tmp_path):
    trees.save(str(tmp_path / 'trees.txt'))
    again = trees_lib.Trees.read(str(tmp_path / 'trees.txt'))
    assert again.names == _NAMES and again.used == trees.used
    assert again.digest() == trees.digest()
    columns = _rows(seed=2).columns[:, [_NAMES.index(name) for name in trees.used]]
    np.testing.assert_array_equal(again.predict(columns), trees.predict(columns))


def test_last_bits_of_columns_change_nothing():
    # A column that says the target, but only in bits that machines disagree on.
    rows = _rows()
    noisy = rows.columns.copy()
    noisy[:, 0] = np.log(7) + (rows.targets > 0) * 1e-6
    noisy[:, 1] = 0
    table = types.SimpleNamespace(
        names=_NAMES,
        counts=np.array([len(noisy)]),
        rows=lambda graphs, configs: noisy[configs],
    )
    task = types.SimpleNamespace(prior='', judged_by='kendall_tau')
    store = types.SimpleNamespace(labels=lambda graph: rows.targets)
    rng, graphs = np.random.default_rng(0), np.array([0])
    drawn = growing.draw_rows(rng, task, store, table, graphs, most=len(noisy))
    trees, _ = growing.fit_trees(_NAMES, _OPTIONS, drawn, None, seed=0)
    assert trees.used == ['noise']
    rounded = trees_lib.round_columns(
        np.array([[1 / 3, -0.00007, 2.0**30]], np.float32)
    )
    # 2730.67, -.57 and a whole number of steps of 2^-13.
    assert rounded.dtype == np.float32
    assert rounded.tolist() == [[2731 / 8192, -1 / 8192, 2.0**30]]
    assert (
        trees_lib.round_columns(noisy, out=noisy) is noisy and np.ptp(noisy[:, 0]) == 0
    )


def test_importances_are_the_shares_of_gains(trees, tmp_path):
    path = tmp_path / 'trees.txt'
    trees.save(str(path))
    first, *others = found = trees_lib.Trees.read(str(path)).compute_importances()
    assert found == trees.compute_importances()
    assert first.column == 'step' and first.gain > 0.99
    assert sum(row.gain for row in found) == pytest.approx(1)
    leaves = re.findall('num_leaves=(.*)', path.read_text())
    splits = sum(int(number) - 1 for number in leaves)
    assert sum(row.splits for row in found) == splits and first.splits >= trees.count
    assert 'constant' not in [row.column for row in found]
    # Of trees from before gains were kept: by splits.
    path.write_text(re.sub('split_gain=.*\n', '', path.read_text()))
    older = trees_lib.Trees.read(str(path)).compute_importances()
    assert {row.gain for row in older} == {None}
    assert [row.splits for row in older] == sorted([r.splits for r in found])[::-1]


def test_importance_as_a_command(trees, tmp_path, capsys):
    model_dir = tmp_path / 'model_0123456789'
    model_dir.mkdir()
    trees.save(str(model_dir / 'trees.txt'))
    finished_runs.write_info(model_dir, {'args': {'model': 'Trees'}})
    assert commands.run('importance', [str(model_dir), '--top', '1']) == 0
    title, head, _, row, *_ = capsys.readouterr().out.splitlines()
    columns = len(trees.compute_importances())
    of_columns = 'column' if columns == 1 else 'columns'
    assert title == f'{model_dir}: {trees.count} trees, {columns} {of_columns}'
    assert head.split() == ['column', 'gain', 'splits'] and row.startswith('step ')
    assert commands.run('importance', [str(model_dir), '--json']) == 0
    rows = shapes.check_shape('importance', capsys.readouterr().out)
    assert rows[0]['column'] == 'step' and len(rows) == columns
    finished_runs.write_info(model_dir, {'args': {'model': 'MLP'}})
    (model_dir / 'trees.txt').unlink()
    (model_dir / 'variables').mkdir()
    (model_dir / 'variables' / 'variables.index').touch()
    assert commands.run('importance', [str(model_dir)]) == 1
    assert '--trees' in capsys.readouterr().err


def test_scores_are_those_of_lightgbm(tmp_path):
    import lightgbm

    # 60 trees, some of one leaf, of a target that all columns say something of.
    rng = np.random.default_rng(3)
    columns = trees_lib.round_columns(rng.normal(size=(500, 3)).astype(np.float32))
    targets = columns[:, 0] + np.sin(9 * columns[:, 1]) * (columns[:, 2] > 0)
    options = growing.TreeOptions(trees=60, num_leaves=31)
    trees, _ = growing.fit_trees(
        _NAMES, options, growing.Rows(columns, targets), None, 0
    )
    columns[:3] = [[np.nan, 0, 0], [np.inf, -np.inf, 0], [0, 0, np.nan]]
    trees.save(str(tmp_path / 'trees.txt'))
    booster = lightgbm.Booster(model_file=str(tmp_path / 'trees.txt'))
    assert booster.feature_name() == _NAMES == trees.used
    np.testing.assert_array_equal(trees.predict(columns), booster.predict(columns))


def test_a_prior_is_corrected(tmp_path):
    # Of 80 rows half have a prior of 1, half of -1, and of both half a step of 3.
    columns = np.zeros((80, 3), np.float32)
    columns[::2, 2] = columns[40:, 1] = 1
    prior = 2 * columns[:, 2] - 1
    rows = growing.Rows(columns, 0.5 * prior + 3 * columns[:, 1], prior=prior)
    trees, losses = growing.fit_trees(_NAMES, _OPTIONS, rows, None, 0, 'noise')
    assert trees.prior == trees_lib.Prior('noise', 0.5)
    assert trees.used == ['step', 'noise']
    # The trees see nothing but the step: what is left of it falls by a fourth each.
    assert losses['train_loss'][1] == pytest.approx(losses['train_loss'][0] / 4)
    # Ranks 0.5 and 1.5 of 2 have normal scores of -0.674 and 0.674; of equal ones, 0.
    table = types.SimpleNamespace(
        counts=np.array([2, 3]),
        rows=lambda graphs, configs: np.stack([graphs, configs * (graphs < 1)], 1),
    )
    trees.save(str(tmp_path / 'trees.txt'))
    for kept in (trees, trees_lib.Trees.read(str(tmp_path / 'trees.txt'))):
        first, second = tree_scores.scores(kept, table)
        assert first == pytest.approx([-0.3372, 0.3372], abs=1e-4)
        assert second == pytest.approx([3, 3, 3], abs=1e-4)


def test_a_prior_that_misleads_is_left_out():
    prior = np.tile([-1.0, 1.0], 40)
    rows = growing.Rows(_rows(80).columns, -prior, prior=prior)
    assert growing.fit_trees(_NAMES, _OPTIONS, rows, None, 0, 'noise')[0].prior is None


@pytest.mark.parametrize('prior', ['other 0.5', 'noise', 'noise 1e999', 'noise 1_0'])
def test_a_damaged_prior_is_refused(trees, tmp_path, prior):
    path = tmp_path / 'trees.txt'
    trees.save(str(path))
    path.write_text(path.read_text().replace('tree\n', f'tree\nprior={prior}\n', 1))
    with pytest.raises(ValueError, match='prior'):
        trees_lib.Trees.read(str(path))


@pytest.mark.parametrize('count', [8, 400])
def test_few_rows_make_small_leaves_and_nothing_makes_none(count):
    # 2 of 8 rows and 10 of 400 differ: fewer than the 20 of `min_leaf`.
    columns = np.zeros((count, 3), np.float32)
    columns[: max(count // 40, 2), 1] = 1
    rows = growing.Rows(columns, 4.0 * columns[:, 1])
    found, _ = growing.fit_trees(_NAMES, _OPTIONS, rows, None, seed=0)
    assert found.predict(np.array([[0], [1]])) == pytest.approx([0, 4], abs=1e-5)
    nothing = growing.Rows(np.ones((count, 3), np.float32), np.zeros(count))
    found, _ = growing.fit_trees(_NAMES, _OPTIONS, nothing, None, seed=0)
    assert found.predict(np.ones((2, 1), np.float32)).tolist() == [0, 0]


_DAMAGES = {
    'num_class': (r'num_class=1', 'num_class=2', 'num_class'),
    'names': (r'feature_names=.*', 'feature_names=a', 'max_feature_idx'),
    'name': (r'feature_names=\w', 'feature_names=\x1b', 'column'),
    'cut': (r'(?s)end of trees.*', '', 'complete'),
    'no tree': (r'(?s)\nTree=.*', '\nend of trees\n', 'complete'),
    'categorical': (r'num_cat=0', 'num_cat=1', 'num_cat'),
    'linear': (r'is_linear=0', 'is_linear=1', 'is_linear'),
    'leaves': (r'num_leaves=\d+', 'num_leaves=99', 'num_leaves'),
    'column': (r'split_feature=\d', 'split_feature=3', '3 columns'),
    'word': (r'split_feature=\d', 'split_feature=x', "'x'"),
    'long': (r'split_feature=\d', 'split_feature=' + '9' * 50, '9999'),
    # Python would read 1000, LightGBM 1.
    'float': (r'leaf_value=\S+', 'leaf_value=1_000', "'1_000'"),
    'kind': (r'decision_type=\d', 'decision_type=1', 'tree 0'),
    'infinite': (r'threshold=\S+', 'threshold=1e999', 'threshold'),
    'circle': (r'left_child=\S+', 'left_child=0', 'tree 0'),
    'fewer': (r'threshold=.*', 'threshold=', 'leaves'),
}


@pytest.mark.parametrize('damage', _DAMAGES)
def test_an_untrusted_file_is_checked(trees, tmp_path, damage):
    pattern, new, word = _DAMAGES[damage]
    path = tmp_path / 'trees.txt'
    trees.save(str(path))
    changed, count = re.subn(pattern, new, path.read_text(), count=1)
    assert count
    path.write_text(changed)
    refusals.assert_refused(lambda: trees_lib.Trees.read(str(path)), f'{path}', word)


def test_missing_binary_and_large_files(tmp_path):
    path = tmp_path / 'trees.txt'
    read = lambda: trees_lib.Trees.read(str(path))
    refusals.assert_refused(read, str(path))
    path.write_bytes(b'tree\n\xff')
    refusals.assert_refused(read, str(path))
    os.truncate(path, (64 << 20) + 1)  # takes no space on the disk
    refusals.assert_refused(read, str(path), '67,108,865')


# Ranges are one rule: tests/test_config.py.
@pytest.mark.parametrize('name, value', [('tree', 5), ('trees', 0), ('trees', True)])
def test_options_out_of_range(name, value):
    change = lambda: growing.TreeOptions().replace_options({name: value})
    refusals.assert_refused(change, name)
