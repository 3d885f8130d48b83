"""Cuts out of a program what cannot run here, so that the rest can be compiled.

Custom calls run native code, and collectives, sends and receives need other devices.
Each becomes an infeed, which yields its results, and outfeeds, which take its
operands: XLA knows nothing of the values of the first, and removes neither as dead
code, in the bodies of loops as well.  The rewritten program is compiled, to cut kernels
from it, and never run.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence

from baselines.core import text
from baselines.hlo import protos
from baselines.hlo import schema
from tpugraphs.kernels import building

# Custom calls that XLA itself uses as annotations.
CUSTOM_CALLS = frozenset(
    ('LayoutConstraint', 'Sharding', 'SPMDFullToShardShape', 'SPMDShardToFullShape')
)
_FEEDS = frozenset(('infeed', 'outfeed'))
# Operations that exchange arrays with other devices or with the host; those that only
# wait for the end of one are not counted.
_WAITS = frozenset(
    'all-gather-done all-reduce-done async-done async-update collective-permute-done '
    'copy-done recv-done send-done'.split()
)
_EXCHANGES = _WAITS | frozenset(
    'all-gather all-gather-start all-reduce all-reduce-start all-to-all async-start '
    'collective-broadcast collective-permute collective-permute-start copy-start '
    'ragged-all-to-all recv reduce-scatter send'.split()
)

# Types of values that are no arrays of numbers.
_NO_DATA = frozenset(kind.number for kind in schema.ELEMENT_TYPES if not kind.bytes)


def counts(module: protos.HloModuleProto) -> dict[str, int]:
    """Counts the operations of a module that cannot run here, by their names."""
    return collections.Counter(
        _name_of(instruction)
        for computation in module.computations
        for instruction in computation.instructions
        if _is_outside(instruction) and instruction.opcode not in _WAITS
    )


def described(cut_out: Mapping[str, int]) -> str:
    """Returns counts as text: "24 custom calls of 'f', 6 all-reduce"."""
    return ', '.join(
        text.count(count, 'custom call') + name[len('custom call') :]
        if name.startswith('custom call')
        else f'{count:,} {name}'
        for name, count in sorted(cut_out.items(), key=lambda item: (-item[1], item))
    )


def cut_out(module: protos.HloModuleProto) -> None:
    """Replaces the operations of an HloModuleProto that cannot run here by feeds."""
    fresh = building.fresh_ids(module)
    for computation in module.computations:
        if any(map(_is_outside, computation.instructions)):
            _Writer(computation, fresh).rewrite()
    _drop_uncalled(module)


def _is_outside(instruction: protos.HloInstructionProto) -> bool:
    """Returns whether an operation cannot run here."""
    if instruction.opcode == 'custom-call':
        return instruction.custom_call_target not in CUSTOM_CALLS
    return instruction.opcode in _EXCHANGES | _FEEDS


def _name_of(instruction: protos.HloInstructionProto) -> str:
    """Returns an operation's name for `counts`."""
    if instruction.opcode == 'custom-call':
        return f'custom call of {instruction.custom_call_target!r}'
    return instruction.opcode.replace('-start', '')


class _Writer:
    """Rewrites the instructions of a computation with feeds; takes ids from `fresh`."""

    def __init__(self, computation: protos.HloComputationProto, fresh: Iterator[int]):
        self._computation, self._fresh = computation, fresh
        self._shapes = {i.id: i.shape for i in computation.instructions}
        self._written: list[protos.HloInstructionProto] = []

    def rewrite(self) -> None:
        """Rewrites the computation."""
        for instruction in self._computation.instructions:
            if instruction.opcode in _FEEDS or not _is_outside(instruction):
                self._written.append(instruction)
                continue
            for number in instruction.operand_ids:
                self._take(number, self._shapes[number])
            self._result(instruction.shape, instruction.id)
        building.set_repeated(self._computation.instructions, self._written)

    def _take(self, number: int, shape: protos.ShapeProto) -> None:
        """Adds outfeeds of the arrays in a value, by its id."""
        if shape.element_type == building.TUPLE:
            for place, part in enumerate(shape.tuple_shapes):
                element = self._add('get-tuple-element', part, [number])
                element.tuple_index = place
                self._take(element.id, part)
        elif _is_data(shape):
            token = self._add('after-all', _token())
            feed = self._add('outfeed', _token(), [number, token.id])
            feed.outfeed_shape.CopyFrom(shape)

    def _result(self, shape: protos.ShapeProto, number: int = 0) -> int:
        """Adds a value from outside of the program; returns its id.

        Args:
            number: the id that it gets; 0 for a new one.
        """
        if shape.element_type == building.TUPLE:
            parts = [self._result(part) for part in shape.tuple_shapes]
            return self._add('tuple', shape, parts, number).id
        if not _is_data(shape):
            return self._add('after-all', _token(), (), number).id
        token = self._add('after-all', _token())
        feed = self._add('infeed', building.tuple_of([shape, token.shape]), [token.id])
        element = self._add('get-tuple-element', shape, [feed.id], number)
        element.tuple_index = 0
        return element.id

    def _add(
        self,
        opcode: str,
        shape: protos.ShapeProto,
        operands: Sequence[int] = (),
        number: int = 0,
    ) -> protos.HloInstructionProto:
        """Adds an instruction with an id, by default a new one."""
        number = number or next(self._fresh)
        instruction = protos.HloInstructionProto(
            id=number,
            name=f'{opcode}.cut.{number}',  # names are unique in a module
            opcode=opcode,
            operand_ids=operands,
        )
        instruction.shape.CopyFrom(shape)
        self._written.append(instruction)
        return instruction


def _token() -> protos.ShapeProto:
    """Returns the shape of a token, which has no layout."""
    shape = building.shape_of('token', [])
    shape.ClearField('layout')
    return shape


def _is_data(shape: protos.ShapeProto) -> bool:
    """Returns whether a shape is an array, of a fixed size or not, and no token."""
    return shape.element_type not in _NO_DATA


def _drop_uncalled(module: protos.HloModuleProto) -> None:
    """Removes the computations that are no longer called."""
    callees = {
        c.id: {callee for i in c.instructions for callee in i.called_computation_ids}
        for c in module.computations
    }
    used: set[int] = set()
    waiting = [module.entry_computation_id]
    while waiting:
        number = waiting.pop()
        if number not in used:
            used.add(number)
            waiting += callees[number]
    kept = [c for c in module.computations if c.id in used]
    if len(kept) < len(module.computations):
        building.set_repeated(module.computations, kept)
