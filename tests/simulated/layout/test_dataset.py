"""Simulated layout data: programs, searches, files."""

import os

import numpy as np
import pytest

from baselines.data.layout import records as layout_records
from baselines.simulated.layout import dataset
from baselines.simulated.layout import layers
from baselines.simulated.layout import layouts
from baselines.simulated.layout import ops
from baselines.simulated.layout import programs
from baselines.simulated.layout import search
from baselines.simulated.layout.gradients import gradients
from baselines.simulated.layout.model import LayoutModel
from tests.helpers import processes

ROW, COLUMN = (1, 0), (0, 1)


def convolution_module():
    net = ops.Net(training=False)
    x = layers.conv(net, net.parameter((8, 16, 16, 128)), 128, 1)
    return net.finish([layers.conv(net, layers.relu(x), 128, 1)])


# What a configuration may choose, and how it is written.


def test_candidates_of_a_convolution_leave_out_waste():
    module = convolution_module()
    node = next(n for n in module[-1].instructions if n.opcode == 'convolution')
    output, image, kernel = layouts.slots_of(0, node)
    # Batch 8 in the lanes would use 8 of 128: 16 times the memory.
    assert output.layouts == ((3, 2, 1, 0), (3, 0, 2, 1)) == image.layouts
    assert kernel.layouts == ((3, 2, 1, 0), (2, 3, 1, 0))
    assert kernel.written == 2  # of its layouts, the others are -1


def test_features_put_each_tensor_into_its_six_columns():
    net = ops.Net(training=False)
    x = ops.reshape(net.parameter((6, 64, 128)), (384, 128))
    product = ops.dot('mk,kn->mn', x, net.parameter((128, 256)))
    model = LayoutModel(net.finish([product]))
    wanted = [ROW, (2, 0, 1), ROW, ROW, COLUMN]
    rows = [[s.layouts.index(l) for s, l in zip(model.slots, wanted)]]
    none = [-1] * 6
    assert search.features(model.slots, np.array(rows)).tolist() == [
        [
            [1, 0, -1, -1, -1, -1, 2, 0, 1, -1, -1, -1, *none],
            [1, 0, -1, -1, -1, -1, 1, 0, -1, -1, -1, -1, 0, 1, -1, -1, -1, -1],
        ]
    ]


def test_random_search_draws_all_layouts_and_repeats_some():
    model = LayoutModel(convolution_module())
    rows = search.random_search(model.slots, 4000, np.random.default_rng(1), 0.0)
    for column, slot in enumerate(model.slots):
        counts = np.bincount(rows[:, column], minlength=len(slot.layouts))
        assert counts / len(rows) == pytest.approx(1 / len(slot.layouts), abs=0.04)
    few = search.random_search(model.slots, 1000, np.random.default_rng(1), 0.99)
    assert len(np.unique(few, axis=0)) <= 10


@pytest.mark.parametrize('count', [1, 2, 100, 1001])
def test_genetic_search_starts_at_the_default_and_gets_faster(count):
    program = programs.draw_programs('xla', 'train', 1, 0)[0]
    model = LayoutModel(program.build())
    rows = search.genetic_search(
        model.slots, count, np.random.default_rng(0), model.runtime_ns
    )
    assert rows.shape == (count, len(model.slots))
    default = np.array([s.default for s in model.slots])
    assert (rows == default).all(axis=1).any()
    times, start = model.runtime_ns(rows), model.runtime_ns(default[None])[0]
    if count >= 100:
        assert times.min() < start
        assert len(np.unique(rows, axis=0)) < count  # it comes back to some


# Programs.


def test_gradients_have_the_shapes_of_what_they_are_for():
    net = ops.Net(training=True)
    x = layers.embedding(net, 2, 16, 100, 32)
    x = layers.transformer_block(net, x, 2, 64, True, True)
    total = x.reduce((0, 1, 2))
    found = gradients([total], [total.fill()], net.trainable)
    assert [g.shape.dims for g in found] == [w.shape.dims for w in net.trainable]
    with pytest.raises(ValueError, match='do not depend on parameter'):
        gradients([total], [total.fill()], [net.weight(3)])


@pytest.mark.parametrize('stride', [1, 2])
def test_gradients_of_a_convolution(stride):
    net = ops.Net(training=True)
    x = net.weight(4, 10, 10, 8)
    y = layers.conv(net, x, 16, 3, stride)
    found = gradients([y], [y.fill()], net.trainable)
    assert [g.shape.dims for g in found] == [(4, 10, 10, 8), (3, 3, 8, 16)]
    window = found[1].window  # the images' height and width
    assert [w.size for w in window] == [10, 10]


