"""Claims: only what the clock can tell from nothing."""

import numpy as np
import pytest

from tests.helpers import measured_programs
from tpugraphs.measure import backend as backend_lib
from tpugraphs.measure import session as session_lib
from tpugraphs.measure import tiles
from tpugraphs.measure import timing
from tpugraphs.measure import tuning


def ratio(speedup, low, high):
    return timing.Ratio(speedup, low, high)


@pytest.mark.parametrize(
    'found, null, claimed',
    [
        (ratio(2.0, 1.8, 2.2), ratio(1.0, 0.99, 1.01), True),
        (ratio(1.1, 0.99, 1.2), ratio(1.0, 0.99, 1.01), False),  # 1 is inside
        (ratio(1.1, 1.06, 1.2), ratio(1.05, 1.02, 1.08), False),  # as the default
        (ratio(1.1, 1.06, 1.2), ratio(0.95, 0.93, 0.98), False),  # the other way
        (ratio(1.02, 1.01, 1.03), ratio(1.0, 1.0, 1.0), False),  # too small
    ],
)
def test_what_is_a_gain(found, null, claimed):
    assert tuning.gains(found, null) is claimed


def measured(columns, rng):
    passes = np.array(columns)[None] * np.exp(rng.normal(0, 0.02, (40, len(columns))))
    passes = passes.astype(np.int64)
    again = (columns[0] * np.exp(rng.normal(0, 0.02, 40))).astype(np.int64)
    return session_lib.Measured(list(range(len(columns))), passes, again, {})


def judged(columns, seed=0):
    described = [{'output': (i,)} for i in range(9)]
    batch = tiles.Batch(described, np.zeros((9, 1)), lambda i: b'')
    found = measured(columns, np.random.default_rng(seed))
    return tuning.judged('k', batch, found, [0, 7, 4, 5], 8, {})


def test_the_fastest_is_chosen_and_claimed():
    found = judged([1e6, 9e5, 5e5, 8e5])
    assert found.claimed and found.config == {'number': 4, 'output': (4,)}
    assert found.low < 2 < found.high
    assert found.line() == (
        f'2 x faster ({found.low:.2g} to {found.high:.2g}), found with 8 of 9 '
        'configurations measured'
    )


def test_of_equals_none_is_claimed():
    for seed in range(50):
        found = judged([1e6, 1e6, 1e6, 1e6], seed)
        assert not found.claimed
        assert found.config['number'] == 0 and found.speedup == 1
        assert found.line().startswith('default kept')


def test_a_kernel_is_tuned(tmp_path):
    pytest.importorskip('jaxlib', reason='jaxlib is not installed ([measure])')
    module = measured_programs.pointwise(64, 48)
    item = tiles.TileItem('program_00', module, 'negate')
    batch = item.batch(np.random.default_rng(0), 12)
    asked = []

    def propose(known, excluded, count):
        asked.append(list(known))
        return [i for i in range(12) if i not in known and i not in excluded]

    with session_lib.Session() as session:
        found = tuning.tune(item, batch, propose, session, 4, 0, rounds=2)
    assert found.measured == 4 and found.candidates == 12
    assert asked == [[0], [0, 1, 2]]
    found = tuning.write_modules(found, batch, str(tmp_path))
    values = np.ones((64, 48), np.float32)
    backend = backend_lib.Backend()
    for path in (found.default_hlo, found.best_hlo):
        with open(path, 'rb') as stream:
            program = backend.compile(stream.read())
        [result] = program.run(program.place([values]))
        assert (np.asarray(result) == -1).all()
