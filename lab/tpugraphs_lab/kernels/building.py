"""Builds HloModuleProtos: shapes, instructions, computations, loops.

module = Module('double')
entry = module.computation('entry')
x = entry.parameter(shape_of('f32', [8]))
entry.add('add', x.shape, [x, x])
proto = module.finish(entry)

A value is the HloInstructionProto that makes it.  Computations are stored when
they are finished, callees before callers, as XLA wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
import itertools
import math
import re
from typing import TypeVar

from baselines.hlo import protos
from tpugraphs_lab.programs import elided

Message = TypeVar('Message', bound='protos.Message')

_NUMBERS = {kind.name: kind.number for kind in elided.KINDS.values()}
TUPLE = _NUMBERS['tuple']
# NumPy's names of types begin otherwise, and have `_` before the bits of exponents.
_PREFIXES = {'s': 'int', 'u': 'uint', 'f': 'float', 'bf': 'bfloat', 'c': 'complex'}
_TYPE_NAME = re.compile(r'([a-z]+)(\d+)(\w*)')


def _numpy_name(name: str) -> str:
    """Returns NumPy's name of a type, or that of the package ml_dtypes."""
    if name == 'pred':
        return 'bool'
    prefix, bits, rest = _TYPE_NAME.findall(name)[0]
    return f'{_PREFIXES[prefix]}{bits}' + (f'_{rest}' if rest else '')


# Types of numbers -> NumPy's names.
NUMPY_TYPES = {
    number: _numpy_name(kind.name)
    for number, kind in elided.KINDS.items()
    if kind.bytes
}


def shape_of(kind: str | int, dims: Sequence[int]) -> protos.ShapeProto:
    """Returns a row-major ShapeProto of a type, by name or PrimitiveType number."""
    shape = protos.HloInstructionProto().shape
    shape.element_type = _NUMBERS[kind] if isinstance(kind, str) else kind
    shape.dimensions.extend(dims)
    shape.is_dynamic_dimension.extend([False] * len(dims))
    shape.layout.minor_to_major.extend(reversed(range(len(dims))))
    return shape


def tuple_of(shapes: Sequence[protos.ShapeProto]) -> protos.ShapeProto:
    """Returns the ShapeProto of a tuple."""
    shape = protos.HloInstructionProto().shape
    shape.element_type = TUPLE
    shape.tuple_shapes.extend(shapes)
    return shape


def is_array(shape: protos.ShapeProto) -> bool:
    """Returns whether a shape is an array of numbers, of fixed size."""
    return shape.element_type in NUMPY_TYPES and not any(shape.is_dynamic_dimension)


def elements(shape: protos.ShapeProto) -> int:
    """Returns the number of elements of an array."""
    return math.prod(shape.dimensions)


def num_bytes(shape: protos.ShapeProto) -> int:
    """Returns the size of an array in bytes."""
    return elements(shape) * elided.KINDS[shape.element_type].bytes


def set_repeated(field: protos.Repeated[Message], messages: Iterable[Message]) -> None:
    """Sets a repeated field to messages, some of which may be its own."""
    copies = [type(m).FromString(m.SerializeToString()) for m in messages]
    del field[:]
    field.extend(copies)


def fresh_ids(module: protos.HloModuleProto) -> Iterator[int]:
    """Yields ids that no instruction or computation of a module has."""
    ids = [i.id for c in module.computations for i in c.instructions]
    ids += [c.id for c in module.computations]
    return itertools.count(1 + max(ids, default=0))


def renumber(module: protos.HloModuleProto) -> None:
    """Gives all instructions and computations ids and names that occur once.

    XLA takes the lower 32 bits of an id for the place in its computation, so that
    `fresh_ids` are not enough.
    """
    ids = itertools.count(1)
    names: set[str] = set()
    computations: dict[int, int] = {}

    def distinct(name: str, number: int) -> str:
        while name in names:
            name = f'{name}.{number}'
        names.add(name)
        return name

    # Callees come before their callers.
    for computation in module.computations:
        new = {i.id: next(ids) for i in computation.instructions}
        for i in computation.instructions:
            i.id, i.name = new[i.id], distinct(i.name, new[i.id])
            i.operand_ids[:] = [new[o] for o in i.operand_ids]
            i.called_computation_ids[:] = [
                computations[c] for c in i.called_computation_ids
            ]
        computation.root_id = new[computation.root_id]
        computations[computation.id] = computation.id = next(ids)
    module.entry_computation_id = computations[module.entry_computation_id]


def shape_text(shape: protos.ShapeProto) -> str:
    """Returns a shape as XLA writes it: `f32[8,16]`, `f32[<=8,16]`, `f32[?,16]`."""
    kind = elided.KINDS.get(shape.element_type)
    name = kind.name if kind else f'type {shape.element_type}'
    # A file may say of no dimension whether it is dynamic.
    dynamic = itertools.chain(shape.is_dynamic_dimension, itertools.repeat(False))
    return f'{name}[{",".join(map(_size_text, shape.dimensions, dynamic))}]'


