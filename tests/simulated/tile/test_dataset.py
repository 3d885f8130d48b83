"""Simulated kernels, folders of them, and the command that writes them."""

import dataclasses
import json
import os

import numpy as np
import pytest

from baselines.data.tile import records
from baselines.simulated import folders
from baselines.simulated.hlo import Fusion, tensor
from baselines.simulated.tile import dataset
from baselines.simulated.tile import tiles
from baselines.simulated.tile.programs import programs
from baselines.simulated.tile.workload import Workload
from tests.helpers import processes

SMALL = dataset.Kernels(train=3, valid=2, test=2, configs_mean=40.0)


@pytest.fixture(scope='module')
def kernels():
    simulator = dataset.Kernels(configs_mean=200)
    return [simulator.kernel('train', i).record for i in range(120)]


def assert_same(a, b):
    for field in dataclasses.fields(records.TileRecord):
        np.testing.assert_array_equal(getattr(a, field.name), getattr(b, field.name))


def names(folder):
    return sorted(os.listdir(folder))


class TestKernels:
    def test_arrays_have_the_published_shapes_and_types(self, kernels):
        for k in kernels:
            n, c = k.num_nodes, k.num_configs
            assert k.node_feat.shape == (n, 140) and k.node_feat.dtype == np.float32
            assert k.node_opcode.shape == (n,) and k.node_opcode.dtype == np.int32
            assert k.edge_index.shape[1] == 2 and k.edge_index.dtype == np.int32
            assert k.config_feat.shape == (c, 24) and k.config_feat.dtype == np.float32
            assert k.config_runtime.shape == k.config_runtime_normalizers.shape == (c,)
            assert k.config_runtime.dtype == np.int64

    def test_values(self, kernels):
        for k in kernels:
            assert 2 <= k.num_nodes <= 100
            assert 10 <= k.num_configs <= 692  # 3.46 x 200
            assert np.isfinite(k.node_feat).all() and np.isfinite(k.config_feat).all()
            assert 1 <= k.node_opcode.min() and k.node_opcode.max() <= 120
            assert k.config_runtime.min() >= 2
            # One configuration of the kernel is the default.
            default = np.unique(k.config_runtime_normalizers)
            assert len(default) == 1 and default[0] in k.config_runtime
            assert len(np.unique(k.config_feat, axis=0)) == k.num_configs

    def test_edges_are_sorted_and_producers_come_first(self, kernels):
        for k in kernels:
            rows = [tuple(edge) for edge in k.edge_index.tolist()]
            assert rows == sorted(set(rows))
            assert all(producer < consumer for consumer, producer in rows)
            # Everything is used, but the entry's root.
            assert {p for _, p in rows} == set(range(k.num_nodes - 1))

    def test_all_kinds_and_element_types_occur(self, kernels):
        opcodes = np.unique(np.concatenate([k.node_opcode for k in kernels]))
        # convolution, copy, reduce, transpose, concatenate, exponential, pad.
        assert {26, 27, 70, 98, 22, 37, 62} <= set(opcodes.tolist())
        types = np.concatenate([k.node_feat[:, 2:21] for k in kernels]).sum(axis=0)
        assert all(types[column - 2] for column in (3, 6, 13, 15))  # pred s32 f32 bf16

    def test_a_kernel_depends_on_seed_split_and_index_alone(self):
        def make(split='train', index=7, seed=0):
            simulator = dataset.Kernels(seed=seed, configs_mean=40)
            return simulator.kernel(split, index).record

        assert_same(make(), make())
        others = (make(index=8), make(seed=1), make(split='valid'))
        assert len({make().graph_id, *(k.graph_id for k in others)}) == 4

    def test_arrays_change_only_with_the_version(self):
        # The name holds a digest of graph and configurations.  If this fails,
        # raise the version, so that users' data are made anew.
        simulator = dataset.Kernels()
        found = [simulator.kernel('train', i).record.graph_id for i in (0, 11)]
        assert simulator.version == 1
        assert found == [
            'sim_convnet_18_batch_32_5f3a13cbf703dc79',
            'sim_transformer_tiny_bf16_6ba0adc548ad6e29',
        ]


