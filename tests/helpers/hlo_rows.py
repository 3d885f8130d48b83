"""The 140 columns of one instruction, by the letter of the rules and slowly.

Independent of `baselines.hlo`: Python integers, one instruction at a time.
"""

import numpy as np

_WINDOW = 'size stride padding_low padding_high window_dilation base_dilation'
_TYPES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 15, 18, 13, 14, 17]


def wrap(number):
    """Wraps a number around as int64 does, in two's complement."""
    return (number + 2**63) % 2**64 - 2**63


def fit_width(values, width, pad=0):
    """Returns the first `width` values, padded."""
    return (list(values) + [pad] * width)[:width]


def aggregate(values, width, pad=0):
    """Returns those, and the sum and product of all values."""
    total, product = 0, 1
    for value in values:
        total, product = wrap(total + value), wrap(product * value)
    return fit_width(values, width, pad) + [total, product]


def compute_row(instruction, root_id, pad=0):
    """Computes columns 0 to 139 of an HloInstructionProto, float32 [140]."""
    i = instruction
    shape, window = i.shape, i.window.dimensions
    conv = i.convolution_dimension_numbers
    padding = i.padding_config.dimensions
    reversal = [d.window_reversal for d in window]
    numbers = [int(i.id == root_id), 0]
    numbers += [int(shape.element_type == t) for t in _TYPES]
    numbers += aggregate(shape.dimensions, 6, pad)
    numbers += [len(shape.tuple_shapes), i.parameter_number]
    numbers += fit_width(i.dimensions, 6, pad)
    for field in _WINDOW.split():
        numbers += aggregate([getattr(d, field) for d in window], 6, pad)
    numbers += fit_width(reversal, 6, pad)
    numbers += [reversal.count(True), reversal.count(False)]
    numbers += [conv.input_batch_dimension, conv.input_feature_dimension]
    numbers += fit_width(conv.input_spatial_dimensions, 4, pad)
    numbers += [
        conv.kernel_input_feature_dimension,
        conv.kernel_output_feature_dimension,
    ]
    numbers += fit_width(conv.kernel_spatial_dimensions, 4, pad)
    numbers += [conv.output_batch_dimension, conv.output_feature_dimension]
    numbers += [i.feature_group_count, i.batch_group_count]
    numbers += aggregate([d.start for d in i.slice_dimensions], 2, pad)
    numbers += aggregate([d.stride for d in i.slice_dimensions], 2, pad)
    numbers += aggregate([d.limit for d in i.slice_dimensions], 2, pad)
    numbers += aggregate(i.dynamic_slice_sizes, 2, pad)
    numbers += aggregate([d.edge_padding_low for d in padding], 2, pad)
    numbers += aggregate([d.edge_padding_high for d in padding], 2, pad)
    numbers += [int(i.is_stable)]
    numbers += fit_width(shape.layout.minor_to_major, 6, pad)
    return np.array(numbers, np.int64).astype(np.float32)


def compute_rows(module, pad=0):
    """Computes the rows of all instructions of a module, float32 [n, 140]."""
    return np.array(
        [
            compute_row(i, c.root_id, pad)
            for c in module.computations
            for i in c.instructions
        ]
    )


def list_edges(module):
    """Lists the canonical edges of a module, sorted pairs."""
    instructions = [(c, i) for c in module.computations for i in c.instructions]
    index = {i.id: n for n, (_, i) in enumerate(instructions)}
    root = {c.id: c.root_id for c in module.computations}
    found = set()
    for node, (_, i) in enumerate(instructions):
        found |= {(node, index[o]) for o in i.operand_ids}
        found |= {(node, index[root[c]]) for c in i.called_computation_ids}
    return sorted(found)
