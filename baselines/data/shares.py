"""Divides groups of graphs among train, valid and test."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from baselines.data import collections

_Group = TypeVar('_Group', str, int)


def parse_shares(text: str) -> tuple[float, ...]:
    """Parses --split, such as '80/10/10'; returns its numbers, whatever their sum.

    Raises:
        ValueError: it is not three numbers of at least 0, or all are 0.
    """
    try:
        shares = tuple(float(share) for share in text.split('/'))
    except ValueError:
        shares = ()
    if (
        len(shares) != len(collections.SPLITS)
        or not all(0 <= share < 1e6 for share in shares)
        or not any(shares)
    ):
        raise ValueError(
            '--split must be the shares of train, valid and test, such as '
            f'80/10/10, or 0/0/100 to test on all, not {text!r}'
        )
    return shares


def share_out(
    sizes: Mapping[_Group, float], shares: Sequence[float]
) -> dict[_Group, int]:
    """Assigns groups to parts, largest first, each to the part that lacks most.

    Groups of equal size are ordered by name, and ties go to the first part.  Every part
    with a share gets at least one group, if necessary one of the smallest.

    Args:
        sizes: group -> size; at least as many groups as parts with a share.
        shares: the shares of the parts; whole numbers give the same on every machine.

    Returns:
        Group -> number of its part.
    """
    missing = [share * sum(sizes.values()) for share in shares]
    chosen: dict[_Group, int] = {}
    order = sorted(sizes, key=lambda group: (-sizes[group], group))
    for left, group in zip(range(len(order), 0, -1), order):
        taken = chosen.values()
        empty = [n for n, share in enumerate(shares) if share and n not in taken]
        # The last groups go to parts that would stay empty.
        among = empty if left <= len(empty) else range(len(shares))
        chosen[group] = max(among, key=lambda n: missing[n])
        missing[chosen[group]] -= sizes[group]
    return chosen
