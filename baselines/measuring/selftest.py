"""What every worker has to show first: layouts are kept to, tiles change nothing."""

from typing import Any, Dict

from baselines.measuring import building
from baselines.measuring import layouts
from baselines.measuring import tiling


def modules() -> Dict[str, bytes]:
    """Returns the arguments of `Worker.check`: serialised HloModuleProtos.

    All take a float32 [8, 6].  `constrained` is `plain` with a layout that is not
    row-major, `tiled` is `kernel` as a loop over four tiles.
    """
    plain, kernel = _of('exponential'), _of('negate')
    turned = [((0, 1), (0, 1))]
    tiles = tiling.Tiles((4, 3), ())
    found = {
        'plain': plain,
        'constrained': layouts.constrained(plain, [1], turned),
        'kernel': kernel,
        'tiled': tiling.tile(tiling.Plan(kernel), tiles).module,
    }
    return {name: module.SerializeToString() for name, module in found.items()}


def _of(opcode: str) -> Any:
    module = building.Module(opcode)
    entry = module.computation('entry')
    x = entry.parameter(building.shape_of('f32', [8, 6]))
    entry.add(opcode, x.shape, [x])
    return module.finish(entry)
