"""What is remembered of a kernel: times, failures, and when they do not count."""

import math
import os

import numpy as np
import pytest

from tests.helpers import measured_programs
from tests.helpers import measurements
from tpugraphs.clock import machine
from tpugraphs.clock import timing
from tpugraphs.kernels import cutting
from tpugraphs.kernels import tile_choices
from tpugraphs.records import arguments
from tpugraphs.records import machine_records
from tpugraphs.records import records

SIZES = [(8, 4), (8, 2), (8, 1), (4, 4), (2, 4)]
DESCRIBED = [{'output': s, 'kernel': (), 'input': s} for s in SIZES]
KERNEL = measurements.KERNEL


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / 'r.jsonl')


def remembered(path, *kept, again=(10, 12), dropped=None, **more):
    """Adds times of configurations that were measured together."""
    memory = machine_records.MachineRecords(path, 'cpu', **more)
    numbers = [number for number, _ in kept]
    passes = np.array([times for _, times in kept]).T
    measured = timing.Measured(numbers, passes, np.array(again), dropped or {})
    memory.add(KERNEL, DESCRIBED, measured)
    return memory


def test_times_are_found_by_what_a_kernel_computes(path):
    remembered(path, (0, [10, 12]), (1, [5, 6]), dropped={2: 'wrong result'})
    memory = machine_records.MachineRecords(path, 'cpu')
    # Of another program, in another order, among others.
    other = 'other_0000000000000000'
    ratios, dropped = memory.ratios(other, [DESCRIBED[i] for i in (0, 4, 2, 1)])
    assert ratios == {3: math.log(5 / 10)} and dropped == {2: 'wrong result'}
    assert memory.configurations(other) == [
        {'output': list(size), 'kernel': []} for size in SIZES[:2]
    ]
    assert memory.ratios('p_0000000000000001', DESCRIBED) == ({}, {})


def test_a_configuration_that_ran_once_has_one_time(path):
    passes = np.array([[10, 70], [12, 70]])
    measured = timing.Measured([0, 1], passes, passes[:, 0], {}, once=[1])
    machine_records.MachineRecords(path, 'cpu').add(KERNEL, DESCRIBED, measured)
    found, _ = records.read(path)
    assert [m.times_ns for m in found] == [[10, 12], [70]]


def test_names_and_numbers_do_not_count():
    module = measured_programs.pointwise(8, 4)
    renamed = type(module).FromString(module.SerializeToString())
    renamed.name = renamed.computations[0].name = 'other'
    for instruction in renamed.computations[0].instructions:
        instruction.name = f'n{instruction.id}'
        instruction.metadata.op_name = 'mine'
        instruction.id += 7
        instruction.operand_ids[:] = [o + 7 for o in instruction.operand_ids]
    renamed.computations[0].root_id += 7
    others = [
        measured_programs.pointwise(8, 4, opcode='abs'),
        measured_programs.pointwise(4, 8),
    ]
    first, again, *others = [
        cutting.cut(m, 'p')[0][0].name for m in (module, renamed, *others)
    ]
    assert first == again and first not in others


@pytest.mark.parametrize(
    'why, status',
    [
        ('XLA: no such thing', 'compile error'),
        ('XLA ended the process', 'runtime error'),
        ('running: out of memory', 'runtime error'),
        ('wrong result', 'wrong result'),
        ('took more than 600 s', 'timeout'),
        ('over 10 times the time of the default', 'over the limit'),
    ],
)
def test_why_a_configuration_was_not_timed(why, status, path):
    memory = remembered(path, (0, [10, 12]), dropped={3: why})
    [_, failure], _ = records.read(path)
    assert (failure.status, failure.reason) == (status, why)
    assert memory.ratios(KERNEL, DESCRIBED) == ({}, {3: why})


def test_the_same_program_as_another_is_no_measurement(path):
    remembered(path, (0, [10, 12]), dropped={3: 'the same program as another'})
    assert len(records.read(path)[0]) == 1


def test_what_was_timed_later_is_no_failure_any_more(path):
    remembered(path, (0, [10, 12]), dropped={1: 'over 10 times'})
    memory = remembered(path, (0, [10, 12]), (1, [5, 6]))
    assert memory.ratios(KERNEL, DESCRIBED) == ({1: math.log(0.5)}, {})


