"""Tuning records: what is read, what is refused, and who may write."""

import dataclasses
import json
import multiprocessing
import os

import pytest

from tests.helpers import measurements
from tpugraphs.records import records


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / 'r.jsonl')


def lines(path):
    with open(path, encoding='utf-8') as stream:
        return stream.read().splitlines()


def test_what_is_appended_is_read(path):
    written = [
        measurements.measurement(5, 6),
        measurements.measurement(3, 4, output=(8, 2)),
        measurements.failed('wrong result', (2, 2)),
    ]
    records.append(path, written[:1])
    records.append(path, written[1:])
    assert records.read(path) == (written, {})
    assert json.loads(lines(path)[1]) == {
        'version': 2,
        'kernel': 'p_0000000000000000',
        'configuration': {'output': [8, 2], 'kernel': []},
        'default': False,
        'status': 'ok',
        'reason': '',
        'times_ns': [3, 4],
        'compile_s': 0.5,
        'search_s': 0.25,
        'group': '0' * 16,
        'time': '2026-01-02T03:04:05+00:00',
        'versions': {'jaxlib': '0.4', 'tpugraphs': '1'},
        'machine': measurements.MACHINE,
        'opcodes': ['negate'],
    }


def test_half_a_line_is_kept_and_continued_on_a_new_line(path):
    written = measurements.measurement(5, 6)
    records.append(path, [written])
    with open(path, 'a') as stream:
        stream.write('{"version":2,"ker')
    records.append(path, [written])
    assert lines(path)[1] == '{"version":2,"ker'
    assert records.read(path) == ([written, written], {'damaged': 1})
    # A whole line whose end was lost is none the worse.
    whole = lines(path)[0]
    with open(path, 'w') as stream:
        stream.write(whole)
    records.append(path, [written])
    assert records.read(path) == ([written, written], {})


@pytest.mark.parametrize(
    'changes',
    [
        {'version': '1'},
        {'kernel': '../p_0000000000000000'},
        {'kernel': 'p' * 230 + '_0000000000000000'},
        {'configuration': {'output': [8]}},
        {'default': 1},
        {'status': 'good'},
        {'reason': 7},
        {'times_ns': [0]},
        {'times_ns': [1 << 53]},
        {'times_ns': []},  # though its status is ok
        {'status': 'timeout'},  # though it has times
        {'compile_s': -1},
        {'search_s': '1'},
        {'group': 7},
        {'time': '2026-01-02T03:04:05'},
        {'versions': {}},
        {'machine': {**measurements.MACHINE, 'cpu': 3}},
        {'opcodes': [1]},
    ],
)
def test_a_damaged_line_does_not_cost_the_others(changes, path):
    written = measurements.measurement(5, 6)
    records.append(path, [written])
    fields = {'version': 2, **dataclasses.asdict(written), **changes}
    with open(path, 'a') as stream:
        stream.write(json.dumps(fields) + '\n')
    records.append(path, [written])
    assert records.read(path) == ([written, written], {'damaged': 1})


def test_a_line_without_opcodes_is_of_an_earlier_version_and_read(path):
    written = measurements.measurement(5, 6)
    fields = {'version': 2, **dataclasses.asdict(written)}
    del fields['opcodes']
    with open(path, 'w') as stream:
        json.dump(fields, stream)
    assert records.read(path) == ([dataclasses.replace(written, opcodes=[])], {})


def test_a_line_that_is_too_long_is_damaged(path):
    written = measurements.measurement(5, 6)
    with open(path, 'w') as stream:
        stream.write('x' * (5 << 19) + '\n')  # two and a half times what is read
    records.append(path, [written])
    assert records.read(path) == ([written], {'damaged': 1})


def test_a_file_of_something_else_is_refused(path):
    for content in (
        'ID,TopConfigs\n',
        '{"version": NaN}',
        '{"a": 1, "a": 2}',
        '[' * 9999,
        '7',
    ):
        with open(path, 'w') as stream:
            stream.write(content)
        with pytest.raises(ValueError, match='holds no tuning records; give a file'):
            records.read(path)
    os.truncate(path, (1 << 30) + 1)  # takes no space on the disk
    with pytest.raises(ValueError, match='1,073,741,825 bytes are more than the 1,0'):
        records.read(path)


def test_merged_records_are_there_once(path):
    default, fast = (
        measurements.measurement(5, 6),
        measurements.measurement(3, 4, output=(8, 2)),
    )
    assert records.merge(path, [default, fast, fast]) == 2
    assert records.merge(path, [fast, default]) == 0
    assert records.read(path) == ([default, fast], {})
    # A new time needs the default of its own passes, though the same one is there.
    passes = {'group': '1' * 16}
    again = dataclasses.replace(default, **passes)
    slow = measurements.measurement(7, output=(8, 1), **passes)
    assert records.merge(path, [again, slow]) == 1
    assert records.read(path)[0] == [default, fast, again, slow]


def _append(path, name):
    for number in range(50):
        records.append(
            path, [measurements.measurement(number + 1, kernel=f'{name}_{0:016}')] * 3
        )


def test_several_processes_append_while_one_prunes(path):
    spawn = multiprocessing.get_context('fork')
    others = [spawn.Process(target=_append, args=(path, name)) for name in 'ab']
    for process in others:
        process.start()
    removed = 0
    while any(process.is_alive() for process in others):
        removed += records.prune(path, lambda m: m.times_ns[0] % 2 == 0)
    for process in others:
        process.join()
        assert process.exitcode == 0
    removed += records.prune(path, lambda m: m.times_ns[0] % 2 == 0)
    stored, _ = records.read(path)
    # Each wrote 3 lines of every number, whole and in order.
    for name in 'ab':
        times = [m.times_ns[0] for m in stored if m.kernel[0] == name]
        assert times == [n for n in range(2, 51, 2) for _ in range(3)]
    assert removed == 150


def test_pruning_keeps_lines_of_other_versions_and_drops_halves(path):
    records.append(path, [measurements.measurement(1), measurements.measurement(2)])
    with open(path, 'a') as stream:
        stream.write('{"version": 3}\n{"version": 2, "ke')
    assert records.prune(path, lambda m: m.times_ns == [2]) == 2
    [kept], unused = records.read(path)
    assert kept.times_ns == [2] and unused == {'of another version': 1}
