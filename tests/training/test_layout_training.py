"""What a layout training draws, measures, keeps, and goes on with."""

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from baselines.data.layout import store as layout_store
from baselines.layout import task as layout
from baselines.scoring import exporting
from baselines.scoring import prediction
from baselines.tasks import lookup
from baselines.training import graph_model
from baselines.training import task_data
from tests.helpers import exported
from tests.helpers import finished_runs
from tests.helpers import layout_files
from tests.helpers import layout_runs
from tests.helpers import refusals

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('weights_alone')]


class _Draws:
    """What a training would draw."""

    def __init__(self, root, **changes):
        self.draws = []  # (number of a program, configs, segment, labels)
        self.steps = []
        settings = layout_runs.settings(root, **{**layout_runs.TINY, **changes})
        data = task_data.open_data(settings)
        for epoch in range(settings.epochs):
            draws = list(data.draw_steps(epoch))
            assert len(draws) == data.steps_per_epoch
            for [programs], [configs], [segments] in draws:
                self.steps.append(programs.tolist())
                packed = data.pack(programs[None], configs[None], segments[None])
                for i, number in enumerate(programs):
                    drawn = configs[i], tuple(segments[i]), packed['runtimes'][0, i]
                    self.draws.append((int(number), *drawn))


def _means(number):
    """Each configuration's mean runtime over those equal to it, and its group."""
    program = layout_runs.training_program(number)
    _, group = np.unique(program.node_config_feat, axis=0, return_inverse=True)
    group = group.reshape(-1)
    runtimes = program.config_runtime
    return np.array([runtimes[group == g].mean() for g in group]), group


def test_an_epoch_is_every_program_with_different_configurations(layout_root, tmp_path):
    seen = _Draws(layout_root, batch=4, out_dir=str(tmp_path))
    # Six programs are a step and a half: two come twice.  `small` never does.
    assert [len(step) for step in seen.steps] == [4] * 6
    for first, second in zip(seen.steps[::2], seen.steps[1::2]):
        counts = collections.Counter(first + second)
        assert sorted(counts) == list(range(6))
        assert sorted(counts.values()) == [1, 1, 1, 1, 2, 2]
    assert seen.steps[:2] != seen.steps[2:4]
    # The same again, as a resumed training wants them.
    again = _Draws(layout_root, batch=4, out_dir=str(tmp_path))
    assert again.steps == seen.steps
    for one, other in zip(again.draws, seen.draws):
        np.testing.assert_array_equal(one[1], other[1])
    for number, configs, _, labels in seen.draws:
        means, group = _means(number)
        assert len(set(group[configs])) == len(configs) == 16
        np.testing.assert_allclose(labels, means[configs], rtol=1e-6)


def test_a_training_begins_with_the_formula(tmp_path):
    record = layout_files.two_dots()
    folder = tmp_path / 'data' / 'xla' / 'random'
    for split in ('train', 'valid', 'test'):
        layout_files.write_split(folder / split, [record])
    started = '{"start": 5}'  # of its one matrix
    flags = dict(layout_runs.TINY, estimate=True, model_kwargs_json=started)
    model_dir, _ = layout_runs.train(tmp_path, configs=2, lr=1e-9, epochs=1, **flags)
    options = prediction.Options(
        cache_dir=str(tmp_path / 'cache'), models_file=flags['models_file']
    )
    predictor = prediction.load(str(model_dir), options)
    [formula] = predictor.task.estimates(predictor.open_split('valid'))
    [scores] = predictor.score(predictor.open_split('valid'))
    assert np.ptp(scores) > 0
    np.testing.assert_array_equal(np.sign(scores), np.sign(formula - formula.mean()))
    served, own = str(tmp_path / 'served'), options.models_file
    assert '  prior [?]' in exporting.export(predictor.run, served, own)
    prior = layout.compute_prior(predictor.open_split('valid'), 0)
    assert len(prior) == 4 and np.ptp(prior) > 0
    score, inputs = exported.load_function(served), exported.make_inputs(record)
    found = score(prior=prior, **inputs)
    np.testing.assert_allclose(found, scores, atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match='prior: '):
        score(prior=prior[1:], **inputs)


