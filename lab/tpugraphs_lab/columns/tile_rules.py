"""How a tile of a node's result passes on to its operands, by opcode.

`RULES` read the published columns alone, which lack the dimension numbers of dots and
gathers: there sizes are compared.  `EXACT_RULES` read those of `node_feat_extra`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from baselines.hlo import schema

_RANK = schema.RANK
# A dimension that is summed over, the first; those of the result are 0 to 5.
FIRST_REDUCED = _RANK

_PLACE = np.arange(_RANK)
_WINDOW_STRIDES = schema.NODE.block('window_stride')
_WINDOWS = [
    schema.NODE.block(f'window_{name}')
    for name in ('size', 'stride', 'window_dilation', 'base_dilation')
]
_GROUPS = schema.NODE.at('feature_group_count')
_BATCH_GROUPS = schema.NODE.at('batch_group_count')
_SLICE_STRIDES = [schema.NODE.at(f'slice_dims_stride_{i}') for i in range(2)]
_SLICE_STRIDE_PRODUCT = schema.NODE.at('slice_dims_stride_product')


class Pairs(NamedTuple):
    """Nodes of one opcode, each with an operand."""

    raw: np.ndarray  # float32 [pairs, columns], of the nodes
    axes: np.ndarray  # int64 [pairs, 6], their `dimensions`
    result: np.ndarray  # int64 [pairs, 6], sizes
    operand: np.ndarray  # int64 [pairs, 6]
    # int64 [pairs], which operand it is; -1 where columns do not tell
    number: np.ndarray


# For each dimension of an operand the result's that it follows, int [pairs, 6], or
# FIRST_REDUCED + the number of a summed one, or -1; times and plus, see `NodeTiles`.
Rule = tuple[np.ndarray, float | np.ndarray, float | np.ndarray]
_RuleOf = Callable[[Pairs], Rule]


def through_elementwise(pairs: Pairs) -> Rule:
    """Maps dimensions of equal sizes to each other; others are needed whole."""
    return np.where(pairs.operand == pairs.result, _PLACE, -1), 1, 0


def _through_broadcast(pairs: Pairs) -> Rule:
    """Maps the operand's dimensions to those of the result that `axes` lists."""
    return pairs.axes, 1, 0


def _through_transpose(pairs: Pairs) -> Rule:
    """Maps the operand's dimension `axes`[i] to dimension i of the result."""
    at = np.full(pairs.axes.shape, -1)
    # Axes that do not exist are 0: the first to name a dimension is right.
    for place in reversed(range(_RANK)):
        at[np.arange(len(at)), pairs.axes[:, place]] = place
    return at, 1, 0


def _through_identity(pairs: Pairs) -> Rule:
    """Maps each dimension to the one of its place."""
    return _PLACE[np.newaxis], 1, 0


def _through_concatenate(pairs: Pairs) -> Rule:
    """Maps each dimension to the one of its place; the joined one is needed whole."""
    return np.where(_PLACE == pairs.axes[:, :1], -1, _PLACE), 1, 0


def _through_slice(pairs: Pairs) -> Rule:
    """Multiplies tiles by the stride."""
    strides = np.ones(pairs.axes.shape)
    strides[:, :2] = np.maximum(pairs.raw[:, _SLICE_STRIDES], 1)
    # Columns have the first two strides, and the product of all: the last one's.
    product = np.maximum(pairs.raw[:, _SLICE_STRIDE_PRODUCT], 1)
    last = np.maximum((pairs.result > 0).sum(axis=1) - 1, 0)
    strides[np.arange(len(last)), last] *= product / strides.prod(axis=1)
    return _PLACE[np.newaxis], strides, 0


def _through_reduce_window(pairs: Pairs) -> Rule:
    """Multiplies tiles of windows by the stride, and adds the rest of a window."""
    size = np.maximum(pairs.raw[:, schema.WINDOW], 1)
    stride = np.maximum(pairs.raw[:, _WINDOW_STRIDES], 1)
    return _PLACE[np.newaxis], stride, size - stride


def num_reduced(pairs: Pairs) -> np.ndarray:
    """Counts the dimensions that the operand has more than the result: [pairs]."""
    ranks = [(dims > 0).sum(axis=1) for dims in (pairs.operand, pairs.result)]
    return np.maximum(ranks[0] - ranks[1], 0)


def _through_reduce(pairs: Pairs) -> Rule:
    """Maps what is not reduced in order; reduced dimensions are needed whole."""
    is_reduced = np.zeros(pairs.axes.shape, bool)
    count = num_reduced(pairs)
    for place in range(_RANK):
        rows = np.flatnonzero(place < count)
        is_reduced[rows, pairs.axes[rows, place]] = True
    return np.where(is_reduced, -1, np.cumsum(~is_reduced, axis=1) - 1), 1, 0


