"""The second simulator: reproducible, published layout, other than the first."""

import numpy as np
import pytest

from baselines.data.tile import records
from baselines.simulated.tile import dataset as first
from baselines.simulated.tile.kernels import Draft
from baselines.simulated.tile_other import dataset
from baselines.simulated.tile_other import kernels
from baselines.simulated.tile_other import machine
from baselines.simulated.tile_other import programs


def test_arrays_change_only_with_the_version():
    simulator = dataset.Kernels()
    found = [simulator.kernel('train', i).record.graph_id for i in (0, 4)]
    assert simulator.version == 1
    assert found == [
        'sim_other_encoder_train_0_91cb52d8b4e45124',
        'sim_other_vision_train_4_6554d06402239229',
    ]


def test_another_seed_is_another_machine_and_other_programs():
    assert machine.draw_machine(0) == machine.draw_machine(0)
    assert machine.draw_machine(0) != machine.draw_machine(1)
    assert programs.program('train', 3, 0) == programs.program('train', 33, 0)
    assert programs.program('train', 3, 0) != programs.program('train', 3, 1)


def test_splits_share_no_program_with_each_other_or_the_first_simulator():
    names = [
        {programs.program(split, i, 0).name for i in range(60)}
        for split in programs.SPLITS
    ]
    assert [len(found) for found in names] == [30, 8, 10]
    assert len(set.union(*names)) == 48
    assert all(name.startswith('sim_other_') for name in set.union(*names))


@pytest.mark.parametrize('kind', sorted(kernels.KINDS))
def test_every_kind_makes_a_kernel_with_positive_times(kind):
    rng = np.random.default_rng(0)
    family = {'convolve': 1, 'pool': 1}.get(kind, 0)
    program = programs.program('train', family, 0)
    kernel = kernels.KINDS[kind](Draft(program, rng), 12)
    job = dataset.Kernels().work(kernel)
    sizes = np.array([kernel.space.sizes])
    once, twice = job.vector_memory(sizes)
    assert 0 < once <= twice
    assert np.isfinite(job.runtime_ns(sizes)) and job.runtime_ns(sizes) > 0


def test_writes_the_published_layout(tmp_path):
    wanted = dataset.Kernels(train=3, valid=1, test=2, configs_mean=20)
    words = wanted.write(str(tmp_path / 'o'))
    assert '\n6 kernels, ' in words
    names = sorted(path.name for path in (tmp_path / 'o' / 'train').iterdir())
    assert len(names) == 3
    record = records.read_tile(str(tmp_path / 'o' / 'train' / names[0]))
    assert record.config_feat.shape[1] == 24 and record.num_configs >= 10
    assert 'SIMULATED' in (tmp_path / 'o' / 'README.txt').read_text()
    # Neither simulator's folder is taken for the other's.
    with pytest.raises(ValueError, match='holds no simulated tile data'):
        first.Kernels().write(str(tmp_path / 'o'))


def test_it_ranks_otherwise_than_the_first_one_on_the_same_kernel():
    # One kernel of the first simulator, timed by both.
    rng, simulator = np.random.default_rng(0), first.Kernels(configs_mean=200)
    kernel = simulator.draw_kernel(simulator.program('train', 0), rng)
    workload = simulator.work(kernel)
    tiles = simulator.draw_tiles(workload, rng)
    one = workload.runtime_ns(tiles)
    other = dataset.Kernels().work(kernel).runtime_ns(tiles)
    tau = np.corrcoef(np.argsort(np.argsort(one)), np.argsort(np.argsort(other)))[0, 1]
    assert 0.2 < tau < 0.98
