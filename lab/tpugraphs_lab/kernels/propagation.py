"""Finds the regions of operands that an operation needs for a region of its result.

There is a rule for every opcode that can be tiled: a function from the result's region
(`_Part`) to the same operation on regions of its operands (`Step`).

`tpugraphs_lab.columns.node_tiles` estimates the same sizes for all tiles at once.  Its
columns have no dimension numbers of dots, convolutions and gathers and no starts, so
neither can replace the other without changing measurements or features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import dataclasses
import fractions
import math
from typing import NamedTuple

from baselines.hlo import protos
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import extents

_Region = extents.Region
# Padding of a dimension: low, high, interior.
Edge = tuple[int, int, int]


class NotDivisible(Exception):
    """Raised for an operation that has to be computed whole; the text says why."""


class _Part(NamedTuple):
    """The region of an instruction's result to compute."""

    value: protos.HloInstructionProto  # the instruction
    shapes: Sequence[protos.ShapeProto]  # its operands' ShapeProtos
    region: _Region  # region of its result
    reduced: _Region  # region of the dimensions of `reduced_sizes`


@dataclasses.dataclass
class Step:
    """An operation on regions of its operands."""

    regions: list[_Region]  # one for every operand
    sizes: Sequence[int] | None = None  # dimensions of its result, if not the region's
    # the slice of its result that is the region; None means all
    rest: _Region | None = None
    # changes the attributes of the instruction's copy
    edit: Callable[[protos.HloInstructionProto], None] = lambda copy: None
    # padding of the first operand, by dimension, before its region is taken
    edges: Sequence[Edge] = ()


def step_of(
    value: protos.HloInstructionProto,
    shapes: Sequence[protos.ShapeProto],
    region: _Region,
    reduced: _Region | None = None,
) -> Step:
    """Returns the operation on parts that computes a region of a result.

    Args:
        shapes: its operands' ShapeProtos.
        reduced: region of the reduced or contracted dimensions, in the order of
            `reduced_sizes`; None takes all.

    Raises:
        NotDivisible: no rule computes that region in parts.
    """
    rule = (
        _elementwise
        if value.opcode in cutting.ELEMENTWISE
        else _RULES.get(value.opcode)
    )
    if rule is None:
        raise NotDivisible(f'{value.opcode} is computed whole')
    if reduced is None:
        reduced = extents.whole(reduced_sizes(value, shapes))
    return rule(_Part(value, shapes, region, reduced))


def reduced_sizes(
    value: protos.HloInstructionProto, shapes: Sequence[protos.ShapeProto]
) -> list[int]:
    """Returns the sizes of the dimensions that an operation reduces or contracts."""
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


def reducible(value: protos.HloInstructionProto, place: int) -> bool:
    """Returns whether partial results along one of `reduced_sizes` can be added up."""
    if value.opcode == 'convolution':
        groups = max(value.feature_group_count, value.batch_group_count)
        return place == len(value.window.dimensions) and groups <= 1
    return value.opcode == 'dot' or len(value.operand_ids) == 2


def _elementwise(part: _Part) -> Step:
    """Takes the result's region of every array operand; scalars are taken whole."""
    dims = list(part.value.shape.dimensions)
    if any(list(shape.dimensions) not in (dims, []) for shape in part.shapes):
        raise NotDivisible(f'{part.value.opcode} of different shapes')
    return Step([part.region if shape.dimensions else () for shape in part.shapes])


def _broadcast(part: _Part) -> Step:
    """Takes the extents of the dimensions that the operand has."""
    return Step([tuple(part.region[d] for d in part.value.dimensions)])


def _transpose(part: _Part) -> Step:
    """Takes the region in the operand's order of dimensions."""
    places = list(part.value.dimensions)
    return Step([tuple(part.region[places.index(d)] for d in range(len(places)))])


def _reverse(part: _Part) -> Step:
    """Takes the mirrored extents of reversed dimensions."""
    operand = tuple(
        extent.mirrored(size)
        if dim in part.value.dimensions and extent.size != size
        else extent
        for dim, (extent, size) in enumerate(
            zip(part.region, part.shapes[0].dimensions)
        )
    )
    return Step([operand])


def _slice(part: _Part) -> Step:
    """Takes the operand's extents below the slice, and slices them from 0."""
    operand, spans = [], []
    for extent, cut in zip(part.region, part.value.slice_dimensions):
        # The operand's elements from the first to the last that the slice takes.
        spans.append((extent.size - 1) * cut.stride + 1)
        operand.append(extent.times(cut.stride, spans[-1]).plus(cut.start))

    def edit(copy: protos.HloInstructionProto) -> None:
        for cut, span in zip(copy.slice_dimensions, spans):
            cut.start, cut.limit = 0, span

    return Step([tuple(operand)], edit=edit)


