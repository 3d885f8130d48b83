"""Times configurations of a kernel next to the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baselines.core import text
from baselines.hlo import protos
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import rewriting
from tpugraphs_lab.kernels import rounding
from tpugraphs_lab.measure.clock import session as session_lib
from tpugraphs_lab.measure.clock import timing

_SECONDS = 20  # wall time for a kernel, compiling included, as with `collect`
_SEED = 0  # seed for inputs and the order of timing


def time_choices(
    session: session_lib.Session,
    module: protos.HloModuleProto,
    configs: Sequence[Mapping[str, Any]],
) -> list[text.JsonObject]:
    """Times configurations of a kernel, the default first, in the same passes.

    Args:
        module: the kernel's HloModuleProto.
        configs: `output_bounds` and `kernel_bounds`, as `rank --json` writes them.

    Returns:
        For each configuration `measured_ns`, the least time over passes; `ratio`, to
        the default's time, the median over passes; `noise`, half the width of the 95 %
        interval of the ratio; and `outcome`, a text: the comparison with the default,
        whose differences from itself are the noise, or the reason why the other three
        are None.

    Raises:
        session_lib.WorkerError: the default cannot be timed, or no result compared.
    """
    plan = rewriting.Plan(module)
    tiles = [
        rewriting.Tiles(tuple(c['output_bounds']), tuple(c['kernel_bounds']))
        for c in configs
    ]
    modules = [rewriting.tile(plan, t).module.SerializeToString() for t in tiles]
    protocol = timing.Protocol(
        seconds=_SECONDS, compiling=_SECONDS / 2, least_configs=len(modules)
    )
    inputs, tolerance = cutting.inputs_of(module), rounding.tolerance_of(module)
    measured = session.measure(modules, inputs, _SEED, protocol, tolerance)
    untimed = dict.fromkeys(('measured_ns', 'noise', 'ratio'))
    rows: list[text.JsonObject] = [
        {**untimed, 'outcome': measured.dropped.get(number, 'too little time')}
        for number in range(len(modules))
    ]
    for number, passes in zip(measured.kept, measured.passes.T):
        rows[number] = _row(number, passes, measured)
    return rows


def _row(number: int, passes: np.ndarray, measured: timing.Measured) -> text.JsonObject:
    """Compares a configuration with the default, by its times int64 [passes]."""
    default = measured.passes[:, 0]
    again = timing.compare(default, measured.again)
    # How many times as fast the default seems to be as itself.
    limit = max(again.high, 1 / again.low)
    ratio = timing.compare(default, passes) if number else again
    outcome = 'no faster than the default'
    if not number:
        outcome = 'the default'
    elif ratio.low > limit:
        outcome = 'faster'
    elif ratio.high < 1 / limit:
        outcome = 'slower'
    return {
        'measured_ns': int(passes.min()),
        'noise': (1 / ratio.low - 1 / ratio.high) / 2,
        'ratio': 1 / ratio.speedup if number else 1.0,
        'outcome': outcome,
    }
