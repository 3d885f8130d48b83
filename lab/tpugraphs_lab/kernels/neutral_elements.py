"""Neutral elements: the values from which a partial result of a reduction starts."""

import re

import numpy as np

from tpugraphs_lab.kernels import building


def _elements(name: str) -> dict[str, float]:
    """Returns the neutral elements of a type, by the opcodes that can be reduced by.

    Args:
        name: a type of numbers, by NumPy's name.

    Returns:
        {} for types whose partial results are not joined: complex numbers, 4 bits,
        and floats of 8 bits, some of which have no infinity.
    """
    if not re.fullmatch('bool|u?int(8|16|32|64)|b?float(16|32|64)', name):
        return {}
    if 'float' in name:
        infinity = float('inf')
        # 0 + -0 is 0, and -0 + -0 is -0.
        return {'add': -0.0, 'multiply': 1.0, 'maximum': -infinity, 'minimum': infinity}
    lowest, highest = 0, 1
    if name != 'bool':
        lowest, highest = np.iinfo(name).min, np.iinfo(name).max
    return {
        'add': 0,
        'multiply': 1,
        'maximum': lowest,
        'minimum': highest,
        'and': -1 if lowest else highest,  # all bits
        'or': 0,
        'xor': 0,
    }


# Number of XLA's element type -> opcode -> neutral element; a float for floats.
TABLE = {number: _elements(name) for number, name in building.NUMPY_TYPES.items()}
