"""Which part of its operands an operation needs for a part of its result.

Each rule takes an instruction, the shapes of its operands and the wanted region
of its result, and says what to compute instead: the same operation on parts.
"""

import math
from typing import Any, List, Optional, Sequence, Tuple

from baselines.measuring import building
from baselines.measuring import extents
from baselines.measuring import kernels
from baselines.measuring import windows

_Region = extents.Region


def step_of(
    scope: building.Computation,
    value: Any,
    shapes: Sequence[Any],
    region: _Region,
    reduced: Optional[_Region] = None,
) -> extents.Step:
    """Returns how a region of a result is computed.

    Args:
        scope: where arithmetic on starts goes.
        value: the instruction.
        shapes: its operands' shapes.
        region: of its result.
        reduced: the part of what is reduced or contracted to take, in the
            order of `reduced_sizes`; None takes all.

    Raises:
        Whole: there is no such rule.
    """
    rule = _elementwise if kernels.is_elementwise(value) else _RULES.get(value.opcode)
    if rule is None:
        raise extents.Whole(f'{value.opcode} is computed whole')
    if reduced is None:
        reduced = extents.whole(reduced_sizes(value, shapes))
    return rule(scope, value, shapes, region, reduced)


def reduced_sizes(value: Any, shapes: Sequence[Any]) -> List[int]:
    """Returns the sizes of what an operation reduces or contracts."""
    sizes = [d.size for d in value.window.dimensions]
    if value.opcode == 'reduce-window':
        return [size for size in sizes if size > 1]
    if value.opcode == 'convolution':
        inner = value.convolution_dimension_numbers.kernel_input_feature_dimension
        return [*sizes, shapes[1].dimensions[inner]]
    dims = {
        'reduce': value.dimensions,
        'dot': value.dot_dimension_numbers.lhs_contracting_dimensions,
    }
    return [shapes[0].dimensions[d] for d in dims.get(value.opcode, ())]


def reducible(value: Any, place: int) -> bool:
    """Whether partial results along one of `reduced_sizes` can be added up."""
    if value.opcode == 'convolution':
        groups = max(value.feature_group_count, value.batch_group_count)
        return place == len(value.window.dimensions) and groups <= 1
    return value.opcode == 'dot' or len(value.operand_ids) == 2


def _elementwise(scope, value, shapes, region, reduced) -> extents.Step:
    dims = list(value.shape.dimensions)
    if any(list(shape.dimensions) not in (dims, []) for shape in shapes):
        raise extents.Whole(f'{value.opcode} of different shapes')
    return extents.Step([region if shape.dimensions else () for shape in shapes])


def _broadcast(scope, value, shapes, region, reduced) -> extents.Step:
    return extents.Step([tuple(region[d] for d in value.dimensions)])


def _transpose(scope, value, shapes, region, reduced) -> extents.Step:
    places = list(value.dimensions)
    return extents.Step([tuple(region[places.index(d)] for d in range(len(places)))])


def _reverse(scope, value, shapes, region, reduced) -> extents.Step:
    operand = tuple(
        extents.reversed_extent(scope, extent, size)
        if dim in value.dimensions and extent.size != size
        else extent
        for dim, (extent, size) in enumerate(zip(region, shapes[0].dimensions))
    )
    return extents.Step([operand])


def _slice(scope, value, shapes, region, reduced) -> extents.Step:
    operand, spans = [], []
    for extent, cut in zip(region, value.slice_dimensions):
        spans.append((extent.size - 1) * cut.stride + 1)
        scaled = extent.moved(scope, 'multiply', cut.stride, spans[-1])
        operand.append(scaled.moved(scope, 'add', cut.start, spans[-1]))

    def edit(copy):
        for cut, span in zip(copy.slice_dimensions, spans):
            cut.start, cut.limit = 0, span

    return extents.Step([tuple(operand)], edit=edit)


def _pad(scope, value, shapes, region, reduced) -> extents.Step:
    operand = []
    for extent, size, result, edge in zip(
        region,
        shapes[0].dimensions,
        value.shape.dimensions,
        value.padding_config.dimensions,
    ):
        padded = edge.edge_padding_low or edge.edge_padding_high
        if not (padded or edge.interior_padding):
            operand.append(extent)
        elif extent.size == result:
            operand.append(extents.Extent(0, size))
        else:
            raise extents.Whole('pad along a tiled dimension')
    return extents.Step([tuple(operand), ()])


def _concatenate(scope, value, shapes, region, reduced) -> extents.Step:
    [joined] = value.dimensions
    sizes = [shape.dimensions[joined] for shape in shapes]
    regions = [_with(region, joined, extents.Extent(0, size)) for size in sizes]
    made = extents.sizes_of(_with(region, joined, extents.Extent(0, sum(sizes))))
    rest = _with(extents.whole(made), joined, region[joined])
    return extents.Step(regions, made, rest)


def _with(region: _Region, dim: int, extent: extents.Extent) -> _Region:
    return (*region[:dim], extent, *region[dim + 1 :])


