"""How much the results of two equivalent programs may differ."""

from __future__ import annotations

import math

from baselines.hlo import protos
from baselines.hlo import schema
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import propagation

# The largest relative error of rounding to a type once: 2 to the power of minus its
# significant bits.
_UNITS = {
    'f16': 2**-11,
    'bf16': 2**-8,
    'f32': 2**-24,
    'c64': 2**-24,
    'f64': 2**-53,
    'c128': 2**-53,
}
_UNIT_OF = {
    kind.number: _UNITS[kind.name]
    for kind in schema.ELEMENT_TYPES
    if kind.name in _UNITS
}
_ROUNDING = cutting.ELEMENTWISE | {'dot', 'convolution', 'reduce', 'reduce-window'}
# Six standard deviations, of the results of both programs.
_DEVIATIONS = 12
# Results further apart than this share do not agree, however many terms are added.
_MOST = 0.25


def tolerance_of(module: protos.HloModuleProto) -> float:
    """Returns the relative tolerance of a program's results.

    Each operation rounds its result, a sum of n terms n times, by up to u.  Such errors
    are as good as independent: together they are u times the root of their number
    (Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", 2019).

    Args:
        module: an HloModuleProto, in which the type of a value is that in which it is
            computed, and sums are added up.

    Returns:
        At most 1/4; 0 for a program without floats.
    """
    square = 0.0
    for computation in module.computations:
        shapes = {i.id: i.shape for i in computation.instructions}
        for value in computation.instructions:
            if value.opcode in _ROUNDING:
                operands = [shapes[operand] for operand in value.operand_ids]
                terms = math.prod(propagation.reduced_sizes(value, operands))
                square += terms * _UNIT_OF.get(value.shape.element_type, 0.0) ** 2
    return min(_MOST, _DEVIATIONS * math.sqrt(square))