def _through_reshape(pairs: Pairs) -> Rule:
    """Matches dimensions of the operand and the result that cover the same strides.

    A dimension of stride s and size n spans the strides s to s x n of the flat array,
    which a reshape does not change.
    """
    low, high = _strides(pairs.result)  # [pairs, 6]
    own_low, own_high = _strides(pairs.operand)
    # [pairs, 6 of the operand, 6 of the result]: upper over lower end of the overlap.
    shared = np.minimum(own_high[:, :, np.newaxis], high[:, np.newaxis])
    shared /= np.maximum(own_low[:, :, np.newaxis], low[:, np.newaxis])
    # Of dimensions that are merged, tiles cut only the first one.
    at = (shared > 1).argmax(axis=2)
    times = np.take_along_axis(low, at, axis=1) / own_low
    return np.where((shared > 1).any(axis=2), at, -1), times, 0


def _strides(dims: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the strides of dimensions, and strides times sizes: float64 [n, 6]."""
    sizes = np.where(dims > 0, dims, 1).astype(float)
    high = np.cumprod(sizes[:, ::-1], axis=1)[:, ::-1]
    return high / sizes, high


# With dimension numbers.


def _numbers(pairs: Pairs, name: str) -> np.ndarray:
    """Returns a list of dimensions of each node: int64 [pairs, entries], else -1."""
    block = schema.NODE_AND_EXTRA.block(name)
    dims = np.clip(pairs.raw[:, block], -1, _RANK).astype(np.int64)
    return np.where(dims < _RANK, dims, -1)


def _assign(at: np.ndarray, dims: np.ndarray, values: np.ndarray) -> None:
    """Sets at[i, dims[i, j]] = values[i, j] wherever dims[i, j] is not -1."""
    rows, places = np.nonzero(dims >= 0)
    at[rows, dims[rows, places]] = np.broadcast_to(values, dims.shape)[rows, places]


def _through_dot(pairs: Pairs) -> Rule:
    """Maps batch dimensions first, then what is free of the left, then of the right."""
    is_left = (pairs.number == 0)[:, np.newaxis]  # [pairs, 1]

    def at_side(kind: str) -> np.ndarray:
        left, right = (_numbers(pairs, f'dot_{s}_{kind}') for s in ('lhs', 'rhs'))
        return np.where(is_left, left, right)  # [pairs, 4]

    batch, contracting = map(at_side, ('batch_dimensions', 'contracting_dimensions'))
    free = -2
    at = np.full(pairs.operand.shape, free)  # [pairs, 6]
    _assign(at, batch, np.arange(batch.shape[1]))
    _assign(at, contracting, FIRST_REDUCED + np.arange(contracting.shape[1]))
    is_free = at == free
    # The result is batch, free of the left, free of the right: an operand's first free
    # dimension follows the batch (left), or is counted from the end (right).
    own = (is_free & (pairs.operand > 0)).sum(axis=1, keepdims=True)
    rank = (pairs.result > 0).sum(axis=1, keepdims=True)
    batches = (batch >= 0).sum(axis=1, keepdims=True)
    first = np.where(is_left, batches, rank - own)
    place = first + np.cumsum(is_free, axis=1) - 1
    return np.where(is_free, np.clip(place, 0, _RANK - 1), at), 1, 0


def _through_gather(pairs: Pairs) -> Rule:
    """Maps slices to the offset dimensions, and their indices to the others.

    As many rows of the operand are needed as the tile has indices; where these have
    several dimensions, tiles cut the first alone.
    """
    rows = np.arange(len(pairs.result))[:, np.newaxis]
    offsets = _numbers(pairs, 'gather_offset_dims')
    is_index = pairs.result > 0  # [pairs, 6], of the result's dimensions
    _assign(is_index, offsets, np.array(False))
    # [pairs, 6]: the result's index dimensions first, `count` of them, in order.
    of_indices = np.argsort(~is_index, axis=1, kind='stable')
    count = is_index.sum(axis=1, keepdims=True)

    collapsed = np.zeros(pairs.operand.shape, bool)
    _assign(collapsed, _numbers(pairs, 'gather_collapsed_slice_dims'), np.array(True))
    # Dimensions that are not collapsed follow the offset dimensions in order.
    at = offsets[rows, np.cumsum(~collapsed, axis=1) - 1]
    indexed = np.zeros(pairs.operand.shape, bool)
    _assign(indexed, _numbers(pairs, 'gather_start_index_map'), np.array(True))
    at = np.where(indexed, np.where(count > 0, of_indices[:, :1], -1), at)
    at = np.where(collapsed & ~indexed, -1, at)
    # Each index of the tile takes a slice, so all index dimensions but the first
    # multiply the rows needed: [pairs, 6] -> [pairs, 1].
    others = np.where(is_index, np.maximum(pairs.result, 1), 1)
    others[rows, of_indices[:, :1]] = 1
    sizes = pairs.raw[:, schema.NODE_AND_EXTRA.block('gather_slice_sizes')]
    times = np.maximum(sizes, 1) * others.prod(axis=1, dtype=float, keepdims=True)

    # The dimension of the index vectors is none of the result's.
    vector = pairs.raw[:, [schema.NODE_AND_EXTRA.at('gather_index_vector_dim')]]
    number = _PLACE - (_PLACE > vector)
    of_vectors = of_indices[rows, np.maximum(number, 0)]
    of_vectors = np.where((_PLACE == vector) | (number >= count), -1, of_vectors)
    is_indices = (pairs.number == 1)[:, np.newaxis]
    times = np.where(~is_indices & indexed, times, 1)
    return np.where(is_indices, of_vectors, at), times, 0


def _through_convolution(pairs: Pairs) -> Rule:
    """Maps images to the result's positions under windows, filters to its features."""

    def role(column: int) -> np.ndarray:  # int64 [pairs, 1]
        return np.clip(pairs.raw[:, [column]], 0, _RANK - 1).astype(np.int64)

    of_windows = np.arange(len(schema.FIRST_4))  # [4], spatial dimensions
    # Each [pairs, 4]; those that a convolution lacks have size 0, here 1.
    window = [pairs.raw[:, block][:, of_windows] for block in _WINDOWS]
    size, stride, dilation, base = (np.maximum(values, 1) for values in window)
    count = (window[0] > 0).sum(axis=1, keepdims=True)
    prefix = 'convolution_dim_numbers'
    spatial, of_filter, of_result = (
        np.where(of_windows < count, _numbers(pairs, f'{prefix}_{name}'), -1)
        for name in ('input_spatial_dims', 'kernel_spatial_dims', 'output_spatial_dims')
    )
    grouped = role(_GROUPS) > 1
    batch = np.where(role(_BATCH_GROUPS) > 1, -1, role(schema.OUTPUT_BATCH))
    feature = role(schema.OUTPUT_FEATURE)
    inner = FIRST_REDUCED + count  # the windows' dimensions come first

    shape = pairs.operand.shape
    image, filters = np.full(shape, -1), np.full(shape, -1)  # [pairs, 6]
    times, plus = np.ones(shape), np.zeros(shape)
    _assign(image, role(schema.INPUT_BATCH), batch)
    features = role(schema.INPUT_FEATURE)
    _assign(image, features, np.where(grouped, feature, inner))
    _assign(image, spatial, of_result)
    # A tile of t positions spans (t - 1) x stride + (size - 1) x dilation + 1 elements;
    # with base dilation only every `base`-th of them is real.  `plus` is not divided
    # by `base`: an upper bound.
    _assign(times, spatial, stride / base)
    _assign(plus, spatial, np.maximum((size - 1) * dilation + 1 - stride, 0))
    rows = np.arange(shape[0])[:, np.newaxis]
    ratio = pairs.operand[rows, features] / np.maximum(pairs.result[rows, feature], 1)
    _assign(times, features, np.where(grouped, ratio, 1))
    _assign(filters, role(schema.KERNEL_OUTPUT), feature)
    _assign(filters, role(schema.KERNEL_INPUT), inner)
    _assign(filters, of_filter, FIRST_REDUCED + of_windows)
    is_image = (pairs.number == 0)[:, np.newaxis]
    return (
        np.where(is_image, image, filters),
        np.where(is_image, times, 1),
        np.where(is_image, plus, 0),
    )


def _by_number(rules: dict[str, _RuleOf]) -> dict[int, _RuleOf]:
    """Returns rules by number of the opcode."""
    return {schema.OPCODE_NUMBERS[name]: rule for name, rule in rules.items()}


# How tiles pass from results to operands, by opcode; others are elementwise.
RULES = _by_number(
    {
        'broadcast': _through_broadcast,
        'concatenate': _through_concatenate,
        'pad': _through_identity,
        'reduce': _through_reduce,
        'reduce-window': _through_reduce_window,
        'reshape': _through_reshape,
        'slice': _through_slice,
        'transpose': _through_transpose,
    }
)
# The same for nodes with the columns `schema.EXTRA`.
EXACT_RULES = {
    **RULES,
    **_by_number(
        {
            'convolution': _through_convolution,
            'dot': _through_dot,
            'dynamic-slice': _through_identity,
            'gather': _through_gather,
        }
    ),
}
