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
_Value = int | tuple['_Value', ...] | None
_Instructions = Sequence[protos.HloInstructionProto]
_MOST_BITS = 64  # of an integer that is followed


def count_runs(module: protos.HloModuleProto) -> tuple[dict[int, int], int]:
    """Counts how often each computation runs in one run of the module.

    Returns:
        Id of a computation -> runs of those that the entry computation reaches by
        loops, calls and branches, of which all are counted; and the number of loops
        of an unknown length, which are counted as one round.
    """
    evaluator = _Evaluator(module)
    runs, unknown = {module.entry_computation_id: 1}, 0
    for computation in reversed(module.computations):  # callers before callees
        if computation.id not in runs:
            continue
        callers = [
            i
            for i in computation.instructions
            if i.opcode in ('while', 'call', 'conditional')
        ]
        values: Mapping[int, _Value] = {}
        if any(caller.opcode == 'while' for caller in callers):
            # An outer computation's own parameters are unknown.
            values = evaluator.values(computation.instructions, ())
        for caller in callers:
            trips: int | None = 1
            if caller.opcode == 'while':
                body, condition = caller.called_computation_ids
                state = values[caller.operand_ids[0]]
                trips = evaluator.count_trips(body, condition, state)
            unknown += trips is None
            for number in caller.called_computation_ids:
                more = runs[computation.id] * (1 if trips is None else trips)
                runs[number] = runs.get(number, 0) + more
    return runs, unknown


class _Evaluator:
    """Computes scalar integers of a module, as far as they are known."""

    def __init__(self, module: protos.HloModuleProto):
        self._bodies = {c.id: c for c in module.computations}
        # Instructions that the root of a computation depends on, by its id.
        self._needed: dict[int, _Instructions] = {}
        self._results: dict[tuple[int, tuple[_Value, ...]], _Value] = {}

    def count_trips(self, body: int, condition: int, state: _Value) -> int | None:
        """Counts the rounds of a loop from its first state; None if unknown."""
        for trip in range(_MOST_TRIPS):
            goes_on = self._root(condition, (state,))
            if not isinstance(goes_on, int):
                return None
            if not goes_on:
                return trip
            state = self._root(body, (state,))
        return None

    def values(
        self, instructions: _Instructions, arguments: Sequence[_Value]
    ) -> dict[int, _Value]:
        """Returns the values of instructions by id; operands stand before users."""
        values: dict[int, _Value] = {}
        for instruction in instructions:
            values[instruction.id] = self._value(instruction, values, arguments)
        return values

    def _root(self, number: int, arguments: Sequence[_Value]) -> _Value:
        """Returns the result of a computation."""
        body = self._bodies[number]
        if number not in self._needed:
            by_id = {i.id: i for i in body.instructions}
            needed, waiting = set[int](), [body.root_id]
            while waiting:
                value = by_id[waiting.pop()]
                if value.id not in needed:
                    needed.add(value.id)
                    waiting += value.operand_ids if _is_scalar(value) else ()
            self._needed[number] = [i for i in by_id.values() if i.id in needed]
        return self.values(self._needed[number], arguments)[body.root_id]

    def _called(self, number: int, arguments: tuple[_Value, ...]) -> _Value:
        """Returns the result of a call, computed once for equal arguments."""
        key = number, arguments
        if key not in self._results:
            self._results[key] = self._root(number, arguments)
        return self._results[key]

    def _value(
        self,
        value: protos.HloInstructionProto,
        values: Mapping[int, _Value],
        arguments: Sequence[_Value],
    ) -> _Value:
        """Returns the value of an instruction whose operands have `values`."""
        if not _is_scalar(value):
            return None
        if value.opcode == 'parameter':
            place = value.parameter_number
            return arguments[place] if place < len(arguments) else None
        if value.opcode == 'constant':
            literal = value.literal
            found = [*literal.s32s, *literal.s64s, *literal.u32s, *literal.u64s]
            return found[0] if found else next(map(int, literal.preds), None)
        operands = tuple(values[o] for o in value.operand_ids)
        if value.opcode == 'tuple':
            return operands
        if value.opcode == 'get-tuple-element':
            whole, place = operands[0], value.tuple_index
            if not isinstance(whole, tuple) or not 0 <= place < len(whole):
                return None
            return whole[place]
        if value.opcode in _COPIES:
            return operands[0]
        if value.opcode in ('fusion', 'call'):
            return self._called(value.called_computation_ids[0], operands)
        compute = _COMPUTE.get(value.opcode)
        if value.opcode == 'compare':
            compute = _COMPARE.get(value.comparison_direction)
        if compute is None:
            return None
        left, right = operands
        if not isinstance(left, int) or not isinstance(right, int):
            return None
        result = int(compute(left, right))
        return result if result.bit_length() <= _MOST_BITS else None


def _is_scalar(value: protos.HloInstructionProto) -> bool:
    """Returns whether a value is a scalar or a tuple."""
    return math.prod(value.shape.dimensions) == 1
