"""Simulated kernels as protobufs: extraction gives the simulator's own arrays."""

import numpy as np
import pytest

from baselines.hlo import reading
from baselines.hlo import tile
from baselines.simulated import raw
from baselines.simulated.tile import dataset
from tests.helpers import places
from tests.helpers import processes


@pytest.mark.parametrize('index', range(0, 40, 3))
def test_what_is_extracted_is_what_was_simulated(index):
    made = dataset.Kernels(configs_mean=20).kernel('valid', index)
    tuning, record = raw.tuning_of(*made), made.record
    configs = tile.extract_configs(tuning)
    np.testing.assert_array_equal(configs.config_feat, record.config_feat)
    np.testing.assert_array_equal(configs.config_runtime, record.config_runtime)
    assert configs.normalizer == record.config_runtime_normalizers[0]


def test_the_example_is_what_its_command_writes(tmp_path, capsys):
    path = tmp_path / 'kernels.pb'
    words = ('--raw', path, '--test', 4, '--configs_mean', 40)
    assert processes.command('sample', *words) == 0
    size = path.stat().st_size
    assert (
        capsys.readouterr().out == f'SIMULATED kernels in {path}: 4, {size:,} bytes\n'
    )
    assert size < 100_000
    example = places.ROOT / 'examples' / 'kernels.pb'
    assert path.read_bytes() == example.read_bytes()
    assert reading.read_tuning(str(example)).kind == 'tile'


def test_other_collections_have_no_raw_file(tmp_path, capsys):
    words = ('--raw', tmp_path / 'x.pb', '--collection', 'layout')
    assert processes.command('sample', *words) == 1
    assert '--raw is for --collection tile' in capsys.readouterr().err
