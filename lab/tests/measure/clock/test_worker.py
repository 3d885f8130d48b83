"""Which configurations a worker times, with programs that take what they are told."""

import numpy as np
import pytest

from tpugraphs_lab.measure.clock import timing
from tpugraphs_lab.measure.clock import values
from tpugraphs_lab.measure.clock import worker as worker_lib


class _Program:
    """A compiled program that takes a fixed time by a fake clock."""

    def __init__(self, now, taken):
        self._now, self._taken = now, taken
        self.runs = 0

    def place(self, arrays):
        return arrays

    def outputs(self, buffers):
        self.run(buffers)
        return [buffers[0]]

    def run(self, buffers):
        self.runs += 1
        self._now[0] += self._taken


class _Backend:
    """Compiles a module, which is the microseconds that it takes as text."""

    def __init__(self, now):
        self._now = now
        self.programs = []

    def compile(self, module):
        self.programs.append(_Program(self._now, 1000 * int(module)))
        return self.programs[-1]


@pytest.fixture(name='worker')
def _worker(monkeypatch):
    now = [0]
    monkeypatch.setitem(timing.CLOCKS, 'cpu', lambda: now[0])
    worker = worker_lib.Worker(lambda message: None)
    worker.backend = _Backend(now)
    return worker


def measure(worker, *microseconds, **options):
    protocol = timing.Protocol(least=4, most=4, **options)
    modules = [str(number).encode() for number in microseconds]
    inputs = [{'type': 'float32', 'dims': [1]}]
    return worker.measure(modules, inputs, 0, [], protocol)


def test_a_configuration_over_five_times_the_default_runs_once(worker):
    measured = measure(worker, 1000, 7000, 2000, 11000)
    assert measured.kept == [0, 2, 1] and measured.once == [1]
    assert measured.dropped == {3: timing.TOO_SLOW}
    assert (measured.passes == 1000 * np.array([[1000, 2000, 7000]] * 4)).all()
    assert measured.again.tolist() == [1_000_000] * 4
    runs = [program.runs for program in worker.backend.programs]
    # Its results are compared, and then it is timed.
    assert runs[1] == 2 < runs[2]


def test_configurations_are_as_many_as_the_seconds_of_a_kernel_allow(worker):
    # Fifteen times 20 runs of 5 ms take 1.5 s.
    few = measure(worker, *[5000] * 40, seconds=1.55, least_configs=3)
    assert len(few.kept) == 15
    with pytest.raises(ValueError, match='over a hundredth of the seconds'):
        measure(worker, 20_000, 20_000, seconds=1.5)


def test_the_least_configurations_are_compiled_however_long_it_takes(worker):
    late = dict(seconds=1e9, compiling=-1.0)
    measured = measure(worker, 100, *[50] * 8, least_configs=4, **late)
    assert measured.kept == [0, 1, 2, 3]
    # And the default again, as the last.
    assert len(worker.backend.programs) == 5
    assert measured.again.tolist() == [100_000] * 4


# Which results agree ----------------------------------------------------------


class _Gather(_Program):
    """Its result is NaN for an index behind the last of 10 rows, as of jnp.take."""

    def outputs(self, buffers):
        self.runs += 1
        return [np.where(buffers[0] < 10, 1.0, np.nan)]


def test_inputs_are_drawn_until_results_are_finite():
    specs = [{'type': 'int32', 'dims': [100], 'high': 150}]
    program = _Gather([0], 0)
    default = worker_lib.Default(program, specs, np.random.default_rng(0), 0.1)
    assert program.runs == 4  # indices below 150, 37 and 9; and timed once
    with pytest.raises(ValueError, match='not comparable: a result does not change'):
        default.check_comparable()  # it is 1 for every index below 10


def test_values_are_compared_one_by_one():
    expected, limits = np.array([1e8, 1], np.float32), np.array([100, 1e-6])
    close = lambda actual: values.are_close(
        [expected], [np.array(actual, np.float32)], [limits]
    )
    assert close([1e8 + 96, 1])
    assert not close([1e8, 5000]) and not close([1e8, 1.1])
    assert not close([np.inf, 1]) and not close([1e8, np.nan]) and not close([1e8])
    whole = [np.array([3, 4])]
    assert values.are_close(whole, whole, [np.zeros(2)])
    assert not values.are_close(whole, [np.array([3, 5])], [np.full(2, 9.0)])
    assert not values.are_close(whole, [np.array([3.0, 4.0])], [np.zeros(2)])
    assert not values.are_close(whole, [], [np.zeros(2)])


def test_what_is_not_finite_has_to_be_the_same():
    a = np.array([np.nan, np.inf, -np.inf, 1.0])
    limits = [np.full(4, np.inf)]
    assert values.are_close([a], [a.copy()], limits)
    for place in range(3):
        b = a.copy()
        b[place] = 1.0
        assert not values.are_close([a], [b], limits)
        assert not values.are_close([b], [a], limits)
    assert not values.are_close([a], [-a], limits)


def test_zeros_have_a_sign_where_nothing_rounds_to_them():
    zero = np.zeros(1, np.float32)
    assert not values.are_close([zero], [-zero], [np.zeros(1)])
    assert values.are_close([zero], [-zero], [np.array([1e-6])])


def test_complex_results_are_compared_in_both_parts():
    expected = np.array([3 + 4j], np.complex64)
    assert values.are_close([expected], [expected + 3e-4], [np.array([1e-3])])
    assert not values.are_close([expected], [expected + 2e-3j], [np.array([1e-3])])


@pytest.mark.parametrize('kind', ['f4', 'f2', 'c8', 'i4', '?'])
def test_perturbed_floats_keep_type_and_size(kind):
    array = np.arange(1000).astype(kind)
    changed = values.perturbed(np.random.default_rng(0), array, 0.01)
    assert changed.dtype == array.dtype and changed[0] == 0
    moves = np.abs(changed[500:] * 1.0 / array[500:] - 1)
    if kind[0] in 'fc':  # the sum of two normal deviates: one of all, one of each
        assert 0.005 < moves.std() < 0.015 and moves.max() < 0.08
    else:
        assert not moves.any()
