"""Cuts out of a program what cannot run here, so that the rest can be compiled.

Custom calls run native code, and collectives, sends and receives need other devices.
Those that only say where data lie are replaced by their operands.
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
from tpugraphs_lab.kernels import building

# Custom calls that only say where data lie, unless they change the shape.
_PLACEMENTS = frozenset(
    'Sharding SPMDFullToShardShape SPMDShardToFullShape ShardBarrierFrom '
    'ShardBarrierTo MoveToHost MoveToDevice PinToDevice PinToDeviceSram '
    'annotate_device_placement'.split()
)
_PLACEMENT_PREFIX = 'xla.sdy.'
LAYOUT = 'LayoutConstraint'  # a custom call that XLA fulfils
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
        name_of(instruction)
        for computation in module.computations
        for instruction in outside(computation)
        if instruction.opcode not in _WAITS
    )


def describe(cut_out: Mapping[str, int]) -> str:
    """Returns counts as text: "24 custom calls of 'f', 6 all-reduce"."""
    ordered = sorted(cut_out.items(), key=lambda item: (-item[1], item))
    parts = [
        text.count(count, 'custom call') + name[len('custom call') :]
        if name.startswith('custom call')
        else f'{count:,} {name}'
        for name, count in ordered
    ]
    return text.list_names(parts)


def cut_out(module: protos.HloModuleProto) -> None:
    """Replaces the operations of an HloModuleProto that cannot run here by feeds."""
    fresh = building.fresh_ids(module)
    for computation in module.computations:
        if outside(computation):
            _Writer(computation, fresh).rewrite()
    _drop_uncalled(module)


def drop_placements(module: protos.HloModuleProto) -> None:
    """Replaces operations that only say where data lie by their operands."""
    for computation in module.computations:
        values = {i.id: i for i in computation.instructions}
        operands = {
            i.id: i.operand_ids[0]
            for i in computation.instructions
            if _is_placement(i, values)
        }
        if not operands:
            continue
        sources: dict[int, int] = {}  # they come after their operands
        for number, operand in operands.items():
            sources[number] = sources.get(operand, operand)
        kept = [i for i in computation.instructions if i.id not in sources]
        for i in kept:
            i.operand_ids[:] = [sources.get(o, o) for o in i.operand_ids]
        computation.root_id = sources.get(computation.root_id, computation.root_id)
        building.set_repeated(computation.instructions, kept)


def _is_placement(
    instruction: protos.HloInstructionProto,
    values: Mapping[int, protos.HloInstructionProto],
) -> bool:
    """Returns whether an operation only says where its operand lies.

    `values` are all instructions of the computation, by id.
    """
    target = instruction.custom_call_target
    is_known = target in _PLACEMENTS or target.startswith(_PLACEMENT_PREFIX)
    if not is_known or not instruction.operand_ids:
        return False
    own, operand = instruction.shape, values[instruction.operand_ids[0]].shape
    if own.element_type == building.TUPLE:  # a group of shardings has no result
        return not own.tuple_shapes
    same = own.element_type == operand.element_type
    return same and own.dimensions == operand.dimensions


def outside(
    computation: protos.HloComputationProto,
) -> list[protos.HloInstructionProto]:
    """Returns the operations of a computation that cannot run here."""
    values = {i.id: i for i in computation.instructions}
    return [
        i
        for i in values.values()
        if i.opcode in _EXCHANGES
        or i.opcode in _FEEDS
        or i.opcode == 'custom-call'
        and i.custom_call_target != LAYOUT
        and not _is_placement(i, values)
    ]


def name_of(instruction: protos.HloInstructionProto) -> str:
    """Returns an operation's name for `counts`."""
    if instruction.opcode == 'custom-call':
        return f'custom call of {text.quoted(instruction.custom_call_target)}'
    return instruction.opcode.replace('-start', '')


class _Writer:
    """Rewrites the instructions of a computation with feeds; takes ids from `fresh`."""

    def __init__(self, computation: protos.HloComputationProto, fresh: Iterator[int]):
        self._computation, self._fresh = computation, fresh
        self._shapes = {i.id: i.shape for i in computation.instructions}
        self._written: list[protos.HloInstructionProto] = []

    def rewrite(self) -> None:
        """Rewrites the computation."""
        cut_out = {i.id for i in outside(self._computation)}
        for instruction in self._computation.instructions:
            if instruction.opcode in _FEEDS or instruction.id not in cut_out:
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
