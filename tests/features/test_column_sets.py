"""Column sets by name, and the machine whose tiles they describe."""

from importlib import metadata
import sys
import types

import numpy as np
import pytest

from baselines import config
from baselines.core import extensions
from baselines.core import registry
from baselines.features import column_sets
from baselines.features import tree_table
from tests.helpers import hlo_kernels
from tests.helpers import tile_records


class _OfCpu(column_sets.ColumnSet):
    """The number of a configuration's kernel, as a set of another distribution."""

    position = 9
    names = ('other_kernel',)
    reads_extra = True

    def __init__(self, nodes):
        pass

    def __call__(self, kernels, configs):
        return kernels[:, np.newaxis]


@pytest.fixture(name='other')
def _other(monkeypatch):
    """Registers a column set of another distribution."""
    module = types.ModuleType('other_columns')
    module.Columns = _OfCpu
    monkeypatch.setitem(sys.modules, 'other_columns', module)
    point = metadata.EntryPoint('cpu.other', 'other_columns', extensions.COLUMNS)
    monkeypatch.setattr(extensions, 'find', lambda group: {point.name: point})


def test_sets_are_found_by_name_in_one_order():
    assert list(column_sets.find()) == ['tile', 'estimate']
    assert list(column_sets.find(['estimate', 'tile'])) == ['tile', 'estimate']
    assert {*registry.find_column_sets('tpu')} == {'tile', 'estimate'}
    assert not registry.find_column_sets('cpu')
    counts = [len(columns.names) for columns in column_sets.find().values()]
    assert counts == [35, 7]
    with pytest.raises(ValueError, match="'loop'.*pip install ./lab$"):
        config.check_config(config.TileConfig(columns='loop'))


def test_sets_of_other_distributions(other):
    assert registry.find_column_sets('cpu') == {'other': 'other_columns'}
    assert list(column_sets.find()) == ['tile', 'estimate', 'other']
    with pytest.raises(ValueError, match="'loop'; .* other, tile$"):
        column_sets.find(['loop'])
    assert column_sets.read_extra(['tile', 'other'])
    assert column_sets.read_extra(['other_kernel'])
    assert not column_sets.read_extra(['tile', 'estimate', 'log_time'])


def test_bounds_in_elements_are_those_of_a_cpu():
    whole = hlo_kernels.configs(([60, 100], []))
    store = hlo_kernels.store(hlo_kernels.addition([60, 100], whole))
    assert column_sets.detect_machine(store) == 'cpu'
    names = tree_table.TreeTable(store).names
    # Raw columns, the set `tile`, and those of kernels.
    assert names[0] == 'config_kernel_bounds_0' and names[-1] == 'nodes'
    assert 'log_tile_lanes' in names and 'log_time' not in names
    registers = hlo_kernels.configs(([8, 1], []))
    store = hlo_kernels.store(hlo_kernels.addition([60, 100], registers))
    assert column_sets.detect_machine(store) == 'tpu'
    few = hlo_kernels.store(*tile_records.make_records(2, node_features=9))
    assert column_sets.detect_machine(few) == 'tpu'


def test_trees_of_a_cpu_see_the_sets_for_it_alone(other):
    whole = hlo_kernels.configs(([60, 100], []))
    store = hlo_kernels.store(hlo_kernels.addition([60, 100], whole))
    assert tree_table.TreeTable(store).names == ['other_kernel']
