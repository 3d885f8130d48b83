"""The 140 published columns of a node, and the further ones of `--extra`."""

from typing import Any, Sequence, Tuple

import numpy as np

from baselines.hlo import columns
from baselines.hlo import extra_features
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
        extra: adds the columns of `extra_features`.

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
        extra_features.add_extra(out, fields, operands)
    return out.finish()
