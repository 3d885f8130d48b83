"""Kernels of programs without configurations: shown, and given candidates."""

import collections
import dataclasses

import pytest

from baselines.hlo import protos
from lab.tests.helpers import measured_programs
from lab.tests.helpers import program_forms
from tpugraphs_lab import kernel_table
from tpugraphs_lab.kernels import proposals
from tpugraphs_lab.kernels import tpu_tiles
from tpugraphs_lab.programs import reader


def _tunings(module, count=200, kind='tile'):
    skipped = collections.Counter()
    program = reader.read_program(module, name='mine')
    return list(proposals.tunings(program, kind, count, 0, skipped, _fail)), skipped


def _fail(unused_module):
    raise AssertionError('compiled')


def _bounds(tuning):
    sizes = [run.op_config.tile_size_config for run in tuning.runs]
    return [(*s.output_bounds, *s.kernel_bounds) for s in sizes]


def test_xlas_own_tiles_are_read():
    [fusion] = program_forms.fused().computations[-1].instructions[-1:]
    assert tpu_tiles.own_tiles(fusion) == tpu_tiles.OwnTiles(
        output=[8, 1], kernel=[16, 1], input=[], cycles=3874, microseconds=2.5
    )


@pytest.mark.parametrize(
    'config',
    [
        '', '{', '[]', '1', '{"window_config": []}', '{"window_config": {}}',
        '{"window_config": {"output_window_bounds": ["x"]}}',
        '{"window_config": {"output_window_bounds": 3}}', '[' * 100_000,
    ],
)  # fmt: skip
def test_what_else_stands_there_is_passed_over(config):
    [fusion] = program_forms.fused(config).computations[-1].instructions[-1:]
    assert tpu_tiles.own_tiles(fusion) is None


def test_candidates_are_around_xlas_own_tiles_in_registers():
    [tuning], _ = _tunings(program_forms.fused(), count=20)
    bounds = _bounds(tuning)
    assert len(set(bounds)) == len(bounds) == 20
    # XLA's own is the default.  64 x 96 elements are 8 x 1 registers of 8 x 128.
    assert bounds[0] == (8, 1, 16, 1)
    assert [run.is_default for run in tuning.runs] == [True] + [False] * 19
    highest = [max(column) for column in zip(*bounds)]
    assert highest == [8, 1, 16, 1]
    # Of few all are taken: 1, 2, 4, 8 of the output, 1, 2, 4, 8, 16 of the kernel.
    [tuning], _ = _tunings(program_forms.fused())
    assert len(tuning.runs) == 4 * 5
    # The kernel is the fusion with what it calls.
    opcodes = [i.opcode for c in tuning.module.computations for i in c.instructions]
    assert sorted(opcodes) == ['dot', 'fusion', *['parameter'] * 4, 'tanh']


def test_a_fusion_without_tiles_is_cut_as_it_is():
    """No jaxlib is needed: the fusion's tanh and dot are one kernel."""
    [tuning], skipped = _tunings(program_forms.fused(''), count=10)
    assert len(tuning.runs) == 10 and not skipped
    assert _bounds(tuning)[0] == (64, 96, 128)  # untiled


def test_layouts_are_those_of_the_whole_program():
    [tuning], _ = _tunings(measured_programs.product(), count=5, kind='layout')
    assert list(tuning.config_index_to_node) == [2, 3]
    assert len(tuning.runs) == 5 and tuning.runs[0].is_default


def _lines(program):
    return kernel_table.lines(kernel_table.describe(reader.read_program(program)))


def _as_it_stands(monkeypatch):
    def optimise(module, seconds):
        raise ValueError(f'took over {seconds} s')

    monkeypatch.setattr(kernel_table.measure, 'optimise', optimise, raising=False)


def test_the_table_of_an_optimised_module():
    lines = _lines(program_forms.fused())
    head = "kernel times shape multiply-adds share XLA's own tiles"
    assert lines[-2].split() == head.split()
    row = 'f32[64,96] 786,432 100.0 % output 8x1, kernel 16x1, 3,874 cycles, 2.5 us'
    assert ' '.join(lines[-1].split()).endswith(row)


def test_of_unknown_sizes_there_is_no_table():
    module = measured_programs.pointwise(-(2**63), 8)
    *_, result, kernels = _lines(module)
    assert result.endswith('f32[?,8]')
    assert kernels.endswith('unknown: sizes are not fixed')


def test_collectives_are_named_and_the_other_kernels_cut():
    module = protos.HloModuleProto()
    module.CopyFrom(program_forms.fused(''))
    exchange = module.computations[-1].instructions.add()
    exchange.CopyFrom(module.computations[-1].instructions[-2])
    exchange.opcode, exchange.id, exchange.name = 'all-reduce', 99, 'r'
    exchange.operand_ids[:] = [module.computations[-1].root_id]
    del exchange.called_computation_ids[:]
    module.computations[-1].root_id = 99
    program = reader.read_program(module, name='mine')
    assert '  cut out         1 all-reduce' in _lines(program)
    _, skipped = _tunings(module)  # it has a fusion, so it is not compiled
    assert not skipped  # what was cut out is said once


def test_a_damaged_product_is_said_in_one_line():
    module = program_forms.fused()
    del module.computations[0].instructions[-1].operand_ids[:]
    with pytest.raises(ValueError, match='an instruction lacks a field of its opcode'):
        _lines(module)


def test_what_xla_takes_too_long_for_is_listed_as_it_is(monkeypatch):
    program = reader.read_program(measured_programs.pointwise(8))
    _as_it_stands(monkeypatch)
    described = kernel_table.describe(dataclasses.replace(program, seconds=7))
    why = described['origin']
    assert why.startswith('instructions before fusion, since ')
    assert why.endswith(': took over 7 s')
    assert [kernel['shape'] for kernel in described['kernels']] == ['f32[8]']