def _reshape(scope, value, shapes, region, reduced) -> extents.Step:
    operand: List[extents.Extent] = []
    for inner, outer in groups(shapes[0].dimensions, value.shape.dimensions):
        sizes = [shapes[0].dimensions[d] for d in inner]
        wanted = [(region[d], value.shape.dimensions[d]) for d in outer]
        operand += _reshaped(scope, sizes, wanted)
    return extents.Step([tuple(operand)])


def groups(
    before: Sequence[int], after: Sequence[int]
) -> List[Tuple[List[int], List[int]]]:
    """Returns the smallest groups of dimensions that a reshape keeps together.

    >>> groups([2, 3, 4], [6, 4])
    [([0, 1], [0]), ([2], [1])]
    """
    found, left, right = [], 0, 0
    while left < len(before) or right < len(after):
        first, second = left, right
        sizes = [1, 1]
        while left == first and right == second or sizes[0] != sizes[1]:
            if right == len(after) or (left < len(before) and sizes[0] <= sizes[1]):
                sizes[0] *= before[left]
                left += 1
            else:
                sizes[1] *= after[right]
                right += 1
        # A dimension of 1 alone belongs to whatever follows, or nothing.
        found.append((list(range(first, left)), list(range(second, right))))
    return found


def _reshaped(scope, sizes, wanted) -> _Region:
    """Returns the extents of a group's operand dimensions."""
    if all(extent.size == size for extent, size in wanted):
        return extents.whole(sizes)
    long = [i for i, size in enumerate(sizes) if size > 1]
    tiled = [(extent, size) for extent, size in wanted if size > 1]
    if len(long) == 1:
        return _with(extents.whole(sizes), long[0], _merged(scope, tiled))
    if len(tiled) == 1 and long:
        extent = tiled[0][0]
        inner = math.prod(sizes[long[0] + 1 :])
        if extent.divides(inner):
            part = extent.moved(scope, 'divide', inner, extent.size // inner)
            return _with(extents.whole(sizes), long[0], part)
    raise extents.Whole('reshape across tiles')


def _merged(scope, tiled) -> extents.Extent:
    """Returns the extent of a dimension that was split into several."""
    cut = [i for i, (extent, size) in enumerate(tiled) if extent.size != size]
    if len(cut) != 1 or any(size > 1 for _, size in tiled[: cut[0]]):
        raise extents.Whole('reshape across tiles')
    inner = math.prod(size for _, size in tiled[cut[0] + 1 :])
    extent = tiled[cut[0]][0]
    return extent.moved(scope, 'multiply', inner, extent.size * inner)


def _reduce(scope, value, shapes, region, reduced) -> extents.Step:
    if len(shapes) != 2:
        raise extents.Whole('reduce of several arrays')
    kept, parts = iter(region), dict(zip(value.dimensions, reduced))
    operand = tuple(
        parts[dim] if dim in parts else next(kept)
        for dim in range(len(shapes[0].dimensions))
    )
    return extents.Step([operand, ()])


def _dot(scope, value, shapes, region, reduced) -> extents.Step:
    numbers = value.dot_dimension_numbers
    sides = (
        (numbers.lhs_contracting_dimensions, numbers.lhs_batch_dimensions),
        (numbers.rhs_contracting_dimensions, numbers.rhs_batch_dimensions),
    )
    regions, place = [], len(numbers.lhs_batch_dimensions)
    for shape, (contracting, batch) in zip(shapes, sides):
        parts = {**dict(zip(batch, region)), **dict(zip(contracting, reduced))}
        for dim in range(len(shape.dimensions)):
            if dim not in parts:
                parts[dim] = region[place]
                place += 1
        regions.append(tuple(parts[dim] for dim in sorted(parts)))
    return extents.Step(regions)


def _gather(scope, value, shapes, region, reduced) -> extents.Step:
    numbers = value.gather_dimension_numbers
    operand = list(extents.whole(shapes[0].dimensions))
    slices = list(value.gather_slice_sizes)
    kept = [d for d in range(len(slices)) if d not in numbers.collapsed_slice_dims]
    for dim, place in zip(kept, numbers.offset_dims):
        if region[place].size == slices[dim]:
            continue
        if dim in numbers.start_index_map or slices[dim] != operand[dim].size:
            raise extents.Whole('gather along a tiled dimension')
        operand[dim] = region[place]
        slices[dim] = region[place].size
    batch = iter(e for d, e in enumerate(region) if d not in numbers.offset_dims)
    indices = tuple(
        extents.Extent(0, size) if dim == numbers.index_vector_dim else next(batch)
        for dim, size in enumerate(shapes[1].dimensions)
    )

    def edit(copy):
        copy.gather_slice_sizes[:] = slices

    return extents.Step([tuple(operand), indices], edit=edit)


_RULES = {
    'broadcast': _broadcast,
    'concatenate': _concatenate,
    'convolution': windows.convolution,
    'dot': _dot,
    'gather': _gather,
    'pad': _pad,
    'reduce': _reduce,
    'reduce-window': windows.reduce_window,
    'reshape': _reshape,
    'reverse': _reverse,
    'slice': _slice,
    'transpose': _transpose,
}
