"""Which results agree: tolerances, and how values are compared."""

import pytest

from lab.tests.helpers import measured_programs
from tpugraphs_lab.kernels import building
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import rounding
from tpugraphs_lab.measure.clock import session as session_lib
from tpugraphs_lab.measure.clock import timing

QUICK = timing.Protocol(least=2, most=2)


def _product(kind, terms):
    """A product of two matrices, and an addition."""
    module = building.Module('product')
    entry = module.computation('entry')
    left = entry.parameter(building.shape_of(kind, [8, terms]))
    right = entry.parameter(building.shape_of(kind, [terms, 8]))
    dot = entry.add('dot', building.shape_of(kind, [8, 8]), [left, right])
    dot.dot_dimension_numbers.lhs_contracting_dimensions.append(1)
    dot.dot_dimension_numbers.rhs_contracting_dimensions.append(0)
    entry.add('add', dot.shape, [dot, dot])
    return module.finish(entry)


def test_a_tolerance_is_of_the_terms_and_the_type():
    # 100 terms and one addition: 12 deviations of the root of 101 roundings.
    for kind, bits in (('f32', 24), ('f64', 53), ('f16', 11)):
        found = rounding.tolerance_of(_product(kind, 100))
        assert found == pytest.approx(12 * 101**0.5 * 2.0**-bits)
    # Of more terms in eight bits nothing is known.
    assert rounding.tolerance_of(_product('bf16', 100)) == 0.25
    assert rounding.tolerance_of(_product('s32', 100)) == 0


# With a worker ----------------------------------------------------------------


@pytest.fixture(name='session', scope='module')
def _session():
    with session_lib.Session() as session:
        yield session


def _measure(session, *modules):
    inputs = cutting.inputs_of(modules[0])
    tolerance = rounding.tolerance_of(modules[0])
    serialized = [module.SerializeToString() for module in modules]
    return session.measure(serialized, inputs, 0, QUICK, tolerance)


def _large_and_small(factor):
    """Eight values, of which four are about 1e8, and four about `factor`."""
    return measured_programs.parsed(f"""
      x = f32[4] parameter(0)
      y = f32[4] parameter(1)
      large = f32[] constant(1e8)
      small = f32[] constant({factor})
      larges = f32[4] broadcast(large), dimensions={{}}
      smalls = f32[4] broadcast(small), dimensions={{}}
      first = f32[4] multiply(x, larges)
      second = f32[4] multiply(y, smalls)
      ROOT both = f32[8] concatenate(first, second), dimensions={{0}}""")


def test_a_small_value_next_to_large_ones_is_checked(session):
    right, wrong = _large_and_small(1), _large_and_small(5000)
    measured = _measure(session, right, wrong, right)
    assert measured.kept == [0, 2] and measured.dropped == {1: 'wrong result'}


def _sums(reverses):
    """A product of matrices that adds terms up from the first or from the last.

    Terms have both signs.
    """
    order = '{1}' if reverses else '{}', '{0}' if reverses else '{}'
    return measured_programs.parsed(f"""
      x = f32[256,2048] parameter(0)
      y = f32[2048,256] parameter(1)
      middle = f32[] constant(0.6)
      middles = f32[256,2048] broadcast(middle), dimensions={{}}
      signed = f32[256,2048] subtract(x, middles)
      a = f32[256,2048] reverse(signed), dimensions={order[0]}
      b = f32[2048,256] reverse(y), dimensions={order[1]}
      ROOT dot = f32[256,256] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}""")  # noqa: E501


def test_sums_whose_terms_cancel_may_round(session):
    # Some of 65,536 sums are near 0: five in a thousandth of their deviation, where
    # rounding is a hundredth of what is left.
    assert not _measure(session, _sums(False), _sums(True)).dropped


def test_results_that_are_not_finite_prove_nothing(session):
    module = measured_programs.parsed("""
      x = f32[64] parameter(0)
      n = f32[64] negate(x)
      ROOT r = f32[64] sqrt(n)""")
    with pytest.raises(session_lib.WorkerError, match='not comparable: only 0% of a'):
        _measure(session, module, module)
