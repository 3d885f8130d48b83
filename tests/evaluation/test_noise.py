"""The noise ceiling, against drawn runtimes whose truth is known."""

import numpy as np
import pytest

from baselines.evaluation import metrics
from baselines.evaluation import noise

_STD = 1e-4


def _measured(spread, configs=500, twice=200, seed=0):
    """True logarithms, spread by so many deviations of the noise; measurements."""
    rng = np.random.default_rng(seed)
    true = _STD * spread * rng.normal(size=configs)
    which = np.concatenate([np.arange(configs), np.arange(twice)])
    return true, which, np.exp(true[which] + _STD * rng.normal(size=len(which)))


@pytest.mark.parametrize(
    'spread, tau', [(0.5, 0.295), (1, 0.5), (2, 0.705), (4, 0.845)]
)
def test_the_ceiling_is_what_a_perfect_model_reaches(spread, tau):
    # Normal truth and noise have the correlation r = spread / sqrt(spread^2 + 1)
    # with each other, and tau = 2 / pi arcsin r; two measurements have r^2.
    r = spread / np.hypot(spread, 1)
    assert 2 / np.pi * np.arcsin(r) == pytest.approx(tau, abs=0.001)
    true, which, runtimes = _measured(spread)
    found = noise.estimate_noise(runtimes, which)
    assert found.repeated == found.repeats == 200
    # A deviation of 200 degrees of freedom is known to 5 %.
    assert found.relative_std == pytest.approx(_STD, rel=0.15)
    assert found.tau_twice == pytest.approx(2 / np.pi * np.arcsin(r**2), abs=0.12)
    perfect = metrics.kendall_tau(true[which], runtimes)
    assert found.tau_ceiling == pytest.approx(perfect, abs=0.06)


def test_pure_noise_is_told_by_the_two_measurements():
    _, which, runtimes = _measured(0)
    found = noise.estimate_noise(runtimes, which)
    assert found.tau_twice == pytest.approx(0, abs=0.12)
    assert found.tau_ceiling < 0.33


def test_without_noise_everything_can_be_known():
    runtimes = np.array([3.0, 1.0, 2.0, 1.0, 3.0, 5.0])
    found = noise.estimate_noise(runtimes, [7, 4, 5, 4, 7, 9])
    assert found == noise.Noise(2, 2, 0.0, 1.0, 1.0)


def test_what_cannot_be_known_is_none():
    runtimes = np.array([1.0, 1.1, 2.0, 3.0])
    assert noise.estimate_noise(runtimes, [0, 1, 2, 3]) is None
    assert noise.estimate_noise(runtimes, [0, 0, 1, 2]) is None  # one repeat
    # One configuration, measured four times: no order to find.
    same = noise.estimate_noise(runtimes, [5, 5, 5, 5])
    assert (same.repeated, same.repeats) == (1, 3)
    assert same.tau_twice is None and same.tau_ceiling is None
    # Deviation of the logarithms, n - 1.
    assert same.relative_std == pytest.approx(np.std(np.log(runtimes), ddof=1))


def test_many_configurations_are_sampled(monkeypatch):
    _, which, runtimes = _measured(2)
    whole = noise.estimate_noise(runtimes, which).tau_ceiling
    monkeypatch.setattr(noise, 'MAX_DRAWN', 200)
    found = noise.estimate_noise(runtimes, which)
    assert found.tau_ceiling == pytest.approx(whole, abs=0.06)
    assert found == noise.estimate_noise(runtimes, which)  # and always the same
