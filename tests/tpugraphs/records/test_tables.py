"""`tpugraphs records` as it is called."""

import importlib
import json

import pytest

import baselines
from tests.helpers import measurements
from tests.helpers import places
from tests.helpers import shapes
from tpugraphs import commands
from tpugraphs.clock import machine
from tpugraphs.records import records

P, Q = measurements.KERNEL, 'q_' + '1' * 16


@pytest.fixture
def path(tmp_path):
    """Two kernels, one of them on two machines."""
    other = {**measurements.MACHINE, 'cpu': 'y\x1b[2J', 'cores': 1}
    made = [
        measurements.measurement(2000, 2100),
        measurements.measurement(1000, 1100, output=(8, 2)),
        measurements.measurement(4000, 4400, output=(8, 1)),
        measurements.failed('wrong result', (2, 2)),
        measurements.measurement(500, 600, machine=other, group='1' * 16),
        measurements.measurement(9, 9, kernel=Q, time='2025-01-02T03:04:05+00:00'),
    ]
    path = str(tmp_path / 'r.jsonl')
    records.append(path, made)
    return path


def shown(capsys, *words):
    assert commands.run('records', list(words)) == 0
    return capsys.readouterr().out.splitlines()


def test_the_same_as_json(path, capsys):
    assert commands.run('records', ['--records', path, '--json']) == 0
    found = shapes.check('records', capsys.readouterr().out)
    # Least times of 2,000 ns for the default and 1,000 ns.
    first = found['kernels'][0]
    assert (first['kernel'], first['best_ns'], first['failed']) == (P, 1000, 1)
    assert first['speedup'] == pytest.approx(2)
    assert found['machines'][first['machine']]['measurements'] == 5
    assert commands.run('records', [P, '--records', path, '--json']) == 0
    first, _ = shapes.check('records KERNEL', capsys.readouterr().out)['kernels']
    statuses = [c['status'] for c in first['configurations']]
    assert sorted(statuses) == ['ok', 'ok', 'ok', 'wrong result']


def test_kernels_and_machines_are_listed(path, capsys):
    lines = shown(capsys, '--records', path)
    place, other = (
        records.machine_id_of(m, '0.4')
        for m in (
            measurements.MACHINE,
            {**measurements.MACHINE, 'cpu': 'y\x1b[2J', 'cores': 1},
        )
    )
    assert [line.split() for line in lines if line.startswith(('p_', 'q_'))] == [
        [P, place, '4', '1', '1', 'us', '2.00'],
        [P, other, '1', '0', '500', 'ns', '1.00'],
        [Q, place, '1', '0', '9', 'ns', '1.00'],
    ]
    [line] = [line for line in lines if line.startswith(f'{place} ')]
    assert line.split() == [
        *(place, 'x,', '2', 'cores', 'cpu', '0.4', '5', '2026-01-02')
    ]
    # What would move a terminal's cursor is escaped.
    assert any(r'y\x1b[2J, 1 core' in line for line in lines)


def test_the_best_of_a_kernel(path, capsys):
    lines = shown(capsys, 'p', '--records', path)
    place = records.machine_id_of(measurements.MACHINE, '0.4')
    start = f'{P} on {place}: 3 ok, 1 wrong result'
    assert lines[lines.index(start) + 4 :][:3] == [
        'output_0=8 output_1=2  1 us      2.00       2  2026-01-02',
        'default                2 us      1.00       2  2026-01-02',
        'output_0=8 output_1=1  4 us      0.50       2  2026-01-02',
    ]


def test_old_and_strange_records_go(path, capsys):
    assert shown(capsys, '--prune', '99999', '--records', path) == ['0 lines removed']
    versions = {'jaxlib': baselines.version('jaxlib'), 'tpugraphs': ''}
    here = {'machine': machine.identity('cpu'), 'versions': versions}
    own = measurements.measurement(5, time=records.now(), **here)
    other = measurements.measurement(5, time=records.now())
    records.append(path, [own, other])
    assert shown(capsys, '--prune', '30', '--records', path) == ['6 lines removed']
    assert shown(capsys, '--prune', 'others', '--records', path) == ['1 line removed']
    assert records.read(path) == ([own], {})


