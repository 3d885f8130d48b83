"""Describes regions of arrays: the starts and sizes of tiles.

Arithmetic on extents adds no instructions to a program; `take` adds those of a slice.
"""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import fractions
import math
from typing import Any

from baselines.hlo import protos
from tpugraphs_lab.kernels import building


@dataclasses.dataclass(frozen=True, eq=False)
class Extent:
    """A tile along one dimension, whose first element is start + factor * base."""

    start: int
    size: int  # number of elements
    # an s32 scalar of the program; None for no loop
    base: protos.HloInstructionProto | None = None
    factor: fractions.Fraction = fractions.Fraction(0)
    step: int = 0  # a number that divides the base

    def key(self) -> tuple[Any, ...]:
        """Returns values that are equal for equal extents of a computation."""
        base = None if self.base is None else self.base.id
        return self.start, self.size, base, self.factor

    def times(self, factor: int | fractions.Fraction, size: int) -> Extent:
        """Returns an extent that starts at a multiple of this extent's start.

        Args:
            factor: factor of the start; `divides` its denominator.
            size: elements of the new extent.
        """
        start, factor = int(self.start * factor), self.factor * factor
        return dataclasses.replace(self, start=start, size=size, factor=factor)

    def plus(self, number: int) -> Extent:
        """Returns the extent that begins `number` elements later."""
        return dataclasses.replace(self, start=self.start + number)

    def mirrored(self, size: int) -> Extent:
        """Returns the extent in a dimension of `size` elements that is reversed."""
        start = size - self.size - self.start
        return dataclasses.replace(self, start=start, factor=-self.factor)

    def divides(self, number: int) -> bool:
        """Returns whether the first element and the size are multiples of a number."""
        parts = self.start, self.factor * self.step, self.size
        return not any(part % number for part in parts)


Region = tuple[Extent, ...]


def whole(dims: Sequence[int]) -> Region:
    """Returns the region that is the whole array."""
    return tuple(Extent(0, size) for size in dims)


def is_whole(region: Sequence[Extent], dims: Sequence[int]) -> bool:
    """Returns whether a region has all elements of an array with these dimensions."""
    return sizes_of(region) == list(dims)


def take(
    scope: building.Computation,
    value: protos.HloInstructionProto,
    region: Region | None,
) -> protos.HloInstructionProto:
    """Adds the slice of a value at a region; the whole value needs none."""
    if region is None or is_whole(region, value.shape.dimensions):
        return value
    sizes = sizes_of(region)
    shape = building.shape_of(value.shape.element_type, sizes)
    if all(extent.base is None for extent in region):
        part = scope.add('slice', shape, [value])
        for extent in region:
            stop = extent.start + extent.size
            part.slice_dimensions.add(start=extent.start, limit=stop, stride=1)
        return part
    return scope.add(
        'dynamic-slice',
        shape,
        [value, *starts(scope, region)],
        dynamic_slice_sizes=sizes,
    )


def starts(
    scope: building.Computation, region: Region
) -> Sequence[protos.HloInstructionProto]:
    """Adds the first elements of a region as s32 scalars."""
    values = []
    for extent in region:
        if extent.base is None:
            values.append(scope.constant('s32', extent.start))
        else:
            first = scope.use(extent.base)
            first = _scalar(scope, 'multiply', first, extent.factor.numerator)
            first = _scalar(scope, 'divide', first, extent.factor.denominator)
            values.append(_scalar(scope, 'add', first, extent.start))
    return values


def tile_of(
    scope: building.Computation,
    counter: protos.HloInstructionProto,
    dims: Sequence[int],
    tiles: Sequence[int],
) -> Region:
    """Returns the tile of a loop's counter; the last dimension changes fastest.

    A tile at the end of a dimension that it does not divide starts earlier, as XLA
    clamps it.

    Args:
        scope: the loop's body.
        counter: s32 scalar, 0, 1, ..., `trips(dims, tiles)` - 1.
    """
    # [rank], tiles along each dimension, rounded up.
    counts = [-(-size // tile) for size, tile in zip(dims, tiles)]
    region, after = [], 1
    for size, tile, count in reversed(list(zip(dims, tiles, counts))):
        if count == 1:
            region.append(Extent(0, size))
            continue
        # The digit of the counter in a number system with `counts` as its bases.
        index = _scalar(scope, 'divide', counter, after)
        if after * count < math.prod(counts):
            index = _scalar(scope, 'remainder', index, count)
        after *= count
        start = _scalar(scope, 'multiply', index, tile)
        step = tile
        if size % tile:
            start = _scalar(scope, 'minimum', start, size - tile)
            step = math.gcd(tile, size - tile)
        region.append(Extent(0, tile, start, fractions.Fraction(1), step))
    return tuple(reversed(region))


def trips(dims: Sequence[int], tiles: Sequence[int]) -> int:
    """Returns the number of tiles of an array."""
    return math.prod(-(-size // tile) for size, tile in zip(dims, tiles))


def _scalar(
    scope: building.Computation,
    opcode: str,
    value: protos.HloInstructionProto,
    number: int,
) -> protos.HloInstructionProto:
    """Adds an s32 scalar operation, once; for `+ 0`, `* 1` and `/ 1` adds none."""
    if number == {'add': 0, 'multiply': 1, 'divide': 1}.get(opcode):
        return value
    key = (opcode, value.id, number)
    if key not in scope.cache:
        operands = [value, scope.constant('s32', number)]
        scope.cache[key] = scope.add(opcode, building.shape_of('s32', []), operands)
    return scope.cache[key]


def sizes_of(region: Sequence[Extent]) -> list[int]:
    """Returns the dimensions of a region."""
    return [extent.size for extent in region]
