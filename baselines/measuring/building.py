"""HloModuleProtos built by hand: shapes, instructions, computations, loops.

module = Module('double')
entry = module.computation('entry')
x = entry.parameter(shape_of('f32', [8]))
entry.add('add', x.shape, [x, x])
proto = module.finish(entry)

A value is the HloInstructionProto that makes it.  Computations are stored when
they are finished, callees before callers, as XLA wants them.
"""

import math
import struct
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from baselines.hlo import protos

# XLA's PrimitiveType numbers of what can be measured, and NumPy's names.
TYPES = {
    'pred': (1, 'bool'),
    's8': (2, 'int8'),
    's16': (3, 'int16'),
    's32': (4, 'int32'),
    's64': (5, 'int64'),
    'u8': (6, 'uint8'),
    'u16': (7, 'uint16'),
    'u32': (8, 'uint32'),
    'u64': (9, 'uint64'),
    'f16': (10, 'float16'),
    'f32': (11, 'float32'),
    'f64': (12, 'float64'),
    'bf16': (16, 'bfloat16'),
}
NUMPY_TYPES = dict(TYPES.values())
_TUPLE = 13
_S32 = TYPES['s32'][0]
_PRED = TYPES['pred'][0]

# Where LiteralProto keeps a scalar: field, and whether it is bytes.
_LITERALS = {
    1: 'preds',
    4: 's32s',
    5: 's64s',
    8: 'u32s',
    9: 'u64s',
    11: 'f32s',
    12: 'f64s',
}
# The rest are little-endian bytes: field, and `struct`'s letter.
_PACKED = {
    2: ('s8s', 'b'),
    3: ('s16s', 'h'),
    6: ('u8s', 'B'),
    7: ('u16s', 'H'),
    10: ('f16s', 'e'),
    16: ('bf16s', 'f'),
}


def shape_of(kind: Any, dims: Sequence[int]) -> Any:
    """Returns a row-major ShapeProto.

    Args:
        kind: a name in TYPES, or a PrimitiveType number.
        dims: the dimensions, major to minor.
    """
    shape = protos.protos().HloInstructionProto().shape
    shape.element_type = TYPES[kind][0] if isinstance(kind, str) else kind
    shape.dimensions.extend(dims)
    shape.is_dynamic_dimension.extend([False] * len(dims))
    shape.layout.minor_to_major.extend(reversed(range(len(dims))))
    return shape


def tuple_of(shapes: Sequence[Any]) -> Any:
    """Returns the ShapeProto of a tuple."""
    shape = protos.protos().HloInstructionProto().shape
    shape.element_type = _TUPLE
    shape.tuple_shapes.extend(shapes)
    return shape


def is_array(shape: Any) -> bool:
    """Whether it is an array of a type in TYPES, of fixed size."""
    return shape.element_type in NUMPY_TYPES and not any(shape.is_dynamic_dimension)


def elements(shape: Any) -> int:
    """Returns how many elements an array has."""
    return math.prod(shape.dimensions)


