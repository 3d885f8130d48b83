"""Node features, opcodes and edges of a simulated HLO module.

The 140 columns are those of the published feature extractor, which
`baselines.hlo` makes from protobufs; columns of fields that no simulated
instruction has (dynamic slices, stable sorts, ...) hold their default.
"""

from typing import List, Sequence, Tuple

import numpy as np

from baselines.hlo import schema
from baselines.simulated.hlo import Computation, Instruction


def _with_totals(values: Sequence[int], width: int) -> List[float]:
    """First `width` values padded with 0, then sum and product of all."""
    values = [int(v) for v in values]
    product = 1
    for value in values:
        product *= value
    return [*_padded(values, width), sum(values), product]


def _padded(values: Sequence[int], width: int) -> List[float]:
    values = list(values)[:width]
    return values + [0] * (width - len(values))


def feature_row(instruction: Instruction, is_root: bool) -> np.ndarray:
    """Returns the 140 features of one instruction, float32."""
    shape, window = instruction.shape, instruction.window
    row = [float(is_root), 0.0]
    row += [float(kind.name == shape.dtype) for kind in schema.ELEMENT_TYPES]
    row += _with_totals(shape.dims, 6)
    row += [instruction.tuple_size, instruction.parameter_number]
    row += _padded(instruction.dimensions, 6)
    row += _with_totals([w.size for w in window], 6)
    row += _with_totals([w.stride for w in window], 6)
    row += _with_totals([w.low for w in window], 6)
    row += _with_totals([w.high for w in window], 6)
    # Window dilation and base dilation: 1 wherever there is a window.
    row += 2 * _with_totals([1] * len(window), 6)
    # Window reversal: none is reversed.
    row += [0] * 6 + [0, len(window)]
    row += _convolution(instruction)
    for field in (0, 2, 1):  # start, stride, limit
        row += _with_totals([s[field] for s in instruction.slices], 2)
    row += _with_totals((), 2)  # dynamic_slice_sizes
    for field in (0, 1):  # low, high
        row += _with_totals([p[field] for p in instruction.padding], 2)
    row += [0]  # is_stable
    row += _padded(shape.layout, 6)
    return np.array(row, np.float32)


def _convolution(instruction: Instruction) -> List[float]:
    """From `input_batch_dim` to `batch_group_count`."""
    numbers = instruction.convolution
    if numbers is None:
        return [0] * 16
    return [
        numbers.input_batch,
        numbers.input_feature,
        *_padded(numbers.input_spatial, 4),
        numbers.kernel_input,
        numbers.kernel_output,
        *_padded(numbers.kernel_spatial, 4),
        numbers.output_batch,
        numbers.output_feature,
        1,  # feature_group_count
        1,  # batch_group_count
    ]


def graph_arrays(
    computations: Sequence[Computation],
) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns node features, opcodes and edges of a module, callees first.

    Returns:
        node_feat float32 [n, 140]; node_opcode int32 [n]; edge_index int32
        [m, 2], rows (consumer, producer) sorted: to every distinct operand and
        to the root of every called computation.
    """
    nodes = [i for c in computations for i in c.instructions]
    number = {id(node): i for i, node in enumerate(nodes)}
    roots = {id(c.root) for c in computations}
    features = np.stack([feature_row(n, id(n) in roots) for n in nodes])
    opcodes = np.array([schema.OPCODE_NUMBERS[n.opcode] for n in nodes], np.int32)
    edges = {
        (i, number[id(producer)])
        for i, node in enumerate(nodes)
        for producer in (*node.operands, *(c.root for c in node.calls))
    }
    return features, opcodes, np.array(sorted(edges), np.int32).reshape(-1, 2)
