"""What windows need: convolutions with their halo, and pooling."""

from typing import Any, Sequence, Tuple

from baselines.measuring import building
from baselines.measuring import extents

# Padding of a dimension: low, high, interior.
_Edge = Tuple[int, int, int]


def windowed(
    scope: building.Computation,
    window: Any,
    extent: extents.Extent,
    result: int,
    size: int,
) -> Tuple[extents.Extent, _Edge]:
    """Returns what a window needs for an extent of one result dimension.

    Args:
        scope: where arithmetic on starts goes.
        window: the dimension's WindowDimension.
        extent: of the result, whose whole size is `result`.
        size: the operand's.

    Returns:
        The extent of the operand, and the padding that it needs before.
    """
    if extent.size == result:
        return extents.Extent(0, size), (0, 0, 0)
    reach = (window.size - 1) * max(window.window_dilation, 1) + 1
    stride = max(window.stride, 1)
    part = extent.moved(scope, 'multiply', stride, (extent.size - 1) * stride + reach)
    interior = max(window.base_dilation, 1) - 1
    return part, (window.padding_low, window.padding_high, interior)


def _unpad(copy: Any, edges: Sequence[_Edge]) -> None:
    """Takes padding that the operand has already from an instruction's window."""
    for window, edge in zip(copy.window.dimensions, edges):
        if any(edge):
            window.padding_low = window.padding_high = 0
            window.base_dilation = 1


def reduce_window(scope, value, shapes, region, reduced) -> extents.Step:
    """Returns the parts that a pooling needs; see `propagation.step_of`."""
    if len(shapes) != 2:
        raise extents.Whole('reduce-window of several arrays')
    dims = value.shape.dimensions, shapes[0].dimensions
    found = zip(value.window.dimensions, region, *dims)
    operand, edges = zip(*(windowed(scope, *each) for each in found))
    edit = lambda copy: _unpad(copy, edges)
    return extents.Step([operand, ()], edit=edit, edges=edges)


def convolution(scope, value, shapes, region, reduced) -> extents.Step:
    """Returns the parts that a convolution needs; see `propagation.step_of`."""
    numbers = value.convolution_dimension_numbers
    image = list(extents.whole(shapes[0].dimensions))
    taps = list(extents.whole(shapes[1].dimensions))
    edges = [(0, 0, 0)] * len(image)
    dims = list(value.shape.dimensions)
    batch = region[numbers.output_batch_dimension]
    feature = region[numbers.output_feature_dimension]
    many = feature.size != dims[numbers.output_feature_dimension]
    groups_ = max(value.feature_group_count, 1)
    inner = taps[numbers.kernel_input_feature_dimension].size
    if value.batch_group_count > 1:
        if many or batch.size != dims[numbers.output_batch_dimension]:
            raise extents.Whole('convolution of batch groups')
    else:
        image[numbers.input_batch_dimension] = batch
    if many:
        taps[numbers.kernel_output_feature_dimension] = feature
        each = dims[numbers.output_feature_dimension] // groups_
        if groups_ > 1:
            if not feature.divides(each):
                raise extents.Whole('convolution across feature groups')
            groups_ = feature.size // each
            first = feature.moved(scope, 'divide', each, groups_)
            first = first.moved(scope, 'multiply', inner, groups_ * inner)
            image[numbers.input_feature_dimension] = first
    spatial = list(numbers.input_spatial_dimensions)
    for window, source, result in zip(
        value.window.dimensions, spatial, numbers.output_spatial_dimensions
    ):
        image[source], edges[source] = windowed(
            scope, window, region[result], dims[result], shapes[0].dimensions[source]
        )
    if reduced[-1].size != inner:
        image[numbers.input_feature_dimension] = reduced[-1]
        taps[numbers.kernel_input_feature_dimension] = reduced[-1]

    def edit(copy):
        copy.feature_group_count = groups_
        _unpad(copy, [edges[source] for source in spatial])

    return extents.Step([tuple(image), tuple(taps)], edit=edit, edges=edges)
