"""Tuning records in the T4 format, by its schema."""

import json
import time

import pytest

from tests.helpers import measurements
from tpugraphs.records import records
from tpugraphs.records import t4


@pytest.fixture(name='exported')
def _exported(tmp_path):
    """The file of a kernel with a time and every failure."""
    made = [
        measurements.measurement(3_000_000, 2_000_000),
        measurements.measurement(1_500_000, 1_000_000, output=(8, 2)),
    ]
    statuses = 'compile error', 'runtime error', 'wrong result', 'timeout'
    statuses += ('over the limit',)
    made += [
        measurements.failed(status, (8, n + 5)) for n, status in enumerate(statuses)
    ]
    [path] = t4.export(made, str(tmp_path / 't4'))
    assert path.endswith(f'{made[0].kernel}_{made[0].machine_id}.json')
    with open(path, encoding='utf-8') as stream:
        return json.load(stream)


def test_it_keeps_to_the_schema(exported):
    assert exported['schema_version'] == '1.0.0'
    assert exported['metadata']['timeunit'] == 'milliseconds'
    results = {r['configuration']['output_1']: r for r in exported['results']}
    assert results[2] == {
        'timestamp': '2026-01-02T03:04:05+00:00',
        'configuration': {'output_0': 8, 'output_1': 2},
        'objectives': ['time'],
        # Milliseconds, as Kernel Tuner has them.
        'times': {
            'compilation_time': 500.0,
            'compilation': 500.0,
            'benchmark': 2.5,
            'framework': 0.0,
            'search_algorithm': 250.0,
            'validation': 0.0,
            'runtimes': [1.5, 1.0],
        },
        'invalidity': 'correct',
        'correctness': 1.0,
        'measurements': [{'name': 'time', 'value': 1.0, 'unit': 'ms'}],
    }
    failures = [results[n] for n in range(5, 10)]
    expected = ['compile', 'runtime', 'correctness', 'timeout', 'constraints']
    assert [f['invalidity'] for f in failures] == expected
    assert [f['correctness'] for f in failures] == [1, 1, 0, 1, 1]
    assert all(f['times']['runtimes'] == [] for f in failures)
    values = {f['measurements'][0]['value'] for f in failures}
    # What the hub's scripts take for no time.
    expected = {'CompilationFailedConfig', 'RuntimeFailedConfig', 'InvalidConfig'}
    assert values == expected


def test_of_several_times_the_latest_counts():
    kernel = records.History()
    for made in (
        measurements.measurement(7, 8, 9),
        measurements.measurement(4, 5),
        measurements.failed('timeout', (8, 4)),
        measurements.measurement(3, output=(8, 2), group='1' * 16),  # no default
    ):
        kernel.add(made)
    [result] = t4.content(kernel)['results']
    assert result['times']['runtimes'] == pytest.approx([4e-6, 5e-6])


@pytest.mark.slow
def test_the_time_of_an_export_grows_as_the_kernels_do(tmp_path):
    def seconds(count):
        made = [
            measurements.measurement(2, 1, kernel=f'k_{number:016x}')
            for number in range(count)
        ]
        began = time.process_time()
        assert len(t4.export(made, str(tmp_path / str(count)))) == count
        return time.process_time() - began

    # Eight times as many: 64 times as long if each were compared with all others.
    assert seconds(4_000) < 32 * seconds(500)


@pytest.mark.parametrize(
    'place, value',
    [
        (['schema_version'], '2.0.0'),
        (['results'], []),
        (['results'], {}),
        (['metadata', 'timeunit'], 'seconds'),
        (['results', 0, 'configuration'], {'output_0': 8, 'output_2': 2}),
        (['results', 0, 'invalidity'], 'perhaps'),
    ],
)
def test_what_is_not_ours_is_refused(exported, place, value, tmp_path):
    """Its times or sizes would be taken for others."""
    path = tmp_path / 'edited.json'
    path.write_text(json.dumps(exported))
    assert t4.read(str(path))
    holder = exported
    for key in place[:-1]:
        holder = holder[key]
    assert place[-1] in (holder if isinstance(holder, dict) else range(len(holder)))
    holder[place[-1]] = value
    path.write_text(json.dumps(exported))
    with pytest.raises(ValueError, match='edited.json: not a T4 file of tiles'):
        t4.read(str(path))