def test_a_search_takes_the_latest_time_beside_its_own_default(path):
    remembered(path, (0, [100] * 3), (1, [50] * 3), again=[100] * 3)
    memory = remembered(path, (0, [10] * 2), (1, [9] * 2))
    assert memory.ratios(KERNEL, DESCRIBED)[0] == {1: math.log(0.9)}


def test_fresh_uses_nothing_and_adds(path):
    remembered(path, (0, [10, 12]), (1, [5, 6]))
    memory = remembered(path, (0, [20, 22]), (2, [5, 6]), fresh=True)
    assert set(memory.ratios(KERNEL, DESCRIBED)[0]) == {2}
    assert len(records.read(path)[0]) == 4


def test_what_is_not_used_is_said_once(path, capsys):
    remembered(path, (0, [10, 12]), (1, [5, 6]))
    records.append(path, [measurements.measurement(5, 6)] * 3)
    with open(path, 'a') as stream:
        stream.write('{"version": 3}\n{"versi')
    memory = remembered(path, (0, [10, 12]), (2, [5, 6]))
    assert set(memory.ratios(KERNEL, DESCRIBED)[0]) == {1, 2}
    assert capsys.readouterr().err == (
        f'note: {path}: not used: 1 of another version, 1 damaged, '
        '3 of another machine or jaxlib\n'
    )


def test_each_machine_has_a_file_in_the_cache(tmp_path, monkeypatch):
    machine_records.MachineRecords(arguments.FOLDER, 'cpu')
    about = machine.describe(-1)
    monkeypatch.setattr(machine, 'describe', lambda core: {**about, 'cpu': 'A (R) b'})
    machine_records.MachineRecords(arguments.FOLDER, 'cpu')
    folder = tmp_path / 'home' / '.cache' / 'tpugraphs' / 'records'
    names = os.listdir(folder)
    assert len(names) == 2 and any(name.startswith('A_R_b_') for name in names)
    # Without a path nothing is kept.
    memory = machine_records.MachineRecords()
    memory.add(KERNEL, DESCRIBED, None)
    assert memory.ratios(KERNEL, DESCRIBED) == ({}, {}) and os.listdir(folder) == names


def test_records_that_cannot_be_added_are_refused(path, tmp_path):
    (tmp_path / 'file').touch()
    for place, message in [
        (f'{tmp_path}/file/records', f'{tmp_path}/file cannot be written: File exi'),
        ('/dev/null', '/dev/null is a device or a pipe: name a file'),
    ]:
        with pytest.raises(ValueError, match=message):
            machine_records.check_writable(place)
    for place in ('', path, str(tmp_path), arguments.FOLDER):
        machine_records.check_writable(place)


def test_recorded_configurations_join_those_that_are_drawn():
    rng = np.random.default_rng
    module = measured_programs.pointwise(96, 128)
    kernel = cutting.Kernel('p_00', 'p', module, 'negate')
    drawn = tile_choices.candidates_of(kernel, rng(0), 4).configs
    own = {'output': [48, 7], 'kernel': [], 'input': [48, 7]}
    others = [
        {'output': size, 'kernel': kernel, 'input': []}
        for size, kernel in [([97, 1], []), ([96], []), ([1, 1], []), ([96, 1], [2])]
    ]
    recorded = [*others, own, drawn[1]]
    candidates = tile_choices.candidates_of(kernel, rng(0), 4, recorded)
    assert candidates.configs[:4] == drawn
    assert candidates.configs[4:] == [
        {'output': (48, 7), 'kernel': (), 'input': (48, 7)}
    ]
    assert candidates.module(4)


def test_a_kernel_without_records_starts_from_the_most_similar_ones(path):
    made = []
    for number, (whole, best) in enumerate(
        [((64, 32), (16, 32)), ((1024, 32), (256, 32)), ((64,), (8,))]
    ):
        about = {'group': f'{number:016x}', 'kernel': f'p_{number:016x}'}
        made += [
            measurements.measurement(10, output=whole, default=True, **about),
            measurements.measurement(5, output=best, default=False, **about),
            measurements.measurement(9, output=[1] * len(whole), **about),
        ]
    records.append(path, made)
    memory = machine_records.MachineRecords(path, 'cpu')
    default = {'output': (96, 48), 'kernel': ()}
    # The nearest sizes first; a whole dimension is whole again, and others fit.
    assert memory.starts(['negate'], default) == [
        {'output': [16, 48], 'kernel': []},
        {'output': [96, 48], 'kernel': []},
    ]
    assert memory.starts(['abs'], default) == []
