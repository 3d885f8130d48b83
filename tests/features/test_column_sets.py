"""Column sets by name, and the machine whose tiles they describe."""

import pytest

from baselines.core import old_columns
from baselines.core import registry
from baselines.features import column_sets
from baselines.features import tree_table
from baselines.runs import run_files
from tests.helpers import hlo_kernels
from tests.helpers import refusals
from tests.helpers import tile_records
import tpugraphs


def test_sets_are_found_by_name_in_one_order():
    assert list(column_sets.find()) == ['tile', 'loop', 'release', 'estimate']
    assert list(column_sets.find(['estimate', 'tile'])) == ['tile', 'estimate']
    assert list(column_sets.find(registry.column_sets('cpu'))) == ['loop', 'release']
    assert {*registry.column_sets('tpu')} == {'tile', 'estimate'}
    counts = [len(columns.names) for columns in column_sets.find().values()]
    assert counts == [35, 118, 1, 7]
    message = "no column set 'loops'; did you mean 'loop'? There are: estimate, loop"
    refusals.assert_refused(lambda: column_sets.find(['loops']), message)


def test_bounds_in_elements_are_those_of_a_cpu():
    whole = hlo_kernels.configs(([60, 100], []))
    store = hlo_kernels.store(hlo_kernels.addition([60, 100], whole))
    assert column_sets.machine_of(store) == 'cpu'
    names = tree_table.TreeTable(store).names
    assert names[0] == column_sets.find()['loop'].names[0]
    assert names[-1] == 'release_thunks'  # no columns of nodes behind them
    registers = hlo_kernels.configs(([8, 1], []))
    store = hlo_kernels.store(hlo_kernels.addition([60, 100], registers))
    assert column_sets.machine_of(store) == 'tpu'
    few = hlo_kernels.store(*tile_records.make_records(2, node_features=9))
    assert column_sets.machine_of(few) == 'tpu'


def test_only_some_sets_and_columns_read_extra_columns():
    assert column_sets.read_extra(['tile', 'loop'])
    assert column_sets.read_extra(['exact_cost_time'])
    assert not column_sets.read_extra(['tile', 'release', 'estimate', 'log_time'])


@pytest.mark.parametrize(
    'old, columns',
    [
        ({'tile_columns': True, 'estimate': True}, 'tile,estimate'),
        ({'loop_columns': True, 'exact_columns': True}, 'loop'),
        ({'release_columns': True, 'columns': 'tile'}, 'tile,release'),
        ({'tile_columns': False, 'exact_columns': True}, ''),
    ],
)
def test_settings_of_earlier_versions_are_translated(old, columns):
    found = old_columns.translate({**old, 'lr': 1.0}, is_tile=True)
    assert found == {'lr': 1.0, 'columns': columns}


def test_a_run_file_of_an_earlier_version_is_translated():
    args = {'model': 'MLP', 'tile_columns': True, 'estimate': False}
    run = run_files.RunFile('model_0', {'args': args})
    assert run.args == {'model': 'MLP', 'columns': 'tile'}
    message = '--loop_columns is now --columns=loop'
    refusals.assert_refused(lambda: tpugraphs.train(loop_columns=True), message)


def test_other_settings_stay():
    for settings, is_tile in (({'estimate': True}, False), ({'lr': 1.0}, True)):
        assert old_columns.translate(settings, is_tile) == settings