class TestDifficulty:
    """Over the 15 real kernels median / best is 1.3-2.7, worst / best 2-29."""

    def test_spread_of_runtimes(self, kernels):
        median, worst = np.transpose(
            [
                (np.median(k.config_runtime), k.config_runtime.max())
                / k.config_runtime.min()
                for k in kernels
            ]
        )
        assert 1.3 <= np.median(median) <= 2.7
        assert 2 <= np.median(worst) <= 29
        assert np.mean((worst >= 2) & (worst <= 30)) > 0.6

    def test_size_of_graphs(self, kernels):
        assert 30 <= np.mean([k.num_nodes for k in kernels]) <= 50

    @pytest.mark.slow
    def test_configurations_per_kernel(self):
        made = [dataset.Kernels().kernel('valid', i).record for i in range(100)]
        counts = [record.num_configs for record in made]
        assert 430 <= np.mean(counts) <= 730
        assert min(counts) >= 10 and max(counts) <= 2000

    def test_noise_is_one_percent(self):
        simulator = dataset.Kernels()
        kernel = simulator.draw_kernel(programs()[0], np.random.default_rng(3))
        workload = simulator.work(kernel)
        chosen = np.repeat([kernel.space.sizes], 4000, axis=0)
        runtimes, _ = simulator.measure(workload, chosen, np.random.default_rng(0))
        exact = workload.runtime_ns(chosen[:1])[0]
        assert np.mean(runtimes) == pytest.approx(exact, rel=0.002)
        assert np.std(runtimes / exact) == pytest.approx(0.01, rel=0.1)
        assert np.abs(runtimes / exact - 1).max() < 0.031

    def test_the_best_tile_depends_on_the_graph(self):
        def best(operands, opcode):
            shape = tensor('f32', (64, 64, 1024))
            fusion = Fusion()
            x = fusion.parameter(shape)
            for _ in range(operands - 1):
                x = x.op(opcode, fusion.parameter(shape))
            space = tiles.space_of(shape)
            workload = Workload(fusion.finish(), space)
            drawn = tiles.candidates(space, np.random.default_rng(0), 400)
            return drawn[workload.runtime_ns(drawn).argmin()].prod()

        # More operands fit only in smaller tiles.
        assert best(8, 'add') < best(2, 'add')


class TestPrograms:
    def test_names_say_that_they_are_simulated_and_are_distinct(self):
        found = [p.name for p in programs()]
        assert all(name.startswith('sim_') for name in found)
        assert len(set(found)) == len(found) >= 20

    def test_no_split_shares_a_program(self):
        seen, simulator = {}, dataset.Kernels()
        for split in ('train', 'valid', 'test'):
            for index in range(12):
                seen.setdefault(simulator.program(split, index).name, set()).add(split)
        assert all(len(splits) == 1 for splits in seen.values())
        assert len(seen) == 12 + 2 * 6


class TestDataset:
    def test_writes_the_published_layout(self, tmp_path):
        root = tmp_path / 'a' / 'xla'
        words = SMALL.write(str(root))
        assert names(root) == ['README.txt', 'sample.json', 'test', 'train', 'valid']
        assert 'SIMULATED' in (root / 'README.txt').read_text()
        configs = 0
        for split, count in (('train', 3), ('valid', 2), ('test', 2)):
            files = names(root / split)
            assert len(files) == count
            for index in range(count):
                made = SMALL.kernel(split, index).record
                stored = records.read_tile(str(root / split / f'{made.graph_id}.npz'))
                assert_same(made, stored)
                configs += made.num_configs
        assert f'\n7 kernels, {configs} configurations ' in words
        assert names(tmp_path / 'a') == ['xla']

    def test_hides_test_runtimes_on_request(self, tmp_path):
        hidden = dataclasses.replace(SMALL, hide_test_runtimes=True)
        hidden.write(str(tmp_path))
        for split, known in (('train', True), ('valid', True), ('test', False)):
            for name in names(tmp_path / split):
                kernel = records.read_tile(str(tmp_path / split / name))
                assert kernel.config_runtime.all() == known
                assert kernel.config_runtime.any() == known
                assert (kernel.config_runtime_normalizers == 1).all() != known
        assert 'runtimes of test files are 0' in (tmp_path / 'README.txt').read_text()

    def test_layout_data_are_not_replaced_by_tile_data(self, tmp_path):
        class Other(dataset.Kernels):
            collection, about, document = 'layout', 'Invented.', 'docs/x.md'

        Other(1, 0, 0, configs_mean=20).write(str(tmp_path / 's'))
        with pytest.raises(ValueError, match='holds no simulated tile data'):
            SMALL.write(str(tmp_path / 's'))
        readme = (tmp_path / 's' / 'README.txt').read_text()
        for words in ('SIMULATED', 'Invented.', 'docs/x.md', 'sample.json'):
            assert words in readme

    def test_refuses_a_folder_with_other_things(self, tmp_path):
        (tmp_path / 'thesis.tex').write_text('')
        with pytest.raises(
            ValueError, match='not empty and holds no simulated tile data'
        ):
            SMALL.write(str(tmp_path))
        with pytest.raises(ValueError, match='is a file; name a folder'):
            SMALL.write(str(tmp_path / 'thesis.tex'))
        assert names(tmp_path) == ['thesis.tex']

    @pytest.mark.parametrize(
        'change, message',
        [
            (dict(train=-1), 'train is -1: use 0 or more'),
            (dict(train=0, valid=0, test=0), 'no graphs asked for'),
            (dict(configs_mean=5.0), 'configs_mean is 5: use a number from 20'),
        ],
    )
    def test_refuses_senseless_sizes(self, tmp_path, change, message):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(SMALL, **change)
        assert not names(tmp_path)

    def test_an_interrupted_run_leaves_nothing(self, tmp_path, monkeypatch):
        write = records.TileRecord.write

        def interrupted(record, path):
            if os.listdir(os.path.dirname(path)):
                raise KeyboardInterrupt
            write(record, path)

        SMALL.write(str(tmp_path / 'x'))
        before = names(tmp_path / 'x' / 'train')
        monkeypatch.setattr(records.TileRecord, 'write', interrupted)
        other = dataclasses.replace(SMALL, seed=5)
        with pytest.raises(KeyboardInterrupt):
            other.write(str(tmp_path / 'x'))
        assert names(tmp_path) == ['x'] and names(tmp_path / 'x' / 'train') == before

    def test_removes_what_a_killed_run_left(self, tmp_path):
        for name in ('.x.abcd1234', '.x.mine', '.y.abcd1234'):
            (tmp_path / name).mkdir()
        SMALL.write(str(tmp_path / 'x'))
        assert names(tmp_path) == ['.x.mine', '.y.abcd1234', 'x']


