"""The table and the figures of a tuned program."""

import json

import pytest

from tests.helpers import measured_programs
from tpugraphs.clock import timing
from tpugraphs.kernels import cutting
from tpugraphs.tuning import kernel_search
from tpugraphs.tuning import outcome
from tpugraphs.tuning import states
from tpugraphs.tuning import whole_program

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


def kernel(name):
    return cutting.Kernel(name, 'p', measured_programs.pointwise(8, 4), 'negate')


def tuned(name, ratio, default_ns):
    found = kernel_search.Found(
        **{**verdict(ratio), 'default_ns': default_ns},
        name=name,
        measured=3,
        recorded=1,
        candidates=9,
        config={'number': 2, 'output': (4, 4), 'kernel': ()},
        dropped={'wrong result': 1},
    )
    return states.Tuned(kernel(name), found, b'')


TWICE = timing.Ratio(2.0, 1.8, 2.25)
# Kernels of 4, 4 and 2 us in a program of 16 us; one cannot be measured.
KERNELS = [
    tuned('a', TWICE, 4000),
    tuned('b', TWICE, 4000),
    tuned('c', EVEN, 2000),
    states.Timed(kernel('d'), 2000),
    states.Failed(kernel('e'), 'XLA ended the process'),
    states.Untimed(kernel('f')),
]


def result(ratio, changed, **about):
    proof = whole_program.Proof(
        kernel_search.Verdict(**verdict(ratio)), changed, b'', **about
    )
    return outcome.TuningResult(
        KERNELS, proof, '', 'random', {'sort has no tiles': 2}, 16000
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
        'f 1 0.0% no time left',
        'not tuned: sort has no tiles (2)',
        'configurations: random',
        'program: 2.00 x faster (1.80 to 2.25); 1 of 6 kernels changed',
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
            '2.00 x faster (1.80 to 2.25); 0 of 6 kernels changed; 2.00 x by compiling '
            'the optimised program again',
        ),
        (
            outcome.TuningResult(KERNELS, None, 'it takes sparse arrays', '', {}, 0),
            'not measured: it takes sparse arrays',
        ),
    ],
)
def test_verdicts(outcome, words):
    assert outcome.verdict() == words


def test_without_a_proof_kernels_are_faster_alone():
    result_alone = outcome.TuningResult(KERNELS[:1], None, 'why', '', {}, 0)
    _, _, line, *_ = result_alone.lines()
    assert line.endswith('faster alone') and '%' not in line


def test_figures():
    outcome = json.loads(json.dumps(result(TWICE, ['a']).to_json()))
    assert outcome['program']['speedup'] == 2 and outcome['program']['kernels'] == ['a']
    assert outcome['coverage'] == 0.75 and outcome['kernels_left'] == 3
    [first, second, _] = outcome['kernels']
    assert first['in_program'] and not second['in_program']
    assert first['share'] == 0.25 and first['config']['output'] == [4, 4]