def _size_text(size: int, is_dynamic: bool) -> str:
    """Returns the size of a dimension as text; XLA stores unknown ones as negative."""
    if size < 0:
        return '?'
    return f'<={size}' if is_dynamic else str(size)


class Module:
    """An HloModuleProto under construction.

    Args:
        callees: computations (reducers) of another module that instructions may call,
            by id.
    """

    def __init__(
        self, name: str, callees: Mapping[int, protos.HloComputationProto] | None = None
    ):
        self.proto = protos.HloModuleProto(name=name)
        self._last = 0
        self._callees = callees or {}
        self._copied: dict[int, int] = {}

    def next_id(self) -> int:
        """Returns an id that no instruction or computation has yet."""
        self._last += 1
        return self._last

    def computation(self, name: str, parent: Computation | None = None) -> Computation:
        """Starts a computation; `Computation.finish` stores it."""
        return Computation(self, name, parent)

    def copy_called(self, number: int) -> int:
        """Copies one of `callees`, by its id, once; returns the new id."""
        if number not in self._copied:
            callee = self._callees[number]
            copy = type(callee).FromString(callee.SerializeToString())
            ids = {i.id: self.next_id() for i in copy.instructions}
            for i in copy.instructions:
                clear_fields(i)
                i.id = ids[i.id]
                i.operand_ids[:] = [ids[o] for o in i.operand_ids]
                i.called_computation_ids[:] = map(
                    self.copy_called, i.called_computation_ids
                )
                i.name = f'{i.opcode}.{i.id}'
            copy.root_id = ids[copy.root_id]
            copy.id = self._copied[number] = self.next_id()
            copy.name = f'called.{copy.id}'
            names = copy.program_shape.parameter_names
            names[:] = [f'parameter.{place}' for place in range(len(names))]
            self.proto.computations.append(copy)
        return self._copied[number]

    def finish(
        self, entry: Computation, root: protos.HloInstructionProto | None = None
    ) -> protos.HloModuleProto:
        """Stores the entry computation and returns the HloModuleProto."""
        self.proto.entry_computation_id = entry.finish(root)
        self.proto.entry_computation_name = entry.proto.name
        stored = self.proto.computations[-1]
        self.proto.host_program_shape.CopyFrom(stored.program_shape)
        return self.proto