def test_gradients_of_a_recurrent_network_run_in_a_loop():
    net = ops.Net(training=True)
    x = net.weight(7, 4, 16)
    y = layers.recurrent(net, x, 24, '0')
    found = gradients([y], [y.fill()], net.trainable)
    assert [g.shape.dims for g in found] == [(7, 4, 16), (40, 96), (96,)]
    names = [computation.name for computation in net.finish(found)]
    assert [n for n in names if 'body' in n] == [
        'while_body_0_forward',
        'while_body_0_backward',
    ]


def test_programs_are_in_one_split_only_and_do_not_depend_on_the_count():
    names = {}
    for source in programs.SOURCES:
        for split in programs.SPLITS:
            drawn = programs.draw_programs(source, split, 3, 3)
            names[source, split] = [p.name for p in drawn]
            assert {p.split for p in drawn} == {split}
            assert len(set(names[source, split])) == 3
            again = programs.draw_programs(source, split, 1, 3)
            assert [p.name for p in again] == names[source, split][:1]
    assert all(n.startswith('sim_') for part in names.values() for n in part)
    assert names['xla', 'train'] != [
        p.name for p in programs.draw_programs('xla', 'train', 3, 4)
    ]


def test_too_many_programs_are_refused(monkeypatch):
    one = programs.draw_programs('xla', 'train', 1, 0)[0]
    monkeypatch.setattr(programs, '_draw', lambda rng, source, family: one)
    with pytest.raises(ValueError, match='only 1 different xla programs'):
        programs.draw_programs('xla', 'train', 2, 0)


def test_blocks_repeat():
    program = programs.draw_programs('xla', 'train', 1, 0)[0]
    features = dataset.Programs().compiled(program).graph['node_feat']
    assert len(np.unique(features, axis=0)) < 0.5 * len(features)


# Files.

SIZES = dict(train=2, valid=1, test=1, configs_min=20, configs_max=60, rules='roofline')


@pytest.fixture(scope='module')
def written(tmp_path_factory):
    root = str(tmp_path_factory.mktemp('data') / 'layout')
    words = dataset.Programs(**SIZES).write(root)
    return root, words


def records_of(root):
    found = {}
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            if name.endswith('.npz'):
                key = os.path.relpath(os.path.join(folder, name), root)
                found[key] = layout_records.read_layout(os.path.join(folder, name))
    return found


@pytest.fixture(scope='module')
def found(written):
    return records_of(written[0])


def test_files_are_valid_records(written, found):
    _, words = written
    assert len(found) == 2 * 2 * 4
    for record in found.values():
        assert 200 <= record.num_nodes <= 8000
        assert record.node_feat.shape == (record.num_nodes, 140)
        edges = record.edge_index
        assert (edges[:, 0] > edges[:, 1]).all()  # producers come first
        assert (np.diff(edges[:, 0].astype(np.int64) * 10**6 + edges[:, 1]) > 0).all()
        # Convolutions, dots and reshapes, all of them: 26, 34, 75.
        wanted = np.flatnonzero(np.isin(record.node_opcode, (26, 34, 75)))
        assert record.node_config_ids.tolist() == wanted.tolist()
        assert (record.node_opcode > 0).all()
        assert 20 <= record.num_configs <= 60
        assert (record.config_runtime > 0).all()
    here = os.path.join('xla', 'random')
    counts = [r.num_configs for key, r in found.items() if key.startswith(here)]
    [line] = [line for line in words.splitlines() if line.startswith('xla:random ')]
    assert ' 4 programs, ' in line and f' {sum(counts)} configurations ' in line


def test_configurations_are_layouts(found):
    for record in found.values():
        values = record.node_config_feat.reshape(record.num_configs, -1, 3, 6)
        written = values >= 0
        # Values first, then -1.
        assert (written[..., :-1] >= written[..., 1:]).all()
        convolution = record.node_opcode[record.node_config_ids] == 26
        dims = record.node_feat[record.node_config_ids, 21:27]
        rank = (dims > 0).sum(axis=1)
        output = written[:, :, 0].sum(axis=2)
        assert (output == np.where(convolution, 2, rank)).all()
        for position in np.ndindex(values.shape[:2]):
            for layout in values[position]:
                layout = layout[layout >= 0].tolist()
                assert len(set(layout)) == len(layout)
        reshape = record.node_opcode[record.node_config_ids] == 75
        assert (values[:, reshape, 2] == -1).all()