def _pad(part: _Part) -> Step:
    """Takes padded dimensions whole; raises NotDivisible if the region does not."""
    operand = []
    for extent, size, result, edge in zip(
        part.region,
        part.shapes[0].dimensions,
        part.value.shape.dimensions,
        part.value.padding_config.dimensions,
    ):
        padded = edge.edge_padding_low or edge.edge_padding_high
        if not (padded or edge.interior_padding):
            operand.append(extent)
        elif extent.size == result:
            operand.append(extents.Extent(0, size))
        else:
            raise NotDivisible('pad along a tiled dimension')
    return Step([tuple(operand), ()])


def _concatenate(part: _Part) -> Step:
    """Takes the joined dimension whole, and slices the result to the region."""
    [joined] = part.value.dimensions
    sizes = [shape.dimensions[joined] for shape in part.shapes]
    regions = [
        _replaced(part.region, joined, extents.Extent(0, size)) for size in sizes
    ]
    result = extents.sizes_of(
        _replaced(part.region, joined, extents.Extent(0, sum(sizes)))
    )
    rest = _replaced(extents.whole(result), joined, part.region[joined])
    return Step(regions, result, rest)


def _replaced(region: _Region, dim: int, extent: extents.Extent) -> _Region:
    """Returns a region with its extent along a dimension replaced."""
    return (*region[:dim], extent, *region[dim + 1 :])


def _reshape(part: _Part) -> Step:
    """Takes the operand's extents, group by group of `groups`."""
    operand: list[extents.Extent] = []
    for inner, outer in groups(part.shapes[0].dimensions, part.value.shape.dimensions):
        sizes = [part.shapes[0].dimensions[d] for d in inner]
        results = [(part.region[d], part.value.shape.dimensions[d]) for d in outer]
        operand += _reshape_group(sizes, results)
    return Step([tuple(operand)])


def groups(
    before: Sequence[int], after: Sequence[int]
) -> list[tuple[list[int], list[int]]]:
    """Returns the smallest groups of dimensions that a reshape keeps together.

    >>> groups([2, 3, 4], [6, 4])
    [([0, 1], [0]), ([2], [1])]
    """
    pairs, left, right = [], 0, 0
    while left < len(before) or right < len(after):
        first, second = left, right
        sizes = [1, 1]
        # Dimensions join the group on the side with fewer elements, until both agree.
        while left == first and right == second or sizes[0] != sizes[1]:
            if right == len(after) or (left < len(before) and sizes[0] <= sizes[1]):
                sizes[0] *= before[left]
                left += 1
            else:
                sizes[1] *= after[right]
                right += 1
        pairs.append((list(range(first, left)), list(range(second, right))))
    return pairs