class Computation:
    """A computation under construction; the last instruction is its root.

    Args:
        parent: if this is the body of a loop, the computation around the loop, whose
            values `use` brings in.

    Attributes:
        cache: values by keys of the callers' choice, to add them once.
        outside: values of `parent` that go into the loop's state.
    """

    def __init__(self, module: Module, name: str, parent: Computation | None = None):
        self.module = module
        self.parent = parent
        self.proto = protos.HloModuleProto().computations.add(name=name)
        self.cache: dict[Hashable, protos.HloInstructionProto] = {}
        self._parameters: list[protos.HloInstructionProto] = []
        # id -> instruction; of a parent's value, the state's element that holds it
        self._here: dict[int, protos.HloInstructionProto] = {}
        self.outside: list[protos.HloInstructionProto] = []
        self._elements: list[protos.HloInstructionProto] = []  # of the loop's state
        if parent is not None:
            self._state = self.parameter()

    def parameter(
        self, shape: protos.ShapeProto | None = None
    ) -> protos.HloInstructionProto:
        """Adds a parameter; without a shape, the caller sets it later."""
        number = len(self._parameters)
        value = self.add('parameter', shape, parameter_number=number)
        self._parameters.append(value)
        return value

    def add(
        self,
        opcode: str,
        shape: protos.ShapeProto | None,
        operands: Sequence[protos.HloInstructionProto] = (),
        like: protos.HloInstructionProto | None = None,
        calls: Sequence[int] | None = None,
        **fields: object,
    ) -> protos.HloInstructionProto:
        """Adds an instruction.

        Args:
            operands: values of this computation.
            like: an instruction whose attributes it takes; computations that
                it calls are copied from the module's callees.
            calls: ids of computations of this module.
            **fields: fields of HloInstructionProto; repeated ones as lists.
        """
        value = self.proto.instructions.add()
        if like is not None:
            value.CopyFrom(like)
            clear_fields(value)
            if calls is None:
                calls = [
                    self.module.copy_called(c) for c in like.called_computation_ids
                ]
        value.opcode = opcode
        if shape is not None:
            value.shape.CopyFrom(shape)
        value.id = self.module.next_id()
        value.name = f'{opcode}.{value.id}'
        value.operand_ids[:] = [o.id for o in operands]
        value.called_computation_ids[:] = calls or ()
        for name, content in fields.items():
            if isinstance(content, (list, tuple)):
                del getattr(value, name)[:]
                getattr(value, name).extend(content)
            else:
                setattr(value, name, content)
        self._here[value.id] = value
        return value

    def constant(self, kind: str | int, number: float) -> protos.HloInstructionProto:
        """Adds a scalar constant of a type, once."""
        # 0.0 and -0.0 are equal.
        key = ('constant', kind, str(number))
        if key not in self.cache:
            if isinstance(number, float):
                name = 'f32'
            else:
                name = 's32' if abs(number) < 1 << 31 else 's64'
                # A conversion to uint64 keeps the bits.
                if number >= 1 << 63:
                    number -= 1 << 64
            value = self.add('constant', shape_of(name, []))
            value.literal.shape.CopyFrom(value.shape)
            getattr(value.literal, f'{name}s').append(number)
            shape = shape_of(kind, [])
            if shape != value.shape:
                value = self.add('convert', shape, [value])
            self.cache[key] = value
        return self.cache[key]

    def transposed(
        self, value: protos.HloInstructionProto, order: Sequence[int]
    ) -> protos.HloInstructionProto:
        """Adds a transpose to an order of dimensions; none if that is the order."""
        if list(order) == sorted(order):
            return value
        sizes = [value.shape.dimensions[d] for d in order]
        shape = shape_of(value.shape.element_type, sizes)
        return self.add('transpose', shape, [value], dimensions=list(order))

    def use(self, value: protos.HloInstructionProto) -> protos.HloInstructionProto:
        """Returns a value as seen here; an outer one joins the loop's state."""
        if value.id not in self._here:
            if self.parent is None:
                return value
            self.outside.append(self.parent.use(value))
            self._here[value.id] = self.element(value.shape)
        return self._here[value.id]

    def element(self, shape: protos.ShapeProto) -> protos.HloInstructionProto:
        """Adds an element to the loop's state."""
        index = len(self._elements)
        self._elements.append(
            self.add('get-tuple-element', shape, [self._state], tuple_index=index)
        )
        return self._elements[-1]

    def close(
        self, counter: protos.HloInstructionProto, carried: protos.HloInstructionProto
    ) -> protos.ShapeProto:
        """Ends the body of a loop; returns the shape of the loop's state.

        Args:
            counter: the first element of the state, counted on.
            carried: the new value of the second element, which the body changes.
        """
        shape = self._state.shape
        shape.element_type = TUPLE
        shape.tuple_shapes.extend(element.shape for element in self._elements)
        following = self.add('add', counter.shape, [counter, self.constant('s32', 1)])
        self.add('tuple', shape, [following, carried, *self._elements[2:]])
        return shape

    def finish(self, root: protos.HloInstructionProto | None = None) -> int:
        """Stores the computation in its module and returns its id."""
        root = self.proto.instructions[-1] if root is None else root
        self.proto.root_id = root.id
        self.proto.id = self.module.next_id()
        self.proto.name = f'{self.proto.name}.{self.proto.id}'
        program = self.proto.program_shape
        program.parameters.extend(p.shape for p in self._parameters)
        program.parameter_names.extend(p.name for p in self._parameters)
        program.result.CopyFrom(root.shape)
        self.module.proto.computations.append(self.proto)
        return self.proto.id


def clear_fields(instruction: protos.HloInstructionProto) -> None:
    """Clears fields of an instruction that do not matter to times or make XLA abort."""
    for field in (
        'metadata',
        'backend_config',
        'sharding',
        'frontend_attributes',
        'parameter_replication',
        'control_predecessor_ids',
        'statistics_viz',
        'replica_groups',
    ):
        instruction.ClearField(field)
    if instruction.opcode == 'call':
        # XLA refuses a composite, which our messages do not know, without attributes.
        instruction.DiscardUnknownFields()


def loop(
    scope: Computation,
    trips: int,
    initial: protos.HloInstructionProto,
    body: Callable[
        [Computation, protos.HloInstructionProto, protos.HloInstructionProto],
        protos.HloInstructionProto,
    ],
) -> protos.HloInstructionProto:
    """Adds a `while` that runs `body` for 0, 1, ..., trips - 1; returns the last value.

    Args:
        trips: number of times that the body runs, at least 1.
        initial: the value that the body changes, before the loop.
        body: (computation, counter, value) -> the next value; it reaches values
            around the loop with `Computation.use`.
    """
    inside = scope.module.computation('body', scope)
    counter = inside.element(shape_of('s32', []))
    carried = body(inside, counter, inside.element(initial.shape))
    shape = inside.close(counter, carried)
    calls = [inside.finish()]

    condition = scope.module.computation('condition')
    state = condition.parameter(shape)
    count = condition.add('get-tuple-element', counter.shape, [state], tuple_index=0)
    condition.add(
        'compare',
        shape_of('pred', []),
        [count, condition.constant('s32', trips)],
        comparison_direction='LT',
        comparison_type='SIGNED',
    )
    first = [scope.constant('s32', 0), initial, *inside.outside]
    state = scope.add('tuple', shape, first)
    final = scope.add('while', shape, [state], calls=[*calls, condition.finish()])
    return scope.add('get-tuple-element', initial.shape, [final], tuple_index=1)
