"""The table and the figures of a tuned program."""

import json

import pytest

from tests.helpers import measured_programs
from tpugraphs.measure import kernels
from tpugraphs.measure import timing
from tpugraphs.measure import tune_results
from tpugraphs.measure import tuning
from tpugraphs.measure import whole_program

EVEN = timing.Ratio(1.0, 0.99, 1.01)


def verdict(ratio):
    claimed = ratio.low > 1.03
    best_ns = int(4000 / ratio.speedup)
    return dict(
        claimed=claimed,
        speedup=ratio.speedup,
        low=ratio.low,
        high=ratio.high,
        default_ns=4000,
        best_ns=best_ns,
        null=EVEN,
        tried=ratio,
    )


def row(name, ratio=None, **about):
    module = measured_programs.pointwise(8, 4)
    kernel = kernels.Kernel(name, 'p', module, 'negate')
    tuned = ratio and tuning.Tuned(
        **verdict(ratio),
        name=name,
        measured=3,
        recorded=1,
        candidates=9,
        config={'number': 2, 'output': (4, 4), 'kernel': ()},
        dropped={'wrong result': 1},
    )
    return tuning.Row(kernel, tuned=tuned, **about)


TWICE = timing.Ratio(2.0, 1.8, 2.25)
# Kernels of 4, 4 and 2 us in a program of 16 us; one cannot be measured.
ROWS = [
    row('a', TWICE, default_ns=4000),
    row('b', TWICE, default_ns=4000),
    row('c', EVEN, default_ns=2000),
    row('d', default_ns=2000),
    row('e', problem='XLA ended the process'),
]


def result(ratio, changed, **about):
    proof = whole_program.Proof(tuning.Verdict(**verdict(ratio)), changed, b'', **about)
    return tune_results.Result(
        ROWS, proof, '', 'random', {'sort has no tiles': 2}, 16000
    )


def test_the_table_and_the_verdict():
    heading, _, *lines = result(TWICE, ['a']).lines()
    assert [' '.join(line.split()) for line in (heading, *lines)] == [
        'kernel places share us best us x 95 % outcome',
        'a 1 25.0% 4.0 2.0 2.00 1.80 to 2.25 changed',
        'b 1 25.0% 4.0 2.0 2.00 1.80 to 2.25 taken out again',
        'c 1 12.5% 2.0 4.0 1.00 0.99 to 1.01 default kept',
        'd 1 12.5% 2.0 no time left',
        'e 1 0.0% XLA ended the process',
        'not tuned: sort has no tiles (2)',
        'configurations: random',
        'program: 2.00 x faster (1.80 to 2.25); 1 of 5 kernels changed',
    ]


@pytest.mark.parametrize(
    'outcome, words',
    [
        (
            result(EVEN, []),
            'original kept; the best other one is 1.00 x (0.99 to 1.01) as fast, the '
            'original itself 1.00 x (0.99 to 1.01)',
        ),
        (
            result(TWICE, [], unchanged=TWICE),
            '2.00 x faster (1.80 to 2.25); 0 of 5 kernels changed; 2.00 x by compiling '
            'the optimised program again',
        ),
        (
            tune_results.Result(ROWS, None, 'it takes sparse arrays', '', {}, 0),
            'not measured: it takes sparse arrays',
        ),
    ],
)
def test_verdicts(outcome, words):
    assert outcome.verdict() == words


def test_without_a_proof_kernels_are_faster_alone():
    outcome = tune_results.Result(ROWS[:1], None, 'why', '', {}, 0)
    _, _, line, *_ = outcome.lines()
    assert line.endswith('faster alone') and '%' not in line


def test_figures():
    outcome = json.loads(json.dumps(result(TWICE, ['a']).to_json()))
    assert outcome['program']['speedup'] == 2 and outcome['program']['kernels'] == ['a']
    assert outcome['coverage'] == 0.75 and outcome['kernels_left'] == 2
    [first, second, _] = outcome['kernels']
    assert first['in_program'] and not second['in_program']
    assert first['share'] == 0.25 and first['config']['output'] == [4, 4]