def test_files_of_a_folder_are_exported(path, tmp_path, capsys):
    folder = tmp_path / 't4'
    words = ['p', '--records', str(tmp_path), '--export', str(folder)]
    assert shown(capsys, *words) == [f'2 kernels written to {folder}']
    contents = [json.loads(file.read_text()) for file in folder.iterdir()]
    assert sorted(len(content['results']) for content in contents) == [1, 4]


def test_our_searches_are_replayed_from_records(path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(places.ROOT / 'benchmarks'))
    replay = importlib.import_module('measured_tuning').share_of_records
    replay(path, 0)
    # One pass of the kernel with three times chooses and the other judges; of three
    # configurations every search finds the best: 2100 ns over 1100.
    *_, random, rounds = capsys.readouterr().out.splitlines()
    assert random == '| random, 1 round | 1.91 of 1.91: 100% |'
    assert rounds == '| no model, 3 rounds | 1.91 of 1.91: 100% |'
    records.prune(path, lambda m: m.default)
    with pytest.raises(ValueError, match='no kernel with three tiles that were timed'):
        replay(path, 0)


def test_records_of_other_files_are_imported_once(path, tmp_path, capsys):
    folder, whole = tmp_path / 't4', str(tmp_path / 'whole.jsonl')
    assert shown(capsys, '--records', path, '--export', str(folder))
    exported = sorted(map(str, folder.iterdir()))
    words = ['--records', whole, '--import']
    assert shown(capsys, *words, *exported) == [f'{whole}: 6 of 6 measurements new']
    # The same measurements, in our own format.
    assert shown(capsys, *words, path) == [f'{whole}: 0 of 6 measurements new']
    tables_of = [shown(capsys, '--records', file) for file in (path, whole)]
    assert tables_of[0] == tables_of[1]
    # A folder has a file for every machine.
    lines = shown(capsys, '--records', str(folder), '--import', path)
    assert [line.partition(': ')[2] for line in lines] == [
        '5 of 5 measurements new',
        '1 of 1 measurement new',
    ]


def test_an_import_with_json_prints_json_alone(path, tmp_path, capsys):
    whole = str(tmp_path / 'whole.jsonl')
    assert (
        commands.run('records', ['--records', whole, '--import', path, '--json']) == 0
    )
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)['kernels']) == 3
    assert printed.err == f'{whole}: 6 of 6 measurements new\n'


def test_a_json_of_something_else_is_not_imported(tmp_path, capsys):
    (tmp_path / 'other.json').write_text('{"results": []}')
    records_path = str(tmp_path / 'new' / 'r.jsonl')
    words = ['--records', records_path, '--import', str(tmp_path / 'other.json')]
    assert commands.run('records', words) == 1
    assert 'other.json: not a T4 file of tiles, as' in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == [tmp_path / 'other.json']


@pytest.mark.parametrize(
    'words, message',
    [
        (['--prune', 'x'], "--prune is 'x'; say a number of days, or others"),
        (['z'], 'z: no kernel on record; there are p_0000000000000000, q_11'),
        (['', '--records', '{folder}/none'], 'none: no tuning records; `tpugraphs'),
        (['', '--records', '{folder}/empty'], 'empty: a folder without tuning records'),
    ],
)
def test_what_is_refused(words, message, path, tmp_path, capsys):
    (tmp_path / 'empty').mkdir()
    words = [word.format(folder=tmp_path) for word in words]
    assert commands.run('records', ['--records', path, *words]) == 1
    assert message in capsys.readouterr().err


def test_several_kernels_of_a_name_are_told(path, capsys):
    records.append(path, [measurements.measurement(5, kernel='p_' + '2' * 16)])
    assert commands.run('records', ['--records', path, 'p']) == 1
    assert (
        f'p: several kernels on record; there are {P}, p_2' in capsys.readouterr().err
    )


def test_lines_that_cannot_be_used_are_said(path, capsys):
    with open(path, 'a') as stream:
        stream.write('{"version": 3}\n{"versi')
    assert commands.run('records', ['--records', path]) == 0
    assert capsys.readouterr().err == (
        f'note: {path}: 1 line of another version\nnote: {path}: 1 line damaged\n'
    )