def num_bytes(shape: Any) -> int:
    """Returns the size of an array in bytes."""
    name = NUMPY_TYPES[shape.element_type]
    digits = name.lstrip('abcdefghijklmnopqrstuvwxyz')
    return elements(shape) * (int(digits or 8) // 8)


def words_of(shape: Any) -> str:
    """Returns a shape in XLA's words: `f32[8,16]`."""
    names = {number: name for name, (number, _) in TYPES.items()}
    kind = names.get(shape.element_type, f'type {shape.element_type}')
    return f'{kind}[{",".join(map(str, shape.dimensions))}]'


class Module:
    """An HloModuleProto under construction.

    Args:
        name: its name.
        source: a module whose computations (reducers) instructions may call.
    """

    def __init__(self, name: str, source: Any = None):
        self.proto = protos.protos().HloModuleProto(name=name)
        self._last = 0
        self._source = {c.id: c for c in source.computations} if source else {}
        self._copied: Dict[int, int] = {}

    def next_id(self) -> int:
        """Returns a number that no instruction or computation has yet."""
        self._last += 1
        return self._last

    def computation(self, name: str) -> 'Computation':
        """Starts a computation; `Computation.finish` stores it."""
        return Computation(self, name)

    def called(self, number: int) -> int:
        """Copies a computation of the source once; returns its id here."""
        if number not in self._copied:
            copy = type(self._source[number]).FromString(
                self._source[number].SerializeToString()
            )
            ids = {i.id: self.next_id() for i in copy.instructions}
            for i in copy.instructions:
                plain(i)
                i.id = ids[i.id]
                i.operand_ids[:] = [ids[o] for o in i.operand_ids]
                inner = [self.called(c) for c in i.called_computation_ids]
                i.called_computation_ids[:] = inner
                i.name = f'{i.opcode}.{i.id}'
            copy.root_id = ids[copy.root_id]
            copy.id = self.next_id()
            copy.name = f'called.{copy.id}'
            names = copy.program_shape.parameter_names
            names[:] = [f'parameter.{place}' for place in range(len(names))]
            self.proto.computations.append(copy)
            self._copied[number] = copy.id
        return self._copied[number]

    def finish(self, entry: 'Computation', root: Any = None) -> Any:
        """Stores the entry computation and returns the HloModuleProto."""
        self.proto.entry_computation_id = entry.finish(root)
        self.proto.entry_computation_name = entry.proto.name
        stored = self.proto.computations[-1]
        self.proto.host_program_shape.CopyFrom(stored.program_shape)
        return self.proto


class Computation:
    """A computation under construction; the last instruction is its root."""

    def __init__(self, module: Module, name: str):
        self.module = module
        self.proto = protos.protos().HloModuleProto().computations.add(name=name)
        self._parameters: List[Any] = []

    def parameter(self, shape: Optional[Any] = None) -> Any:
        """Adds a parameter; a shape that is not known yet is set later."""
        number = len(self._parameters)
        value = self.add('parameter', shape, parameter_number=number)
        self._parameters.append(value)
        return value

    def set_parameters(self, values: Sequence[Any]) -> None:
        """Says which instructions are the parameters, in any order."""
        self._parameters = sorted(values, key=lambda value: value.parameter_number)

    def add(
        self,
        opcode: str,
        shape: Optional[Any],
        operands: Sequence[Any] = (),
        like: Any = None,
        calls: Optional[Sequence[int]] = None,
        **fields: Any,
    ) -> Any:
        """Adds an instruction.

        Args:
            opcode: HLO's name of the operation.
            shape: its ShapeProto.
            operands: values of this computation.
            like: an instruction whose attributes it takes; computations that
                it calls are copied from the module's source.
            calls: ids of computations of this module.
            **fields: fields of HloInstructionProto; repeated ones as lists.
        """
        value = self.proto.instructions.add()
        if like is not None:
            value.CopyFrom(like)
            plain(value)
            if calls is None:
                calls = [self.module.called(c) for c in like.called_computation_ids]
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
        return value

    def constant(self, kind: int, number: float) -> Any:
        """Adds a scalar constant of a PrimitiveType."""
        value = self.add('constant', shape_of(kind, []))
        set_scalar(value, number)
        return value

    def finish(self, root: Any = None) -> int:
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


def plain(instruction: Any) -> None:
    """Removes what no measurement depends on, and what XLA may abort on."""
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


def set_scalar(value: Any, number: float) -> None:
    """Sets the literal of a scalar constant."""
    kind = value.shape.element_type
    literal = value.literal
    literal.Clear()
    literal.shape.CopyFrom(value.shape)
    if kind in _LITERALS:
        whole = kind not in (TYPES['f32'][0], TYPES['f64'][0])
        cast = bool if kind == _PRED else int if whole else float
        getattr(literal, _LITERALS[kind]).append(cast(number))
    else:
        field, letter = _PACKED[kind]
        cast = float if letter in 'ef' else int
        packed = struct.pack(f'<{letter}', cast(number))
        # A bfloat16 is the upper half of a float.
        setattr(literal, field, packed[2:] if field == 'bf16s' else packed)


# Loops ------------------------------------------------------------------------


class Scope:
    """A computation that can use values of the one around it.

    Args:
        computation: where instructions go.
        parent: the scope around the loop that this is the body of, if any.
    """

    def __init__(self, computation: Computation, parent: Optional['Scope'] = None):
        self.computation = computation
        self.parent = parent
        self.cache: Dict[Any, Any] = {}
        self._imports: Dict[int, Any] = {}
        self._from: List[Any] = []
        self._here = set()
        if parent is not None:
            self._state = computation.parameter()
            self._shapes: List[Any] = []

    def add(self, *args: Any, **kwargs: Any) -> Any:
        """Adds an instruction; see `Computation.add`."""
        value = self.computation.add(*args, **kwargs)
        self._here.add(value.id)
        return value

    def constant(self, kind: int, number: float) -> Any:
        """Adds a scalar constant, once."""
        key = ('constant', kind, number)
        if key not in self.cache:
            self.cache[key] = self.computation.constant(kind, number)
            self._here.add(self.cache[key].id)
        return self.cache[key]

    def use(self, value: Any) -> Any:
        """Returns a value of this scope or of one around it, as seen here."""
        if self.parent is None or value.id in self._here:
            return value
        if value.id not in self._imports:
            self._from.append(self.parent.use(value))
            self._imports[value.id] = self.element(value.shape)
        return self._imports[value.id]

    def element(self, shape: Any) -> Any:
        """Adds an element to the loop's state and returns it."""
        self._shapes.append(shape)
        return self.add(
            'get-tuple-element', shape, [self._state], tuple_index=len(self._shapes) - 1
        )

    def close(self, counter: Any, carried: Sequence[Any]) -> Tuple[Any, List[Any]]:
        """Ends the body; returns the state's shape and what goes in besides."""
        shape = tuple_of(self._shapes)
        self._state.shape.CopyFrom(shape)
        one = self.constant(_S32, 1)
        following = self.add('add', counter.shape, [counter, one])
        passed = list(self._imports.values())
        self.add('tuple', shape, [following, *carried, *passed])
        return shape, self._from


def loop(
    scope: Scope,
    trips: int,
    initial: Sequence[Any],
    body: Callable[[Scope, Any, List[Any]], List[Any]],
) -> List[Any]:
    """Adds a `while` that runs `body` for 0, 1, ..., trips - 1.

    Args:
        scope: where the loop goes.
        trips: how often the body runs; at least 1.
        initial: the values that the body changes, before it ran.
        body: (scope, counter, values) -> the values after; it reaches values
            around the loop with `scope.use`.

    Returns:
        The values after the loop.
    """
    module = scope.computation.module
    inside = Scope(module.computation('body'), scope)
    counter = inside.element(shape_of('s32', []))
    carried = [inside.element(value.shape) for value in initial]
    carried = body(inside, counter, carried)
    shape, passed = inside.close(counter, carried)
    body_id = inside.computation.finish()

    condition = module.computation('condition')
    state = condition.parameter(shape)
    at = condition.add('get-tuple-element', counter.shape, [state], tuple_index=0)
    end = condition.constant(_S32, trips)
    condition.add(
        'compare',
        shape_of('pred', []),
        [at, end],
        comparison_direction='LT',
        comparison_type='SIGNED',
    )
    condition_id = condition.finish()

    state = scope.add('tuple', shape, [scope.constant(_S32, 0), *initial, *passed])
    done = scope.add('while', shape, [state], calls=[body_id, condition_id])
    return [
        scope.add('get-tuple-element', value.shape, [done], tuple_index=1 + index)
        for index, value in enumerate(initial)
    ]