def test_the_formula_scores_alone_where_nothing_learned_is_better(tmp_path):
    record = layout_files.two_dots()
    [formula] = lookup.TASKS['layout'].estimates(
        layout_store.LayoutStore.from_records('', [record])
    )
    # It orders these runtimes without an error.
    runtimes = 10 + np.unique(formula, return_inverse=True)[1]
    record = dataclasses.replace(record, config_runtime=runtimes.astype(np.int64))
    folder = tmp_path / 'data' / 'xla' / 'random'
    for split in ('train', 'valid', 'test'):
        layout_files.write_split(folder / split, [record])
    flags = {**layout_runs.TINY, 'estimate': True, 'trees': True}
    model_dir, printed = layout_runs.train(tmp_path, **flags, configs=2, lr=1e-9)
    assert 'the formula' in printed
    info = finished_runs.read_info(model_dir)
    assert info['member_weights'] == [0, 0]
    # 4 x 8 by 8 x 200, and 4 x 200 by 200 x 16.
    assert info['most_multiply_adds'] == pytest.approx(4 * 8 * 200 + 4 * 200 * 16)
    options = prediction.Options(
        cache_dir=str(tmp_path / 'cache'), models_file=flags['models_file']
    )
    predictor = prediction.load(str(model_dir), options)
    store = predictor.open_split('test')
    [scores] = predictor.score(store)
    np.testing.assert_array_equal(scores, formula)
    numbers = np.zeros(1, np.int64)
    [[alone]] = predictor.scorer.members(store, None, numbers)
    np.testing.assert_array_equal(alone, formula)


def test_a_model_that_cannot_begin_with_the_formula():
    model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    model.build([None, 3])
    begin = lambda: graph_model.begin_at_zero(model)
    refusals.assert_refused(begin, '--estimate', 'Sequential')


@pytest.mark.parametrize(
    'keep_nodes, expected', [(7, {(0, 7), (7, 12)}), (-1, {(0, 12)})]
)
def test_segments_and_a_fixed_subset(layout_root, tmp_path, keep_nodes, expected):
    changes = dict(keep_nodes=keep_nodes, max_configs=16, epochs=6)
    seen = _Draws(layout_root, out_dir=str(tmp_path), **changes)
    assert {segment for _, _, segment, _ in seen.draws} == expected
    for number in range(6):
        drawn = [sorted(c) for n, c, _, _ in seen.draws if n == number]
        assert len(drawn) == 6 and all(configs == drawn[0] for configs in drawn)


def test_validation_chooses_by_tau(tmp_path):
    # The only thing that differs is one column of one node, x from 0 to 5.
    def program(name, runtimes):
        features = np.zeros((len(runtimes), 4, 18), np.float32)
        features[:, 0, 3] = np.arange(len(runtimes))
        return layout_files.make_record(
            np.random.default_rng(0),
            name,
            configs=len(runtimes),
            node_config_feat=features,
            config_runtime=np.array(runtimes) * 10**8,
        )

    folder = tmp_path / 'data' / 'xla' / 'random'
    # To learn: the larger x, the faster, so that w falls from 1 by the learning
    # rate in every step, as Adam's steps are long: 0.2, then below 0.
    layout_files.write_split(folder / 'train', [program('a', [6, 5, 4, 3, 2, 1])])
    # To validate on: a long list that says the opposite, and two short ones.
    layout_files.write_split(
        folder / 'valid',
        [program('a', [1, 2, 3, 4, 5, 6]), program('b', [2, 1]), program('c', [2, 1])],
    )
    layout_files.write_split(folder / 'test', [program('t', [1, 2])])
    model_dir, printed = layout_runs.train(
        tmp_path,
        epochs=2,
        configs=2,
        lr=0.8,
        model_kwargs_json='{"start": 1.0}',
        test_mode='metrics',
        **layout_runs.TINY,
    )
    info = finished_runs.read_info(model_dir)
    # Of 15 + 1 + 1 pairs 15 are right, then 2.
    assert info['train_curve']['val_opa'] == pytest.approx([15 / 17, 2 / 17])
    assert info['train_curve']['val_tau'] == pytest.approx([-1 / 3, 1 / 3])
    assert info['best_epoch'] == 1
    assert info['final_error']['val'] == {
        'kendall_tau': pytest.approx(1 / 3),
        '10': 1,
        '100': 1,
        '1': pytest.approx((6 + 1 + 1) / 3),
    }
    assert info['final_error']['test'] == {'kendall_tau': -1, '1': 2, '10': 1, '100': 1}
    assert 'test tau: -1.0000; ' in printed and ' 2.0000 / 1.0000 / 1.0' in printed


def test_validation_keeps_its_configurations(layout_root, tmp_path):
    # A model that does not move is measured the same in every epoch.
    changes = dict(
        layout_runs.TINY,
        lr=1e-12,
        validation_configs=7,
        out_dir=str(tmp_path),
        model_kwargs_json='{"start": 1.0}',
    )
    curve = finished_runs.read_info(layout_runs.train(layout_root, **changes)[0])[
        'train_curve'
    ]
    assert len(set(curve['val_tau'])) == len(set(curve['val_opa'])) == 1
    assert curve['val_loss'] == [None] * 3  # 7 are fewer than --configs
