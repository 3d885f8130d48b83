"""Element types of arrays, as flags."""

import numpy as np

from baselines.hlo import columns

# XLA's PrimitiveType numbers, in the order of their published columns.  Newer
# types (8-bit floats, 4-bit integers) have none.
_TYPES = (
    ('invalid_type', 0),
    ('pred', 1),
    ('s8', 2),
    ('s16', 3),
    ('s32', 4),
    ('s64', 5),
    ('u8', 6),
    ('u16', 7),
    ('u32', 8),
    ('u64', 9),
    ('f16', 10),
    ('f32', 11),
    ('f64', 12),
    ('bf16', 16),
    ('c64', 15),
    ('c128', 18),
    ('tuple', 13),
    ('opaque_type', 14),
    ('token', 17),
)


def add_flags(out: columns.Columns, name: str, types: np.ndarray) -> None:
    """Adds 19 columns `<name>_is_<type>`, at most one of them 1.

    Args:
        out: receives the columns.
        name: their prefix.
        types: PrimitiveType numbers, int64 [n]; -1 gives all zeros.
    """
    numbers = np.array([number for _, number in _TYPES])
    out.add_block(
        [f'{name}_is_{label}' for label, _ in _TYPES], types[:, None] == numbers
    )
