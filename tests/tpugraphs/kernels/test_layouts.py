"""Layouts of a program's arrays, as constraints that XLA keeps to."""

import numpy as np
import pytest

from tests.helpers import measured_programs
from tpugraphs.clock import backend as backend_lib
from tpugraphs.kernels import layouts

pytest.importorskip('jaxlib', reason='jaxlib is not installed (the extra [measure])')


def test_small_nodes_and_identity_reshapes_are_left_out():
    assert layouts.configurable(measured_programs.product()) == [2, 3]


def test_the_default_is_first_and_half_is_near_it():
    drawn = layouts.draw([[2, 2, 2], [3, 2]], np.random.default_rng(0), 12)
    assert len(drawn) == 12
    assert drawn[0] == ((None, None, None), (None, None))
    given = [orders for config in drawn for orders in config[0] if orders]
    assert {(0, 1), (1, 0)} == set(given)


def test_constraints_make_copies_and_change_no_result():
    module, backend = measured_programs.product(), backend_lib.Backend()
    orders = [((0, 1), (0, 1), None), ((0, 2, 1), None)]
    other = layouts.constrain(module, [2, 3], orders)
    rng = np.random.default_rng(0)
    arrays = [rng.random(d, np.float32) for d in ((64, 128), (128, 96))]
    results, copies = [], []
    for made in (module, other):
        compiled = backend.compile(made.SerializeToString())
        results.append(compiled.outputs(compiled.place(arrays))[0])
        copies.append(compiled.text().count(' copy('))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
    assert copies[0] == 0 < copies[1]
