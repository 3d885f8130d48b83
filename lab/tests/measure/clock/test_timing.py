"""Passes, halves, and paired comparisons."""

import numpy as np
import pytest

from tpugraphs_lab.measure.clock import timing


def test_halves_are_every_other_pass():
    passes = np.array([[1, 2, 3], [3, 2, 1], [1, 2, 3], [3, 2, 1]])
    assert timing.tau_of_halves(passes) == -1
    assert timing.tau_of_halves(passes[:1]) == 0
    assert timing.tau_of_halves(np.ones((4, 3), int)) == 0  # is not defined


def test_passes_are_as_many_as_there_is_time_for():
    calls = []
    programs = [lambda i=i: calls.append(i) for i in range(3)]
    for most, deadline in ((4, 9.0), (0, 0.0)):
        protocol = timing.Protocol(least=4, most=4, deadline=deadline)
        passes = timing.measure(programs, protocol, np.random.default_rng(0))
        assert passes.shape == (most, 3)
    assert calls.count(1) == calls.count(2)


def test_slow_kernels_get_fewer_configurations_and_passes():
    protocol = timing.Protocol(least=6, seconds=2, least_configs=10)
    # 20 runs of 1 ms and 80 ms of compiling each: 20 in 2 s.
    assert protocol.most_configs(1_000_000, 0.08) == 20
    assert protocol.most_configs(15_000_000, 0.08) == 10  # 5, but for the least
    assert protocol.most_configs(21_000_000, 0.08) == 0
    assert protocol.for_default(2_999_999) is protocol
    assert protocol.for_default(3_000_000).least == 4
    assert timing.Protocol(least=2).for_default(3_000_000).least == 2


def fake_clock(monkeypatch, took):
    """Has programs take `took` nanoseconds each; returns them, and their runs."""
    now, runs = [0], [0] * len(took)

    def run(index):
        now[0] += took[index]
        runs[index] += 1

    monkeypatch.setitem(timing.CLOCKS, 'cpu', lambda: now[0])
    return [lambda i=i: run(i) for i in range(len(took))], runs


def test_halves_that_agree_early_end_it(monkeypatch):
    programs, _ = fake_clock(monkeypatch, [200_000, 300_000, 400_000])
    passes = timing.measure(programs, timing.Protocol(), np.random.default_rng(0))
    assert len(passes) == timing.LEAST_PASSES
    # Never, where all take the same: a constant has no order.
    programs, _ = fake_clock(monkeypatch, [200_000] * 3)
    passes = timing.measure(programs, timing.Protocol(), np.random.default_rng(0))
    assert len(passes) == timing.MOST_PASSES


def test_what_takes_milliseconds_is_run_once_in_a_pass(monkeypatch):
    programs, runs = fake_clock(monkeypatch, [200_000, 5_000_000])
    protocol = timing.Protocol(least=5, most=5)
    passes = timing.measure(programs, protocol, np.random.default_rng(0))
    assert passes.tolist() == [[200_000, 5_000_000]] * 5
    # The first pass tells: a warm-up and three runs; then one in each of four.
    assert runs[1] == 1 + 3 + 4
    assert runs[0] == 4 + 5 * 4  # once to see how long it is


@pytest.mark.parametrize('back', [199_900, 200_000, 900_000])
def test_a_clock_that_steps_back_makes_nothing_fast(monkeypatch, back):
    now, stamps, stepped = [0], [], []
    took = [300_000, 200_000]  # nanoseconds: each is run once at a time

    def run(index):
        now[0] += took[index]
        # Once, in a run that is timed: stamps come before and after it.
        if index == 1 and len(stamps) > 20 and len(stamps) % 2 and not stepped:
            now[0] -= back
            stepped.append(True)

    def clock():
        stamps.append(now[0])
        return now[0]

    monkeypatch.setitem(timing.CLOCKS, 'cpu', clock)
    programs = [lambda i=i: run(i) for i in range(2)]
    protocol = timing.Protocol(least=3, most=3)
    passes = timing.measure(programs, protocol, np.random.default_rng(0))
    assert stepped
    assert passes.tolist() == [took] * 3


def test_a_paired_comparison():
    rng = np.random.default_rng(0)
    drift = rng.uniform(1, 3, 40)
    slow, fast = 2000 * drift, 1000 * drift  # twice as fast in every pass
    ratio = timing.compare(slow, fast)
    assert ratio.speedup == ratio.low == ratio.high == pytest.approx(2)
    noise = rng.normal(0, 0.1, (2, 400))
    same = timing.compare(1000 * np.exp(noise[0]), 1000 * np.exp(noise[1]))
    assert same.low < 1 < same.high
