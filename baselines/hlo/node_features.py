"""The 140 published columns of a node, and the further ones of `--extra`."""

from typing import Any, Sequence, Tuple

import numpy as np

from baselines.hlo import columns
from baselines.hlo import gather
from baselines.hlo import ragged
from baselines.hlo import schema

# Fields of WindowDimension, of which columns have the names.
_WINDOW_FIELDS = (
    *('size', 'stride', 'padding_low', 'padding_high'),
    *('window_dilation', 'base_dilation'),
)

# Fields of ConvolutionDimensionNumbers; lists have 4 columns.
_CONVOLUTION_FIELDS = (
    *('input_batch_dimension', 'input_feature_dimension'),
    'input_spatial_dimensions',
    *('kernel_input_feature_dimension', 'kernel_output_feature_dimension'),
    'kernel_spatial_dimensions',
    *('output_batch_dimension', 'output_feature_dimension'),
)

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


def node_features(
    instructions: Sequence[Any],
    is_root: np.ndarray,
    operands: ragged.Ragged,
    pad: int = 0,
    extra: bool = False,
) -> Tuple[Tuple[str, ...], np.ndarray]:
    """Returns what the instructions themselves say, a row for each.

    Args:
        instructions: n HloInstructionProtos.
        is_root: bool [n], whether an instruction is its computation's root.
        operands: each instruction's operands as row numbers, in stored order.
            Only the extra columns look at them.
        pad: what absent list entries hold, 0 (as published) or -1.
        extra: adds the further columns.

    Returns:
        The column names, and float32 [n, number of names].
    """
    out, fields = columns.Columns(pad), gather.Fields(instructions)
    out.add('is_root', is_root)
    out.add('element_size_in_bits', np.zeros(len(instructions), np.int64))
    out.add_types('shape_element_type', fields.scalars('shape.element_type'))
    out.add_list(
        'shape_dimensions', fields.lists('shape.dimensions'), schema.RANK, True
    )
    parts = fields.lists('shape.tuple_shapes[].element_type')
    out.add('shape_tuple_shapes_size', parts.lengths)
    out.add('parameter_number', fields.scalars('parameter_number'))
    out.add_list('dimensions', fields.lists('dimensions'), schema.RANK)
    for field in _WINDOW_FIELDS:
        sizes = fields.lists(f'window.dimensions[].{field}')
        out.add_list(f'window_{field}', sizes, schema.RANK, True)
    reversals = fields.lists('window.dimensions[].window_reversal')
    out.add_list('window_window_reversal', reversals, schema.RANK)
    out.add('window_window_reversal_true_count', reversals.sums())
    false_count = reversals.lengths - reversals.sums()
    out.add('window_window_reversal_false_count', false_count)
    for field in _CONVOLUTION_FIELDS:
        name = f'convolution_dim_numbers_{field.replace("dimension", "dim")}'
        path = f'convolution_dimension_numbers.{field}'
        if field.endswith('s'):
            out.add_list(name, fields.lists(path), 4)
        else:
            out.add(name, fields.scalars(path))
    for field in ('feature_group_count', 'batch_group_count'):
        out.add(field, fields.scalars(field))
    for field in ('start', 'stride', 'limit'):
        cuts = fields.lists(f'slice_dimensions[].{field}')
        out.add_list(f'slice_dims_{field}', cuts, 2, True)
    out.add_list('dynamic_slice_sizes', fields.lists('dynamic_slice_sizes'), 2, True)
    for field in ('edge_padding_low', 'edge_padding_high'):
        edges = fields.lists(f'padding_config.dimensions[].{field}')
        out.add_list(f'padding_config_{field}', edges, 2, True)
    out.add('is_stable', fields.scalars('is_stable'))
    minor_to_major = fields.lists('shape.layout.minor_to_major')
    out.add_list('layout_minor_to_major', minor_to_major, schema.RANK)
    if extra:
        _add_extra(out, fields, operands)
    return out.finish()


def _add_extra(
    out: columns.Columns, fields: gather.Fields, operands: ragged.Ragged
) -> None:
    """Adds what an instruction says and the 140 published columns leave out.

    Lists follow the same rules as the published columns (first entries, padded,
    sum and product over the whole list).  docs/raw-files.md lists the names.
    """
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
