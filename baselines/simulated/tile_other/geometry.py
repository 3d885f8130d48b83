"""How the tile of a kernel's axes covers its tensors."""

import numpy as np

from baselines.simulated.hlo import Tensor
from baselines.simulated.tpu import BYTES
from baselines.simulated.tpu import LANES
from baselines.simulated.tpu import SUBLANES


def axes(view: Tensor) -> set:
    """The axes that move the tensor\'s tile."""
    found = {f.axis for f in view.axes if f is not None}
    return found | {
        f.window_axis for f in view.axes if f is not None and f.window_axis is not None
    }


def elements(view: Tensor) -> float:
    """Elements of the whole tensor."""
    return float(np.prod(view.dims))


def part(view: Tensor, tiles: np.ndarray) -> np.ndarray:
    """Elements of each logical dimension in a tile, int64 [c, rank]."""
    part = np.empty((len(tiles), len(view.dims)), np.int64)
    for dim, (size, follow) in enumerate(zip(view.dims, view.axes)):
        if follow is None:
            part[:, dim] = size
            continue
        tile = tiles[:, follow.axis]
        if follow.window_axis is None:
            covered = -(-follow.numerator * tile // follow.denominator)
        else:
            covered = (tile - 1) * follow.numerator + tiles[:, follow.window_axis]
        part[:, dim] = np.minimum(covered, size)
    return part


def in_units(values: np.ndarray) -> np.ndarray:
    """Registers per dimension of [c, rank] elements, fastest first."""
    units = values.copy()
    if units.shape[1] == 1:
        return -(-units // (LANES * SUBLANES))
    if units.shape[1] > 1:
        units[:, 0] = -(-units[:, 0] // LANES)
        units[:, 1] = -(-units[:, 1] // SUBLANES)
    return units


def units(view: Tensor, tiles: np.ndarray) -> np.ndarray:
    """Registers per dimension of a tile, fastest first: int64 [c, rank]."""
    return in_units(part(view, tiles)[:, list(view.layout)])


def whole_units(view: Tensor) -> np.ndarray:
    """Registers per dimension of the whole tensor, fastest first."""
    sizes = np.array([view.dims], np.int64)
    return in_units(sizes[:, list(view.layout)])[0]


def registers(view: Tensor, tiles: np.ndarray) -> np.ndarray:
    """Registers that a tile fills, float64 [c]."""
    return units(view, tiles).prod(axis=1).astype(np.float64)


def register_bytes(view: Tensor) -> int:
    """Bytes of one register of its elements."""
    return LANES * SUBLANES * BYTES[view.dtype]


def padded_bytes(view: Tensor) -> float:
    """Bytes of the whole tensor, in whole registers."""
    return float(whole_units(view).prod()) * register_bytes(view)
