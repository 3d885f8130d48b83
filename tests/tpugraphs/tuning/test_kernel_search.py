"""Claims: only what the clock can tell from nothing."""

import numpy as np
import pytest

from tests.helpers import measured_programs
from tpugraphs.clock import timing
from tpugraphs.kernels import cutting
from tpugraphs.kernels import tile_choices
from tpugraphs.records import machine_records
from tpugraphs.tuning import budget
from tpugraphs.tuning import kernel_search


def ratio(speedup, low, high):
    return timing.Ratio(speedup, low, high)


@pytest.mark.parametrize(
    'outcome, null, claimed',
    [
        (ratio(2.0, 1.8, 2.2), ratio(1.0, 0.99, 1.01), True),
        (ratio(1.1, 0.99, 1.2), ratio(1.0, 0.99, 1.01), False),  # 1 is inside
        (ratio(1.1, 1.06, 1.2), ratio(1.05, 1.02, 1.08), False),  # as the default
        (ratio(1.1, 1.06, 1.2), ratio(0.95, 0.93, 0.98), False),  # the other way
        (ratio(1.02, 1.01, 1.03), ratio(1.0, 1.0, 1.0), False),  # too small
    ],
)
def test_what_is_a_gain(outcome, null, claimed):
    assert kernel_search.is_gain(outcome, null) is claimed


def measured(columns, rng):
    passes = np.array(columns)[None] * np.exp(rng.normal(0, 0.02, (40, len(columns))))
    passes = passes.astype(np.int64)
    again = (columns[0] * np.exp(rng.normal(0, 0.02, 40))).astype(np.int64)
    return timing.Measured(list(range(len(columns))), passes, again, {})


def judged(columns, seed=0):
    return kernel_search.judge(measured(columns, np.random.default_rng(seed)))


def test_the_fastest_is_chosen_and_claimed():
    place, verdict = judged([1e6, 9e5, 5e5, 8e5])
    assert verdict.claimed and place == 2
    assert verdict.low < 2 < verdict.high


def test_of_equals_none_is_claimed():
    for seed in range(50):
        place, verdict = judged([1e6, 1e6, 1e6, 1e6], seed)
        assert place == 0 and not verdict.claimed and verdict.speedup == 1


class EvenClock:
    """Times all configurations alike, as a session does."""

    def stop(self):
        pass

    def measure(self, kernel, modules, inputs, seed, protocol, most=9, **options):
        kept = [*range(min(len(modules), most + 1))]
        passes = np.full((protocol.most, len(kept)), 1000)
        return timing.Measured(kept, passes, passes[:, 0], {})


def test_a_kernel_is_tuned_in_rounds():
    module = measured_programs.pointwise(64, 48)
    kernel = cutting.Kernel('program_00', 'program', module, 'negate')
    candidates = tile_choices.candidates_of(kernel, np.random.default_rng(0), 12)
    asked = []

    def propose(times, excluded, count):
        asked.append(list(times))
        return [i for i in range(12) if i not in times and i not in excluded]

    records = machine_records.MachineRecords()
    tuned = kernel_search.tune(
        kernel, candidates, propose, EvenClock(), 4, 0, records, budget.Budget()
    )
    assert tuned.measured == 4 and tuned.candidates == 12 and tuned.recorded == 0
    assert asked == [[0], [0, 1, 2], [0, 1, 2, 3]]  # of 2, 1 and 1
    assert tuned.config == {'number': 0, **candidates.configs[0]}  # no gain
