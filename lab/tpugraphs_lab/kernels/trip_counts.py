"""Counts how often the computations of a module run, as far as it says so.

A loop's counter is followed through its rounds, from constants on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import math
import operator

from baselines.hlo import protos

_MOST_TRIPS = 100_000  # rounds of a loop that are followed
_COPIES = ('copy', 'bitcast', 'convert', 'reshape')
_COMPUTE: dict[str, Callable[[int, int], int]] = {
    'add': operator.add,
    'subtract': operator.sub,
    'multiply': operator.mul,
    'minimum': min,
    'maximum': max,
    'and': operator.and_,
}
_COMPARE = {
    name: getattr(operator, name.lower())
    for name in ('LT', 'LE', 'GT', 'GE', 'EQ', 'NE')
}
# The value of a scalar integer, those of a tuple by place, or None: unknown.
_Value = int | Mapping[int, int | None] | None


def count_runs(module: protos.HloModuleProto) -> tuple[dict[int, int], int]:
    """Counts how often each computation runs in one run of the module.

    Returns:
        Id of a computation -> runs of those that the entry computation reaches by
        loops, calls and branches, of which all are counted; and the number of loops
        of an unknown length, which are counted as one round.
    """
    bodies = {c.id: c for c in module.computations}
    runs, unknown = {module.entry_computation_id: 1}, 0
    for computation in reversed(module.computations):  # callers before callees
        for value in computation.instructions:
            if value.opcode not in ('while', 'call', 'conditional'):
                continue
            trips = (
                _trips_of(value, computation, bodies) if value.opcode == 'while' else 1
            )
            if computation.id not in runs:
                continue
            unknown += trips is None
            for number in value.called_computation_ids:
                more = runs[computation.id] * (1 if trips is None else trips)
                runs[number] = runs.get(number, 0) + more
    return runs, unknown


def _trips_of(
    loop: protos.HloInstructionProto,
    computation: protos.HloComputationProto,
    bodies: Mapping[int, protos.HloComputationProto],
) -> int | None:
    """Counts the rounds of a loop of a computation; None if that is unknown."""
    body, condition = (bodies[number] for number in loop.called_computation_ids)
    # An outer computation's own parameters are unknown.
    state = _Evaluator(computation, bodies, ()).value(loop.operand_ids[0])
    for trip in range(_MOST_TRIPS):
        goes_on = _Evaluator(condition, bodies, (state,)).value(condition.root_id)
        if not isinstance(goes_on, int):
            return None
        if not goes_on:
            return trip
        state = _Evaluator(body, bodies, (state,)).value(body.root_id)
    return None


class _Evaluator:
    """Computes scalar integers of a computation, as far as they are known.

    Args:
        arguments: the values of its parameters.
    """

    def __init__(
        self,
        computation: protos.HloComputationProto,
        bodies: Mapping[int, protos.HloComputationProto],
        arguments: Sequence[_Value],
    ):
        self._instructions = {i.id: i for i in computation.instructions}
        self._bodies, self._arguments = bodies, arguments

    def value(self, number: int) -> _Value:
        """Returns the value of an instruction, by its id."""
        value = self._instructions[number]
        if math.prod(value.shape.dimensions) != 1:
            return None
        operands = value.operand_ids
        if value.opcode == 'parameter':
            place = value.parameter_number
            return self._arguments[place] if place < len(self._arguments) else None
        if value.opcode == 'constant':
            literal = value.literal
            found = [*literal.s32s, *literal.s64s, *literal.u32s, *literal.u64s]
            return found[0] if found else next(map(int, literal.preds), None)
        if value.opcode == 'tuple':
            parts = map(self.value, operands)
            return {n: p for n, p in enumerate(parts) if isinstance(p, int)}
        if value.opcode == 'get-tuple-element':
            whole = self.value(operands[0])
            return whole.get(value.tuple_index) if isinstance(whole, dict) else None
        if value.opcode in _COPIES:
            return self.value(operands[0])
        if value.opcode in ('fusion', 'call'):
            body = self._bodies[value.called_computation_ids[0]]
            arguments = [self.value(o) for o in operands]
            return _Evaluator(body, self._bodies, arguments).value(body.root_id)
        compute = _COMPUTE.get(value.opcode)
        if value.opcode == 'compare':
            compute = _COMPARE.get(value.comparison_direction)
        if compute is None:
            return None
        left, right = (self.value(o) for o in operands)
        if isinstance(left, int) and isinstance(right, int):
            return int(compute(left, right))
        return None