def test_splits_and_collections_hold_the_same_programs(found):
    names = {}
    for key in found:
        source, searched, split, name = key.split(os.sep)
        names.setdefault((source, split), {}).setdefault(searched, set()).add(name)
    for searched in names.values():
        assert searched['random'] == searched['default']
    for source in ('xla', 'nlp'):
        parts = [names[source, split]['random'] for split in programs.SPLITS]
        assert sum(map(len, parts)) == len(set().union(*parts))


def test_the_same_seed_gives_the_same_files(found, tmp_path):
    other = str(tmp_path / 'again')
    wanted = dataset.Programs(**{**SIZES, 'train': 1}, hide_test_runtimes=True)
    wanted.write(other)
    again = records_of(other)
    assert len(again) == 2 * 2 * 3
    for key, record in again.items():
        for field in ('node_feat', 'edge_index', 'node_config_feat', 'node_splits'):
            np.testing.assert_array_equal(
                getattr(found[key], field), getattr(record, field), err_msg=key
            )
        hidden = f'{os.sep}test{os.sep}' in key
        expected = 0 if hidden else found[key].config_runtime
        np.testing.assert_array_equal(record.config_runtime, expected)


def test_duplicates_are_measured_anew_with_noise_below_one_percent(found):
    key = next(
        k
        for k in found
        if k.startswith(os.path.join('xla', 'random', 'train', 'sim_recurrent'))
    )
    record = found[key]
    rows, which = np.unique(
        record.node_config_feat.reshape(record.num_configs, -1),
        axis=0,
        return_inverse=True,
    )
    assert len(rows) < 0.1 * record.num_configs
    for group in range(len(rows)):
        times = record.config_runtime[which.ravel() == group]
        if len(times) > 2:
            assert 0 < times.std() / times.mean() < 0.01


def random_record(program, count):
    wanted = dataset.Programs(configs_min=count, configs_max=count, rules='roofline')
    return wanted.record(wanted.compiled(program), 'random')


def test_layouts_matter_by_percents():
    for source in programs.SOURCES:
        for program in programs.draw_programs(source, 'valid', 2, 0):
            times = random_record(program, 100).config_runtime
            assert 1.05 < times.max() / times.min() < 5


def test_runtimes_hang_on_the_graph_and_not_on_a_count():
    record = random_record(programs.draw_programs('nlp', 'valid', 1, 0)[0], 1000)
    changed = (record.node_config_feat != record.node_config_feat[0]).sum((1, 2))
    related = np.corrcoef(changed, record.config_runtime)[0, 1]
    assert abs(related) < 0.3


@pytest.mark.parametrize(
    'sizes, message',
    [
        (dict(configs_min=1), 'configs_min is 1'),
        (dict(configs_min=9, configs_max=8), 'configs_max 8'),
        (dict(configs_max=100001), 'configs_max 100001'),
    ],
)
def test_sizes_that_make_no_sense(sizes, message):
    with pytest.raises(ValueError, match=message):
        dataset.Programs(**sizes)


def test_the_command_writes_the_four_collections(tmp_path, capsys):
    root = str(tmp_path / 'made')
    sizes = '--train 1 --valid 0 --test 0 --configs_min 5 --configs_max 5'
    words = ('--collection', 'layout', '--output', root, *sizes.split())
    assert processes.command('sample', *words) == 0
    assert {key.rsplit(os.sep, 1)[0] for key in records_of(root)} == {
        os.path.join(source, searched, 'train')
        for source in ('xla', 'nlp')
        for searched in ('random', 'default')
    }
    assert 'SIMULATED' in capsys.readouterr().out


@pytest.mark.parametrize(
    'args, option',
    [
        ('--collection layout --configs_mean 50', '--configs_mean'),
        ('--configs_min 50', '--configs_min'),
    ],
)
def test_options_of_the_other_collection_are_refused(args, option, tmp_path, capsys):
    words = (*args.split(), '--output', tmp_path / 'made')
    assert processes.command('sample', *words) == 1
    assert f'{option} is no option of' in capsys.readouterr().err
    assert os.listdir(str(tmp_path)) == []
