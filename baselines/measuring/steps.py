"""An operation on parts of its operands, as the rules of propagation say it."""

import dataclasses
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from baselines.measuring import extents


class Whole(Exception):
    """The operation has to be computed whole; the text says why."""


@dataclasses.dataclass
class Step:
    """An operation on parts of its operands.

    Attributes:
        regions: of each operand; None means all of it.
        edit: changes a copy of the instruction, all but its shape.
        made: dimensions of the result.
        rest: the part of the result that was asked for; None means all.
        pads: operand -> (low, high, interior) per dimension; it is padded
            whole before its region is taken.
    """

    regions: List[Optional[extents.Region]]
    made: Sequence[int]
    edit: Callable[[Any], None] = lambda copy: None
    rest: Optional[extents.Region] = None
    pads: Dict[int, List[Tuple[int, int, int]]] = dataclasses.field(
        default_factory=dict
    )


def sizes_of(region: extents.Region) -> List[int]:
    """Returns the dimensions of a region."""
    return [extent.size for extent in region]
