"""Layouts of a program's arrays, to rank."""

import numpy as np

from lab.tests.helpers import measured_programs
from tpugraphs_lab.kernels import layouts


def test_small_nodes_and_identity_reshapes_are_left_out():
    assert layouts.configurable(measured_programs.product()) == [2, 3]


def test_the_default_is_first_and_half_is_near_it():
    drawn = layouts.draw_configs([[2, 2, 2], [3, 2]], np.random.default_rng(0), 12)
    assert len(drawn) == 12
    assert drawn[0] == ((None, None, None), (None, None))
    given = [orders for config in drawn for orders in config[0] if orders]
    assert {(0, 1), (1, 0)} == set(given)