class TestEnsure:
    WANTED = dataset.Kernels(train=2, valid=1, test=1, configs_mean=40.0)

    def test_makes_it_once(self, tmp_path):
        root = self.WANTED.ensure(str(tmp_path / 'x'))
        assert root == str(tmp_path / 'x')
        inode = os.stat(root).st_ino
        self.WANTED.ensure(root)
        assert os.stat(root).st_ino == inode

    def test_makes_it_anew_for_other_sizes_or_another_version(self, tmp_path):
        root = self.WANTED.ensure(str(tmp_path / 'x'))
        more = dataclasses.replace(self.WANTED, train=3)
        more.ensure(root)
        assert len(names(tmp_path / 'x' / 'train')) == 3
        marker = tmp_path / 'x' / 'sample.json'
        old = json.loads(marker.read_text())
        marker.write_text(json.dumps({**old, 'generator_version': -1}))
        more.ensure(root)
        assert json.loads(marker.read_text()) == old

    def test_the_default_folder_is_in_the_home(self, tmp_path, monkeypatch):
        monkeypatch.setenv('HOME', str(tmp_path))
        root = self.WANTED.ensure()
        assert root == str(tmp_path / 'data/tpugraphs/sample/npz/tile/xla')
        assert names(root) == ['README.txt', 'sample.json', 'test', 'train', 'valid']

    def test_two_processes_at_once(self, tmp_path, monkeypatch):
        # The other one finishes between our look and our rename.
        root = str(tmp_path / 'x')
        rename = os.rename
        wanted = dataclasses.replace(self.WANTED, train=1)

        def slow(source, target):
            if target == root and not os.path.exists(root):
                monkeypatch.setattr(os, 'rename', rename)
                wanted.ensure(root)
            rename(source, target)

        monkeypatch.setattr(os, 'rename', slow)
        wanted.ensure(root)
        assert names(tmp_path) == ['x'] and len(names(tmp_path / 'x' / 'train')) == 1


class TestCommand:
    def test_writes_and_sums_up(self, tmp_path, capsys):
        sizes = '--train 2 --valid 1 --test 1 --configs_mean 40 --hide_test_runtimes'
        assert processes.command('sample', '--output', tmp_path, *sizes.split()) == 0
        out = capsys.readouterr().out
        assert out.startswith(f'SIMULATED data (no measurements) in {tmp_path}: ')
        assert 'train 2, valid 1, test 1 kernels\n4 kernels, ' in out
        assert 'median / best ' in out and 'worst / best ' in out
        assert folders.read_marker(str(tmp_path))['parameters']['hide_test_runtimes']

    def test_refuses_in_one_line(self, tmp_path, capsys):
        (tmp_path / 'notes').write_text('')
        assert processes.command('sample', '--output', tmp_path) == 1
        err = capsys.readouterr().err
        assert err.startswith(f'error: {tmp_path} is not empty')
        assert err.count('\n') == 1
