"""The columns of `node_feat_extra`, which the 140 published columns leave out.

They are those of `schema.EXTRA`.  Entries that a list does not have are -1, whatever
`pad` the published columns were extracted with: dimension 0 exists.
"""

from typing import Any

from google.protobuf import message
import numpy as np

from baselines.hlo import edges
from baselines.hlo import gather
from baselines.hlo import ragged
from baselines.hlo import schema

_ABSENT = -1
_LARGEST = float(np.finfo(np.float32).max)
# Types whose literals are bytes.
_PACKED = {
    's8': 'i1',
    'u8': 'u1',
    's16': '<i2',
    'u16': '<u2',
    'f16': '<f2',
    'bf16': '<u2',
}
_TYPE_NAMES = {kind.number: kind.name for kind in schema.ELEMENT_TYPES}


def extra_features(instructions: gather.Fields) -> np.ndarray:
    """Computes the columns of n instructions: float32 [n, len(schema.EXTRA)]."""
    shape = len(instructions.messages), len(schema.EXTRA)
    features = np.zeros(shape, np.float32)
    instructions.write(features, schema.EXTRA, schema.EXTRA_FIELDS, _ABSENT)

    def put(name: str, row: int, value: float) -> None:
        features[row, schema.EXTRA.at(name)] = value

    operands = instructions.lists('operand_ids')
    places = edges.positions(instructions.scalars('id'), operands.flat)
    distances = ragged.Ragged(operands.row_numbers() - places, operands.lengths)
    block = schema.EXTRA.block('operand_distance')
    features[:, block] = distances.columns(tuple(range(block.stop - block.start)), 0)

    for row, instruction in enumerate(instructions.messages):
        if instruction.fusion_kind in schema.FUSION_KINDS:
            put(f'fusion_kind_is_{instruction.fusion_kind}', row, 1)
    for row, sharding in zip(*instructions.submessages('sharding')):
        if sharding.type < len(schema.SHARDINGS):
            put(f'sharding_is_{schema.SHARDINGS[sharding.type]}', row, 1)
    for row, literal in zip(*instructions.submessages('literal')):
        value = _scalar(literal)
        if value is not None:
            put('constant_is_scalar', row, 1)
            put('constant_log_value', row, _log(value))
    return features


def _scalar(literal: message.Message) -> float | None:
    """Returns the value of a literal of one real number, else None."""
    kind = _TYPE_NAMES.get(literal.shape.element_type, '')
    values: Any = getattr(literal, f'{kind}s', ())
    if kind in _PACKED:
        whole = len(values) == np.dtype(_PACKED[kind]).itemsize
        values = np.frombuffer(values, _PACKED[kind]) if whole else ()
    if len(values) != 1 or literal.shape.dimensions:
        return None
    if kind == 'bf16':  # the upper half of a float32
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return float(values[0])


def _log(value: float) -> float:
    """Returns sign(x) log(1 + |x|), finite for every x."""
    value = float(np.clip(np.nan_to_num(value), -_LARGEST, _LARGEST))
    return float(np.sign(value) * np.log1p(abs(value)))
