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
    out = columns.Columns(pad)

    def add_scalars(field):
        out.add(field, gather.scalars(instructions, field))

    out.add('is_root', is_root)
    out.add('element_size_in_bits', np.zeros(len(instructions), np.int64))
    _add_shape(out, instructions)
    add_scalars('parameter_number')
    out.add_list('dimensions', gather.lists(instructions, 'dimensions'), schema.RANK)
    _add_window(out, instructions)
    _add_convolution(out, instructions)
    add_scalars('feature_group_count')
    add_scalars('batch_group_count')
    _add_slices(out, instructions)
    _add_padding(out, instructions)
    add_scalars('is_stable')
    minor_to_major = ragged.Ragged.of(
        [i.shape.layout.minor_to_major[:] for i in instructions]
    )
    out.add_list('layout_minor_to_major', minor_to_major, schema.RANK)
    if extra:
        extra_features.add_extra(out, instructions, operands)
    return out.finish()


def _add_shape(out: columns.Columns, instructions: Sequence[Any]) -> None:
    shapes = [i.shape for i in instructions]
    types = gather.scalars(shapes, 'element_type')
    out.add_types('shape_element_type', types)
    dimensions = gather.lists(shapes, 'dimensions')
    out.add_list('shape_dimensions', dimensions, schema.RANK, aggregates=True)
    tuples = np.fromiter((len(s.tuple_shapes) for s in shapes), np.int64, len(shapes))
    out.add('shape_tuple_shapes_size', tuples)


def _add_window(out: columns.Columns, instructions: Sequence[Any]) -> None:
    windows = gather.Present(instructions, 'window')
    for field in _WINDOW_FIELDS:
        out.add_list(f'window_{field}', windows.of_each(field), schema.RANK, True)
    reversals = windows.of_each('window_reversal')
    out.add_list('window_window_reversal', reversals, schema.RANK)
    true_count = reversals.sums()
    out.add('window_window_reversal_true_count', true_count)
    out.add('window_window_reversal_false_count', reversals.lengths - true_count)


def _add_convolution(out: columns.Columns, instructions: Sequence[Any]) -> None:
    convolutions = gather.Present(instructions, 'convolution_dimension_numbers')
    for field in _CONVOLUTION_FIELDS:
        name = f'convolution_dim_numbers_{field.replace("dimension", "dim")}'
        if field.endswith('s'):
            out.add_list(name, convolutions.lists(field), 4)
        else:
            out.add(name, convolutions.scalars(field))


def _add_slices(out: columns.Columns, instructions: Sequence[Any]) -> None:
    slices = gather.Present(instructions, 'slice_dimensions')
    for field in ('start', 'stride', 'limit'):
        out.add_list(f'slice_dims_{field}', slices.of_each(field, ''), 2, True)
    sizes = gather.lists(instructions, 'dynamic_slice_sizes')
    out.add_list('dynamic_slice_sizes', sizes, 2, aggregates=True)


def _add_padding(out: columns.Columns, instructions: Sequence[Any]) -> None:
    paddings = gather.Present(instructions, 'padding_config')
    for field in ('edge_padding_low', 'edge_padding_high'):
        out.add_list(f'padding_config_{field}', paddings.of_each(field), 2, True)
