"""The 140 published columns of a node, and the further ones of `--extra`."""

from typing import Tuple

import numpy as np

from baselines.hlo import arrays
from baselines.hlo import columns
from baselines.hlo import gather
from baselines.hlo import schema

_FFT_TYPES = ('fft', 'ifft', 'rfft', 'irfft')  # by their numbers
_DIRECTIONS = ('EQ', 'NE', 'GE', 'GT', 'LE', 'LT')
_OPERANDS = 3

# Fields of <column prefix>_dimension_numbers: lists, and an integer.
_DIMENSION_NUMBERS = {
    'dot': 'lhs_contracting_dimensions rhs_contracting_dimensions '
    'lhs_batch_dimensions rhs_batch_dimensions',
    'gather': 'offset_dims collapsed_slice_dims start_index_map index_vector_dim',
    'scatter': 'update_window_dims inserted_window_dims scatter_dims_to_operand_dims '
    'index_vector_dim',
}


def node_features(
    fields: gather.Fields,
    is_root: np.ndarray,
    operands: arrays.Ragged,
    pad: int = 0,
    extra: bool = False,
) -> Tuple[Tuple[str, ...], np.ndarray]:
    """Returns what the instructions themselves say, a row for each.

    Args:
        fields: of n HloInstructionProtos.
        is_root: bool [n], whether an instruction is its computation's root.
        operands: each instruction's operands as row numbers, in stored order.
            Only the extra columns look at them.
        pad: what absent list entries hold, 0 (as published) or -1.
        extra: adds the further columns.

    Returns:
        The column names, and float32 [n, number of names].
    """
    out = columns.ColumnBuilder(pad)
    out.add('is_root', is_root)
    out.add('element_size_in_bits', np.zeros_like(is_root))
    out.add_fields(schema.NODE_FIELDS, fields)
    if extra:
        _add_extra(out, fields, operands)
    return out.finish()


def _add_extra(
    out: columns.ColumnBuilder, fields: gather.Fields, operands: arrays.Ragged
) -> None:
    """Adds the columns of `--extra` (docs/guide/raw-files.md)."""
    for prefix, words in _DIMENSION_NUMBERS.items():
        for name in words.split():
            entries = () if name == 'index_vector_dim' else schema.FIRST_4
            path = f'{prefix}_dimension_numbers'
            out.add_fields(schema.parts(prefix, path, name, entries), fields)
    out.add_fields([schema.Field('gather_slice_sizes', entries=schema.WHOLE)], fields)
    _add_operands(out, fields, operands)
    opcodes = np.array([i.opcode for i in fields.messages], object)
    out.add('is_constant', opcodes == 'constant')
    # A large constant may have come without its values.
    rows, literals = fields.present('literal')
    has_literal, is_scalar = np.zeros((2, len(opcodes)), bool)
    has_literal[rows] = True
    is_scalar[rows] = [not literal.shape.dimensions for literal in literals]
    out.add('has_literal', has_literal)
    out.add('literal_is_scalar', is_scalar)
    # The first type's number is also what other instructions hold.
    types = np.where(opcodes == 'fft', fields.scalars('fft_type'), -1)
    for number, name in enumerate(_FFT_TYPES):
        out.add(f'fft_type_is_{name}', types == number)
    lengths = schema.Field('fft_length', entries=(0, 1, 2, 'sum', 'product'))
    out.add_fields([lengths], fields)
    directions = np.array([i.comparison_direction for i in fields.messages], object)
    for direction in _DIRECTIONS:
        name = f'comparison_direction_is_{direction.lower()}'
        out.add(name, directions == direction)
    interior = 'padding_config.dimensions[].interior_padding'
    last = (
        schema.Field('padding_config_interior_padding', interior, schema.WHOLE),
        *schema.convolution('output_spatial_dimensions', schema.FIRST_4),
        schema.Field('tuple_index'),
    )
    out.add_fields(last, fields)


def _add_operands(
    out: columns.ColumnBuilder, fields: gather.Fields, operands: arrays.Ragged
) -> None:
    """Adds shape and element type of the first operands, if there."""
    out.add('operand_count', operands.lengths)
    types = np.append(fields.scalars('shape.element_type'), -1)
    dimensions = fields.lists('shape.dimensions')
    # -1 as "no such operand" is never a row number; the last type is its.
    first = operands.head(_OPERANDS, -1)
    for number, rows in enumerate(first.T):
        name = f'operand_{number}'
        kind = schema.Field(f'{name}_element_type', entries=schema.IS_TYPE)
        out.add_types(kind, types[rows])
        sizes = schema.Field(f'{name}_dimensions', entries=schema.WHOLE)
        out.add_list(sizes, dimensions.take(rows))
