"""Which kernels stay in a program, and what is claimed of it."""

import math
import types

import numpy as np
import pytest

from tests.helpers import measured_programs
from tpugraphs.clock import session as session_lib
from tpugraphs.clock import timing
from tpugraphs.clock import values
from tpugraphs.kernels import cutting
from tpugraphs.tuning import budget
from tpugraphs.tuning import whole_program


def times(savings, wrong=()):
    """Returns log speed-ups of programs with winners that save so much."""
    asked = []

    def gains(sets):
        asked.append(sets)
        return [
            -math.inf if set(numbers) & set(wrong) else sum(savings[i] for i in numbers)
            for numbers in sets
        ]

    return gains, asked


@pytest.mark.parametrize(
    'savings, wrong, kept',
    [
        ([0.2, 0.1, 0.05], [], [0, 1, 2]),
        ([0.2, -0.1, 0.05], [], [0, 2]),  # slower in the program
        ([0.2, 0.0], [], [0]),  # of no use
        ([-0.1], [], []),
        ([], [], []),
        ([0.2, 0.1, 0.1], [1], [0, 2]),  # changes the result
        ([0.3, 0.2, 0.1, 0.1], [2, 3], [0, 1]),  # one alone does not help: half
        ([0.1] * 5 + [-0.1, -0.1], [], [0, 1, 2, 3, 4]),  # the rest as one part
    ],
)
def test_what_does_not_help_is_taken_out(savings, wrong, kept):
    gains, _ = times(savings, wrong)
    assert whole_program.kernels_to_keep(len(savings), gains) == kept


def test_without_time_all_stay():
    gains, asked = times([-0.1])
    assert whole_program.kernels_to_keep(1, gains, lambda: False) == [0] and not asked


def test_what_is_left_when_time_is_up_stays():
    gains, asked = times([0.2, -0.1, 0.05])

    def until_time_is_up(sets):
        if asked:
            raise budget.Spent()
        return gains(sets)

    assert whole_program.kernels_to_keep(3, until_time_is_up) == [0, 2]


def test_choosing_kernels_leaves_half_the_time_to_judge_them():
    left = budget.Budget(100).for_choosing().left
    assert left == pytest.approx(50, abs=1)
    assert budget.Budget().for_choosing().left == math.inf


def test_inputs_of_a_program_keep_their_scale():
    module = measured_programs.pointwise(400, 300)
    [spec] = cutting.inputs_of(module, balanced=True)
    drawn = values.draw_array(np.random.default_rng(0), **spec)
    # As weights of 400 inputs each: a deviation of 1 / 20.
    assert drawn.std() == pytest.approx(0.05, rel=0.02)
    assert abs(drawn.mean()) < 0.001
    positive = values.tamer(drawn, 0)
    assert positive.min() >= 0 and positive.sum(0).max() < 0.1
    assert values.tamer(positive, 1) is positive


def test_integers_become_smaller_until_results_are_finite():
    drawn = np.array([0, 5, 420], np.int32)
    first = values.tamer(drawn, 0)
    assert first.tolist() == [0, 1, 105] and first.dtype == np.int32
    assert values.tamer(first, 1).tolist() == [0, 0, 26]


class Clock(session_lib.Session):
    """Programs take the sum of their kernels' times, with a little noise."""

    def __init__(self, milliseconds, wrong, differs):
        self._milliseconds, self._wrong = milliseconds, wrong
        self._differs = differs
        self._rng = np.random.default_rng(0)

    def stop(self):
        pass

    def compare(self, modules, inputs, seeds, tolerance, seconds):
        assert len(set(seeds)) == 3 and inputs[0]['balanced'] and tolerance > 0
        return 'wrong result' if self._differs else ''

    def measure(self, kernel, modules, inputs, seed, protocol, **options):
        names = [module.decode(errors='ignore') for module in modules]
        dropped = {i: 'wrong result' for i, n in enumerate(names) if n in self._wrong}
        kept = [i for i in range(len(modules)) if i not in dropped]
        noise = np.exp(self._rng.normal(0, 0.01, (protocol.most, len(kept) + 1)))
        columns = [self._milliseconds.get(names[i], 10) for i in (*kept, 0)]
        passes = (1e6 * np.array(columns) * noise).astype(np.int64)
        return timing.Measured(kept, passes[:, :-1], passes[:, -1], dropped)


class Assembled(str):
    SerializeToString = str.encode


def proof(monkeypatch, milliseconds, wrong=(), differs=False):
    monkeypatch.setattr(
        whole_program.assembly,
        'assemble',
        lambda _, chosen: Assembled('+'.join(kernel.name for kernel, _ in chosen)),
    )
    original = measured_programs.pointwise(4, 4)
    faster = [
        types.SimpleNamespace(
            kernel=cutting.Kernel(name, 'p', original, ''), saving_ns=saving, best=b''
        )
        for name, saving in (('a', 2.0), ('b', 3.0))
    ]
    clock = Clock(milliseconds, wrong, differs)
    program = whole_program.WholeProgram('p', original, clock, 0)
    return (
        whole_program.prove(program, None, faster, 1e7, budget.Budget()),
        original.SerializeToString(),
    )


def test_a_gain_of_the_whole_is_claimed(monkeypatch):
    outcome, _ = proof(monkeypatch, {'b+a': 8, 'b': 7, 'a': 11})
    assert outcome.verdict.claimed and outcome.kernels == ['b']
    assert outcome.verdict.low < 10 / 7 < outcome.verdict.high
    assert outcome.module == b'b'
    assert outcome.unchanged[1] < 1 < outcome.unchanged[2]


@pytest.mark.parametrize(
    'milliseconds, wrong',
    [
        ({'b+a': 11, 'b': 10.5, 'a': 12}, ()),
        ({'b+a': 7, 'b': 8, 'a': 9}, ('b+a', 'b', 'a')),
    ],
)
def test_else_the_original_is_kept(monkeypatch, milliseconds, wrong):
    outcome, original = proof(monkeypatch, milliseconds, wrong)
    assert not outcome.verdict.claimed and outcome.module == original
    assert outcome.dropped == ({'wrong result': 3} if wrong else {})


def test_a_program_that_differs_on_new_inputs_is_not_claimed(monkeypatch):
    outcome, original = proof(monkeypatch, {'b+a': 8, 'b': 7, 'a': 11}, differs=True)
    assert not outcome.verdict.claimed and outcome.verdict.speedup == 1
    assert (outcome.verdict.low, outcome.verdict.high) == outcome.verdict.null[1:]
    assert outcome.module == original and outcome.kernels == []
    assert outcome.dropped == {'wrong result': 1}


def test_what_compiling_again_gains_is_told(monkeypatch):
    outcome, _ = proof(monkeypatch, {'': 5})
    assert outcome.verdict.claimed and outcome.kernels == []
    assert outcome.unchanged[0] == pytest.approx(2, rel=0.05)
