"""Changes of bytes."""

from typing import List, Tuple

from hypothesis import strategies as st

WAYS = ('flip', 'set', 'insert', 'delete', 'cut', 'repeat', 'zero')

Change = Tuple[int, int, str]  # a place, a number and what is done there

CHANGES = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 255), st.sampled_from(WAYS)),
    min_size=1,
    max_size=4,
)


def mutated(data: bytes, changes: List[Change]) -> bytes:
    """Returns `data` with the changes made one after the other."""
    content = bytearray(data)
    for place, value, how in changes:
        at = place % (len(content) + 1)
        if how == 'flip' and at < len(content):
            content[at] ^= 1 << value % 8
        elif how == 'set' and at < len(content):
            content[at] = value
        elif how == 'insert':
            content.insert(at, value)
        elif how == 'delete':
            del content[at : at + 1 + value % 4]
        elif how == 'cut':
            del content[at:]
        elif how == 'repeat':
            content[at:at] = content[at : at + value]
        elif how == 'zero':
            content[at : at + value] = bytes(len(content[at : at + value]))
    return bytes(content)
