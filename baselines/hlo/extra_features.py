"""What an instruction says and the 140 published columns leave out.

Lists follow the same rules as the published columns (first entries, padded,
sum and product over the whole list).  docs/raw-files.md lists the names.
"""

from typing import Any, Sequence

import numpy as np

from baselines.hlo import columns
from baselines.hlo import gather
from baselines.hlo import ragged

_FFT_TYPES = (('fft', 0), ('ifft', 1), ('rfft', 2), ('irfft', 3))
_DIRECTIONS = ('EQ', 'NE', 'GE', 'GT', 'LE', 'LT')
_OPERANDS = 3

# Sub-message -> (column prefix, list fields, integer fields).
_DIMENSION_NUMBERS = {
    'dot_dimension_numbers': (
        'dot',
        'lhs_contracting_dimensions rhs_contracting_dimensions lhs_batch_dimensions '
        'rhs_batch_dimensions'.split(),
        (),
    ),
    'gather_dimension_numbers': (
        'gather',
        ('offset_dims', 'collapsed_slice_dims', 'start_index_map'),
        ('index_vector_dim',),
    ),
    'scatter_dimension_numbers': (
        'scatter',
        ('update_window_dims', 'inserted_window_dims', 'scatter_dims_to_operand_dims'),
        ('index_vector_dim',),
    ),
}


def add_extra(
    out: columns.Columns, instructions: Sequence[Any], operands: ragged.Ragged
) -> None:
    """Adds the extra columns of n instructions; `operands` are their row numbers."""
    for field, (prefix, list_fields, fields) in _DIMENSION_NUMBERS.items():
        present = gather.Present(instructions, field)
        for name in list_fields:
            out.add_list(f'{prefix}_{name}', present.lists(name), 4)
        for name in fields:
            out.add(f'{prefix}_{name}', present.scalars(name))
    sizes = gather.lists(instructions, 'gather_slice_sizes')
    out.add_list('gather_slice_sizes', sizes, 6, aggregates=True)
    _add_operands(out, instructions, operands)
    _add_literal(out, instructions)
    _add_fft(out, instructions)
    directions = np.array([i.comparison_direction for i in instructions], object)
    for direction in _DIRECTIONS:
        name = f'comparison_direction_is_{direction.lower()}'
        out.add(name, directions == direction)
    paddings = gather.Present(instructions, 'padding_config')
    interior = paddings.of_each('interior_padding')
    out.add_list('padding_config_interior_padding', interior, 6, aggregates=True)
    convolutions = gather.Present(instructions, 'convolution_dimension_numbers')
    spatial = convolutions.lists('output_spatial_dimensions')
    out.add_list('convolution_dim_numbers_output_spatial_dims', spatial, 4)
    out.add('tuple_index', gather.scalars(instructions, 'tuple_index'))


def _add_operands(
    out: columns.Columns, instructions: Sequence[Any], operands: ragged.Ragged
) -> None:
    """Adds shape and element type of the first operands, if there."""
    out.add('operand_count', operands.lengths)
    shapes = [i.shape for i in instructions]
    types = gather.scalars(shapes, 'element_type')
    dimensions = gather.lists(shapes, 'dimensions')
    # -1 as "no such operand" is never a row number.
    first = operands.head(_OPERANDS, -1)
    for number in range(_OPERANDS):
        rows = first[:, number]
        present = rows >= 0
        element_type = np.full(len(rows), -1, np.int64)
        element_type[present] = types[rows[present]]
        out.add_types(f'operand_{number}_element_type', element_type)
        name = f'operand_{number}_dimensions'
        out.add_list(name, dimensions.take(rows), 6, aggregates=True)


def _add_literal(out: columns.Columns, instructions: Sequence[Any]) -> None:
    is_constant = np.array([i.opcode == 'constant' for i in instructions], bool)
    out.add('is_constant', is_constant)
    # A large constant may have come without its values.
    has_literal = np.array([i.HasField('literal') for i in instructions], bool)
    out.add('has_literal', has_literal)
    scalar = np.zeros(len(instructions), bool)
    for row in np.flatnonzero(has_literal):
        scalar[row] = not instructions[row].literal.shape.dimensions
    out.add('literal_is_scalar', scalar)


def _add_fft(out: columns.Columns, instructions: Sequence[Any]) -> None:
    # The first type's number is also what other instructions hold.
    is_fft = np.array([i.opcode == 'fft' for i in instructions], bool)
    types = gather.scalars(instructions, 'fft_type')
    for name, number in _FFT_TYPES:
        out.add(f'fft_type_is_{name}', is_fft & (types == number))
    lengths = gather.lists(instructions, 'fft_length')
    out.add_list('fft_length', lengths, 3, aggregates=True)
