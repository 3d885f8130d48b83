"""The noise ceiling, against drawn runtimes whose truth is known."""

import numpy as np
import pytest

from baselines.evaluation import metrics
from baselines.evaluation import noise
from tests.helpers import places

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
    found = noise.of_graph(runtimes, which)
    assert found.repeated == found.repeats == 200
    # A deviation of 200 degrees of freedom is known to 5 %.
    assert found.relative_std == pytest.approx(_STD, rel=0.15)
    assert found.tau_twice == pytest.approx(2 / np.pi * np.arcsin(r**2), abs=0.12)
    perfect = metrics.kendall_tau(true[which], runtimes)
    assert found.tau_ceiling == pytest.approx(perfect, abs=0.06)


def test_pure_noise_is_told_by_the_two_measurements():
    _, which, runtimes = _measured(0)
    found = noise.of_graph(runtimes, which)
    assert found.tau_twice == pytest.approx(0, abs=0.12)
    assert found.tau_ceiling < 0.33


def test_without_noise_everything_can_be_known():
    runtimes = np.array([3.0, 1.0, 2.0, 1.0, 3.0, 5.0])
    found = noise.of_graph(runtimes, [7, 4, 5, 4, 7, 9])
    assert found == noise.Noise(2, 2, 0.0, 1.0, 1.0)


def test_what_cannot_be_known_is_none():
    runtimes = np.array([1.0, 1.1, 2.0, 3.0])
    assert noise.of_graph(runtimes, [0, 1, 2, 3]) is None
    assert noise.of_graph(runtimes, [0, 0, 1, 2]) is None  # one repeat says little
    # One configuration, measured four times: no order to find.
    same = noise.of_graph(runtimes, [5, 5, 5, 5])
    assert (same.repeated, same.repeats) == (1, 3)
    assert same.tau_twice is None and same.tau_ceiling is None
    # Deviation of the logarithms, n - 1.
    assert same.relative_std == pytest.approx(np.std(np.log(runtimes), ddof=1))


def test_many_configurations_are_sampled(monkeypatch):
    _, which, runtimes = _measured(2)
    whole = noise.of_graph(runtimes, which).tau_ceiling
    monkeypatch.setattr(noise, '_MOST', 200)
    found = noise.of_graph(runtimes, which)
    assert found.tau_ceiling == pytest.approx(whole, abs=0.06)
    assert found == noise.of_graph(runtimes, which)  # and always the same


@pytest.mark.parametrize(
    'name, twice, ceiling',
    [
        # Three quarters of its configurations lie within 8e-5 of the fastest.
        ('xla/default/valid/unet_3d.4x4.bf16', 0.27, 0.48),
        ('xla/default/train/unet3d', 0.83, 0.86),
        # One configuration of 442 was measured again, 39 times.
        ('xla/random/valid/unet_3d.4x4.bf16', None, 0.84),
        # Twenty measurements of one configuration.
        ('xla/random/train/openai_v0_rnn_optimized', None, None),
    ],
)
def test_real_programs(name, twice, ceiling):
    path = places.SHARED / f'real/npz/layout/{name}.npz'
    if not path.exists():
        pytest.skip(f'{path} is not there')
    with np.load(path, allow_pickle=False) as arrays:
        features = arrays['node_config_feat']
        runtimes = arrays['config_runtime']
    rows = features.reshape(len(features), -1)
    which = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    found = noise.of_graph(runtimes, which)
    for tau, known in ((found.tau_twice, twice), (found.tau_ceiling, ceiling)):
        assert tau == (None if known is None else pytest.approx(known, abs=0.03))
