"""The published extractor's own output, for two real files and two from TF."""

import json
import pathlib

import numpy as np
import pytest

from baselines.hlo import graph
from baselines.hlo import layout_configs
from baselines.hlo import reading
from baselines.hlo import schema
from baselines.hlo import tile_configs
from tests.helpers import hlo_modules

_SHARED = hlo_modules.SHARED
pytestmark = pytest.mark.skipif(not _SHARED.is_dir(), reason=hlo_modules.NO_SHARED)


def _same(got, golden):
    assert got.dtype == golden.dtype
    np.testing.assert_array_equal(got, golden)


def _check_graph(module, golden):
    found = graph.extract_graph(module)
    for key in ('node_feat', 'node_opcode', 'edge_index', 'node_splits'):
        _same(getattr(found, key), golden[key])
    _same(found.edge_index, np.unique(golden['edge_index_raw'], axis=0))
    user = found.edge_index[:, ::-1]
    user = user[np.lexsort((user[:, 1], user[:, 0]))]
    _same(user, golden['user_edge_index'])
    assert not found.warnings


@pytest.mark.parametrize(
    'raw, arrays',
    [
        ('module_tuning_data_layout.pb', 'real_layout.npz'),
        ('tf_conv_bn_relu_hlo.pb', 'tf_conv_bn_relu_hlo.npz'),
        ('tf_conv_bn_relu_opt.pb', 'tf_conv_bn_relu_opt.npz'),
    ],
)
def test_layout_files_match(raw, arrays):
    file = reading.read_tuning(str(_SHARED / raw))
    assert file.kind == 'layout'
    with np.load(_SHARED / arrays) as golden:
        _check_graph(file.modules[0].module, golden)
        configs = layout_configs.extract_configs(
            file.modules[0], len(golden['node_opcode'])
        )
        for key in ('node_config_ids', 'node_config_feat', 'config_runtime'):
            _same(getattr(configs, key), golden[key])
        assert (golden['config_runtime_normalizers'] == configs.normalizer).all()


def test_tile_file_matches():
    file = reading.read_tuning(str(_SHARED / 'op_tuning_data.pb'))
    assert file.kind == 'tile'
    goldens = sorted(pathlib.Path(_SHARED / 'op_tuning').glob('*.npz'))
    assert len(file.modules) == len(goldens) == 15
    for tuning, path in zip(file.modules, goldens):
        with np.load(path) as golden:
            _check_graph(tuning.module, golden)
            configs = tile_configs.extract_configs(tuning)
            _same(configs.config_feat, golden['config_feat'])
            _same(configs.config_runtime, golden['config_runtime'])
            assert (golden['config_runtime_normalizers'] == configs.normalizer).all()
            assert np.int64(np.uint64(tuning.fingerprint)) == golden['module_id']


def test_opcode_table_matches():
    golden = json.loads((_SHARED / 'opcodes.json').read_text())
    assert schema.OPCODE_NUMBERS == golden
