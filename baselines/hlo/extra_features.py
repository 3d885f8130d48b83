"""What an instruction says and the 140 published columns leave out.

Lists follow the same rules as the published columns (first entries, padded,
sum and product over the whole list).  docs/raw-files.md lists the names.
"""

import numpy as np

from baselines.hlo import columns
from baselines.hlo import gather
from baselines.hlo import ragged

_FFT_TYPES = ('fft', 'ifft', 'rfft', 'irfft')  # by their numbers
_DIRECTIONS = ('EQ', 'NE', 'GE', 'GT', 'LE', 'LT')
_OPERANDS = 3

# Fields of <column prefix>_dimension_numbers; of several lists and an integer.
_DIMENSION_NUMBERS = {
    'dot': 'lhs_contracting_dimensions rhs_contracting_dimensions '
    'lhs_batch_dimensions rhs_batch_dimensions',
    'gather': 'offset_dims collapsed_slice_dims start_index_map index_vector_dim',
    'scatter': 'update_window_dims inserted_window_dims scatter_dims_to_operand_dims '
    'index_vector_dim',
}


def add_extra(
    out: columns.Columns, fields: gather.Fields, operands: ragged.Ragged
) -> None:
    """Adds the extra columns of n instructions; `operands` are their row numbers."""
    for prefix, names in _DIMENSION_NUMBERS.items():
        for name in names.split():
            path = f'{prefix}_dimension_numbers.{name}'
            if name == 'index_vector_dim':
                out.add(f'{prefix}_{name}', fields.scalars(path))
            else:
                out.add_list(f'{prefix}_{name}', fields.lists(path), 4)
    out.add_list('gather_slice_sizes', fields.lists('gather_slice_sizes'), 6, True)
    _add_operands(out, fields, operands)
    opcodes = np.array([i.opcode for i in fields.instructions], object)
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
    out.add_list('fft_length', fields.lists('fft_length'), 3, True)
    directions = np.array([i.comparison_direction for i in fields.instructions], object)
    for direction in _DIRECTIONS:
        name = f'comparison_direction_is_{direction.lower()}'
        out.add(name, directions == direction)
    interior = fields.lists('padding_config.dimensions[].interior_padding')
    out.add_list('padding_config_interior_padding', interior, 6, True)
    spatial = fields.lists('convolution_dimension_numbers.output_spatial_dimensions')
    out.add_list('convolution_dim_numbers_output_spatial_dims', spatial, 4)
    out.add('tuple_index', fields.scalars('tuple_index'))


def _add_operands(
    out: columns.Columns, fields: gather.Fields, operands: ragged.Ragged
) -> None:
    """Adds shape and element type of the first operands, if there."""
    out.add('operand_count', operands.lengths)
    types = np.append(fields.scalars('shape.element_type'), -1)
    dimensions = fields.lists('shape.dimensions')
    # -1 as "no such operand" is never a row number; the last type is its.
    first = operands.head(_OPERANDS, -1)
    for number, rows in enumerate(first.T):
        out.add_types(f'operand_{number}_element_type', types[rows])
        name = f'operand_{number}_dimensions'
        out.add_list(name, dimensions.take(rows), 6, True)