def _reshape_group(
    sizes: Sequence[int], results: Sequence[tuple[extents.Extent, int]]
) -> _Region:
    """Returns the extents of the operand's dimensions in a group of `groups`.

    But for dimensions of size 1, only the first dimension of the result may be tiled,
    and the operand or the result has a single dimension.  Raises NotDivisible for
    others, and if tiles cut rows of the operand.
    """
    if all(extent.size == size for extent, size in results):
        return extents.whole(sizes)
    long = [i for i, size in enumerate(sizes) if size > 1]
    tiled = [(extent, size) for extent, size in results if size > 1]
    cut = [i for i, (extent, size) in enumerate(tiled) if extent.size != size]
    if cut != [0] or min(len(long), len(tiled)) != 1:
        raise NotDivisible('reshape across tiles')
    extent, _ = tiled[0]
    inner = math.prod(size for _, size in tiled[1:])
    row = extent.times(inner, extent.size * inner)
    inner = math.prod(sizes[long[0] + 1 :])
    if not row.divides(inner):
        raise NotDivisible('reshape across tiles')
    part = row.times(fractions.Fraction(1, inner), row.size // inner)
    return _replaced(extents.whole(sizes), long[0], part)


def _reduce(part: _Part) -> Step:
    """Takes the region along kept dimensions, `part.reduced` along reduced ones."""
    if len(part.shapes) != 2:
        raise NotDivisible('reduce of several arrays')
    # The result has the kept dimensions in the operand's order.
    kept, parts = iter(part.region), dict(zip(part.value.dimensions, part.reduced))
    operand = tuple(
        parts[dim] if dim in parts else next(kept)
        for dim in range(len(part.shapes[0].dimensions))
    )
    return Step([operand, ()])


def _dot(part: _Part) -> Step:
    """Takes batch and free dimensions of the region, and `part.reduced`."""
    numbers = part.value.dot_dimension_numbers
    sides = (
        (numbers.lhs_contracting_dimensions, numbers.lhs_batch_dimensions),
        (numbers.rhs_contracting_dimensions, numbers.rhs_batch_dimensions),
    )
    regions, place = [], len(numbers.lhs_batch_dimensions)
    for shape, (contracting, batch) in zip(part.shapes, sides):
        parts = {
            **dict(zip(batch, part.region)),
            **dict(zip(contracting, part.reduced)),
        }
        for dim in range(len(shape.dimensions)):
            if dim not in parts:
                parts[dim] = part.region[place]
                place += 1
        regions.append(tuple(parts[dim] for dim in sorted(parts)))
    return Step(regions)


def _gather(part: _Part) -> Step:
    """Takes the region's indices, and its sizes along dimensions sliced whole."""
    numbers = part.value.gather_dimension_numbers
    operand = list(extents.whole(part.shapes[0].dimensions))
    slices = list(part.value.gather_slice_sizes)
    kept = [d for d in range(len(slices)) if d not in numbers.collapsed_slice_dims]
    for dim, place in zip(kept, numbers.offset_dims):
        if part.region[place].size == slices[dim]:
            continue
        if dim in numbers.start_index_map or slices[dim] != operand[dim].size:
            raise NotDivisible('gather along a tiled dimension')
        operand[dim] = part.region[place]
        slices[dim] = part.region[place].size
    # Dimensions of the result are those of the indices, and of the slices.
    batch = iter(e for d, e in enumerate(part.region) if d not in numbers.offset_dims)
    indices = tuple(
        extents.Extent(0, size) if dim == numbers.index_vector_dim else next(batch)
        for dim, size in enumerate(part.shapes[1].dimensions)
    )

    def edit(copy: protos.HloInstructionProto) -> None:
        copy.gather_slice_sizes[:] = slices

    return Step([tuple(operand), indices], edit=edit)


def _window_extent(
    window: protos.WindowDimension, extent: extents.Extent, result: int, size: int
) -> tuple[extents.Extent, Edge]:
    """Returns the extent of the padded operand under windows, and the padding."""
    if extent.size == result:
        return extents.Extent(0, size), (0, 0, 0)
    # The elements of the padded operand under one window.
    reach = (window.size - 1) * max(window.window_dilation, 1) + 1
    stride = max(window.stride, 1)
    part = extent.times(stride, (extent.size - 1) * stride + reach)
    interior = max(window.base_dilation, 1) - 1
    return part, (window.padding_low, window.padding_high, interior)


def _unpad(copy: protos.HloInstructionProto, edges: Sequence[Edge]) -> None:
    """Removes padding that the operand already has from an instruction's window."""
    for window, edge in zip(copy.window.dimensions, edges):
        if any(edge):
            window.padding_low = window.padding_high = 0
            window.base_dilation = 1


def _reduce_window(part: _Part) -> Step:
    """Takes the extents of the padded operand that the windows cover."""
    if len(part.shapes) != 2:
        raise NotDivisible('reduce-window of several arrays')
    dims = part.value.shape.dimensions, part.shapes[0].dimensions
    windows = zip(part.value.window.dimensions, part.region, *dims)
    operand, edges = zip(*(_window_extent(*window) for window in windows))
    edit = lambda copy: _unpad(copy, edges)
    return Step([operand, ()], edit=edit, edges=edges)


def _convolution(part: _Part) -> Step:
    """Takes the image's extents under the windows, and the kernels of its features."""
    numbers = part.value.convolution_dimension_numbers
    image = list(extents.whole(part.shapes[0].dimensions))
    taps = list(extents.whole(part.shapes[1].dimensions))
    edges = [(0, 0, 0)] * len(image)
    dims = list(part.value.shape.dimensions)
    batch = part.region[numbers.output_batch_dimension]
    feature = part.region[numbers.output_feature_dimension]
    has_features_tiled = feature.size != dims[numbers.output_feature_dimension]
    groups_ = max(part.value.feature_group_count, 1)
    inner = taps[numbers.kernel_input_feature_dimension].size
    if part.value.batch_group_count > 1:
        if has_features_tiled or batch.size != dims[numbers.output_batch_dimension]:
            raise NotDivisible('convolution of batch groups')
    else:
        image[numbers.input_batch_dimension] = batch
    if has_features_tiled:
        taps[numbers.kernel_output_feature_dimension] = feature
        # A tile of output features needs the input features of its groups alone.
        in_group = dims[numbers.output_feature_dimension] // groups_
        if groups_ > 1:
            if not feature.divides(in_group):
                raise NotDivisible('convolution across feature groups')
            groups_ = feature.size // in_group
            factor = fractions.Fraction(inner, in_group)
            image[numbers.input_feature_dimension] = feature.times(
                factor, groups_ * inner
            )
    spatial = list(numbers.input_spatial_dimensions)
    for window, source, result in zip(
        part.value.window.dimensions, spatial, numbers.output_spatial_dimensions
    ):
        image[source], edges[source] = _window_extent(
            window, part.region[result], dims[result], part.shapes[0].dimensions[source]
        )
    if part.reduced[-1].size != inner:
        image[numbers.input_feature_dimension] = part.reduced[-1]
        taps[numbers.kernel_input_feature_dimension] = part.reduced[-1]

    def edit(copy: protos.HloInstructionProto) -> None:
        copy.feature_group_count = groups_
        _unpad(copy, [edges[source] for source in spatial])

    return Step([tuple(image), tuple(taps)], edit=edit, edges=edges)


_RULES = {
    'broadcast': _broadcast,
    'concatenate': _concatenate,
    'convolution': _convolution,
    'dot': _dot,
    'gather': _gather,
    'pad': _pad,
    'reduce': _reduce,
    'reduce-window': _reduce_window,
    'reshape': _reshape,
    'reverse': _reverse,
    'slice': _slice,
    'transpose': _transpose,
}
