"""Reads the tiles that XLA chose itself from optimised modules of a TPU.

As in the tile collection, dimensions are in the order in which they lie in memory,
and the last two count vector registers, of 8 and 128 elements.  The `backend_config`
of its fusions is JSON with a `window_config`, numbers as text:

    {"window_config": {"kernel_window_bounds": ["1"], "output_window_bounds": ["8"],
                       "input_window_bounds": [], "estimated_cycles": "3874"}}
"""

from __future__ import annotations

import dataclasses

from baselines.core import untrusted
from baselines.hlo import protos


@dataclasses.dataclass(frozen=True)
class OwnTiles:
    """XLA's own configuration of a fusion."""

    output: list[int]  # bounds of the output's tile
    kernel: list[int]  # bounds of the tile along reduced or contracted dimensions
    input: list[int]  # bounds of an operand's tile
    cycles: int | None = None  # XLA's estimate of its time; None if there is none
    # the estimate of XLA's learned model; None if there is none
    microseconds: float | None = None


def is_of_tpu(module: protos.HloModuleProto) -> bool:
    """Returns whether a module was compiled for a TPU, whose layouts have tiles."""
    return any(
        instruction.shape.layout.tiles
        for computation in module.computations
        for instruction in computation.instructions
    )


def own_tiles(instruction: protos.HloInstructionProto) -> OwnTiles | None:
    """Returns the tiles that XLA chose for an instruction; None if it has none."""
    try:
        window = untrusted.loads(instruction.backend_config)['window_config']
        if not window.get('output_window_bounds'):
            return None
        output, kernel, size = (
            [int(bound) for bound in window.get(f'{name}_window_bounds', ())]
            for name in ('output', 'kernel', 'input')
        )
        cycles = window.get('estimated_cycles')
        microseconds = window.get('ml_estimated_microseconds')
        return OwnTiles(
            output,
            kernel,
            size,
            None if cycles is None else int(cycles),
            None if microseconds is None else float(microseconds),
        )
    # Other compilers, and other versions, write something else there.
    except untrusted.DAMAGE:
        return None
