"""Describes regions of arrays: the starts and sizes of tiles.

A start is a number, or an s32 scalar of the program with a divisor.  Arithmetic on
numbers adds no instructions; on scalars it does.
"""

import dataclasses
import math
import operator
from typing import Any, List, Optional, Sequence, Tuple, Union

from tpugraphs.measure import building

# opcode -> the function of a start and a number, the number that changes nothing, and
# the function of the start's divisor and a number.
_ARITHMETIC = {
    'add': (operator.add, 0, math.gcd),
    'multiply': (operator.mul, 1, operator.mul),
    'divide': (operator.floordiv, 1, operator.floordiv),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Extent:
    """A tile along one dimension."""

    start: Union[int, Any]  # a number or an s32 scalar
    size: int  # how many elements
    step: int = 0  # a number that divides `start`, where that is a scalar

    def __post_init__(self):
        if isinstance(self.start, int):
            object.__setattr__(self, 'step', abs(self.start))

    def key(self) -> Tuple[Any, int]:
        """Returns start and size, to compare extents of one computation."""
        number = self.start if isinstance(self.start, int) else ('at', self.start.id)
        return number, self.size

    def moved(
        self, scope: building.Computation, opcode: str, number: int, size: int
    ) -> 'Extent':
        """Returns an extent whose start is computed from this one's.

        Args:
            scope: the computation that arithmetic on starts goes to.
            opcode: 'add', 'multiply' or 'divide'.
            number: the second operand; of 'divide' a divisor of `step`.
            size: of the new extent, in elements.
        """
        work, idle, divisor = _ARITHMETIC[opcode]
        if isinstance(self.start, int):
            return Extent(work(self.start, number), size)
        start = self.start
        if number != idle:
            start = _scalar(scope, opcode, start, number)
        return Extent(start, size, divisor(self.step, number))

    def divides(self, number: int) -> bool:
        """Tells whether start and size are multiples of a number."""
        return self.step % number == 0 and self.size % number == 0


Region = Tuple[Extent, ...]


def whole(dims: Sequence[int]) -> Region:
    """Returns the region that is the whole array."""
    return tuple(Extent(0, size) for size in dims)


def is_whole(region: Sequence[Extent], dims: Sequence[int]) -> bool:
    """Tells whether a region is all of an array of such dimensions."""
    return sizes_of(region) == list(dims)


def brought_into(scope: building.Computation, region: Region) -> Region:
    """Returns a region whose scalar starts are values of `scope`."""
    return tuple(
        extent
        if isinstance(extent.start, int)
        else dataclasses.replace(extent, start=scope.use(extent.start))
        for extent in region
    )


def take(scope: building.Computation, value: Any, region: Optional[Region]) -> Any:
    """Adds the slice of a value at a region; the whole value needs none."""
    if region is None or is_whole(region, value.shape.dimensions):
        return value
    sizes = sizes_of(region)
    shape = building.shape_of(value.shape.element_type, sizes)
    if all(isinstance(extent.start, int) for extent in region):
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


def starts(scope: building.Computation, region: Region) -> Sequence[Any]:
    """Returns the starts of a region as s32 scalars."""
    return [
        scope.constant('s32', extent.start)
        if isinstance(extent.start, int)
        else extent.start
        for extent in region
    ]


def tile_of(
    scope: building.Computation, counter: Any, dims: Sequence[int], tiles: Sequence[int]
) -> Region:
    """Returns the tile of a loop's counter; the last dimension changes fastest.

    A tile at the end of a dimension that it does not divide starts earlier, as XLA
    clamps it.

    Args:
        scope: the loop's body.
        counter: s32 scalar, 0, 1, ..., `trips(dims, tiles)` - 1.
        dims: the array's dimensions.
        tiles: the tile's size along every dimension.
    """
    counts = [-(-size // tile) for size, tile in zip(dims, tiles)]
    region, after = [], 1
    for size, tile, count in reversed(list(zip(dims, tiles, counts))):
        if count == 1:
            region.append(Extent(0, size))
            continue
        index = counter
        if after > 1:
            index = _scalar(scope, 'divide', index, after)
        if after * count < math.prod(counts):
            index = _scalar(scope, 'remainder', index, count)
        after *= count
        start = _scalar(scope, 'multiply', index, tile)
        step = tile
        if size % tile:
            start = _scalar(scope, 'minimum', start, size - tile)
            step = math.gcd(tile, size - tile)
        region.append(Extent(start, tile, step))
    return tuple(reversed(region))


def trips(dims: Sequence[int], tiles: Sequence[int]) -> int:
    """Returns the number of tiles of an array."""
    return math.prod(-(-size // tile) for size, tile in zip(dims, tiles))


def reversed_extent(scope: building.Computation, extent: Extent, size: int) -> Extent:
    """Returns the operand's extent for an extent of a reversed dimension."""
    end = size - extent.size
    if isinstance(extent.start, int):
        return Extent(end - extent.start, extent.size)
    operands = [scope.constant('s32', end), extent.start]
    start = scope.add('subtract', building.shape_of('s32', []), operands)
    return Extent(start, extent.size, math.gcd(extent.step, end))


def _scalar(scope: building.Computation, opcode: str, value: Any, number: int) -> Any:
    """Adds a scalar operation with a number, once."""
    key = (opcode, value.id, number)
    if key not in scope.cache:
        operands = [value, scope.constant('s32', number)]
        scope.cache[key] = scope.add(opcode, building.shape_of('s32', []), operands)
    return scope.cache[key]


def sizes_of(region: Sequence[Extent]) -> List[int]:
    """Returns the dimensions of a region."""
    return [extent.size for extent in region]
