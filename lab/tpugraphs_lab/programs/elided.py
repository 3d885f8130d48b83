"""Draws the values of constants that a printer has left out.

A text has `constant({...})` or `dense_resource<__elided__>` for them.  Before XLA
parses it, each becomes a custom call of TARGET, which takes no memory, and afterwards a
constant with random values, or a parameter where the values would be too large.
"""

from __future__ import annotations

from collections.abc import Iterable
import math

import numpy as np

from baselines.core import text
from baselines.hlo import protos
from baselines.hlo import schema

TARGET = 'tpugraphs_elided'
_SEED = 0
_MOST = 1 << 28  # bytes of drawn values
# Type -> the field of LiteralProto, and the NumPy type of its bytes.  All drawn
# integers are below 128, so that each takes one byte of a packed field.
_FIELDS = {
    'pred': ('preds', 'u1'),
    's8': ('s8s', 'u1'),
    'u8': ('u8s', 'u1'),
    's16': ('s16s', '<u2'),
    'u16': ('u16s', '<u2'),
    's32': ('s32s', 'u1'),
    'u32': ('u32s', 'u1'),
    's64': ('s64s', 'u1'),
    'u64': ('u64s', 'u1'),
    'f16': ('f16s', '<f2'),
    'bf16': ('bf16s', '<u2'),
    'f32': ('f32s', '<f4'),
    'f64': ('f64s', '<f8'),
}
_BYTES = 2  # protobuf's wire type
# Newer types, which have no columns; XLA numbers them from 19 on.  Some take less than
# a byte, packed.
_NEWER = (
    'f8e5m2 f8e4m3fn s4 u4 f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz s2 u2 f8e4m3 f8e3m4 '
    's1 u1 f4e2m1fn f8e8m0fnu'
)
# XLA's PrimitiveTypes by number.
KINDS = {kind.number: kind for kind in schema.ELEMENT_TYPES} | {
    number: schema.ElementType(name, number, 1)
    for number, name in enumerate(_NEWER.split(), 19)
}


def fill(module: protos.HloModuleProto) -> list[str]:
    """Replaces the custom calls of TARGET in an HloModuleProto.

    They become constants with random values.  Floats are drawn from a normal
    distribution with which products of matrices do not grow; integers are 0 or 1, which
    are in the range of any index.  If that takes more than `_MOST` bytes, the calls of
    the entry computation become parameters.

    Returns:
        Notes that say so; none for a module without such calls.

    Raises:
        ValueError: the constants are too large, or of a type that cannot be drawn.
    """
    notes = []
    calls = _calls_in(module.computations)
    if sum(map(_num_bytes, calls)) > _MOST:
        entry_id = module.entry_computation_id
        [entry] = [c for c in module.computations if c.id == entry_id]
        first = sum(i.opcode == 'parameter' for i in entry.instructions)
        parameters = _calls_in([entry])
        for number, call in enumerate(parameters, first):
            _change_opcode(call, 'parameter')
            call.parameter_number = number
            for program in (entry.program_shape, module.host_program_shape):
                program.parameters.add().CopyFrom(call.shape)
                program.parameter_names.append(call.name)
        constants = text.count(len(parameters), 'constant')
        notes.append(f'the values of {constants} are not in the file: now parameters')
        calls = _calls_in(module.computations)
    size = sum(map(_num_bytes, calls))
    if size > _MOST:
        raise ValueError(
            f'its constants without values take {size / 2**30:,.1f} GiB, and '
            f'{_MOST / 2**30:,.2f} GiB are drawn at most; make parameters of them'
        )
    rng = np.random.default_rng(_SEED)
    for call in calls:
        _draw_constant(call, rng)
    if calls:
        constants = text.count(len(calls), 'constant')
        notes.append(f'the values of {constants} are not in the file, and are random')
    return notes


def _calls_in(
    computations: Iterable[protos.HloComputationProto],
) -> list[protos.HloInstructionProto]:
    """Returns the custom calls of TARGET in computations."""
    return [
        instruction
        for computation in computations
        for instruction in computation.instructions
        if instruction.custom_call_target == TARGET
    ]


def _num_bytes(call: protos.HloInstructionProto) -> int:
    """Returns the size of a result in bytes."""
    kind = KINDS.get(call.shape.element_type)
    return math.prod(call.shape.dimensions) * (kind.bytes if kind else 1)


def _change_opcode(call: protos.HloInstructionProto, opcode: str) -> None:
    """Makes another instruction of a custom call."""
    call.opcode = opcode
    for name in ('custom_call_target', 'custom_call_api_version'):
        if name in call.DESCRIPTOR.fields_by_name:
            call.ClearField(name)


def _draw_constant(call: protos.HloInstructionProto, rng: np.random.Generator) -> None:
    """Turns a custom call into a constant with random values; raises ValueError."""
    dims = list(call.shape.dimensions)
    kind = KINDS.get(call.shape.element_type)
    type_name = kind.name if kind else ''
    if type_name not in _FIELDS:
        raise ValueError(
            f'%{call.name} is a constant without values, of a type that cannot be '
            'drawn; write the program with its constants'
        )
    field, wire = _FIELDS[type_name]
    if 'f' in type_name:
        deviation = max(1, math.prod(dims[:-1])) ** -0.5
        values = rng.standard_normal(math.prod(dims), np.float32) * deviation
        if type_name == 'bf16':  # the upper half of a float32
            values = (values.astype(np.float32).view(np.uint32) >> 16).astype(wire)
    else:
        values = rng.integers(0, 2, math.prod(dims), np.uint8)
    content = values.astype(wire).tobytes()
    _change_opcode(call, 'constant')
    call.literal.shape.CopyFrom(call.shape)
    number = call.literal.DESCRIPTOR.fields_by_name[field].number
    # Numbers one by one would take ten times the memory.
    head = _varint(number << 3 | _BYTES) + _varint(len(content))
    call.literal.MergeFromString(head + content)


def _varint(number: int) -> bytes:
    """Returns a number as protobuf writes it."""
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])
