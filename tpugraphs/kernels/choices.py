"""The configurations of each task: tiles of kernels, or layouts of programs."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import NamedTuple

from baselines.hlo import protos
from baselines.hlo import reading
from tpugraphs.clock import session as session_lib
from tpugraphs.kernels import cutting
from tpugraphs.kernels import layouts
from tpugraphs.kernels import preparation
from tpugraphs.kernels import tile_choices
from tpugraphs.programs import reader


class Choices(NamedTuple):
    """How the configurations of a task are drawn and written."""

    # (kernel, generator, most configurations) -> Candidates, the default first
    candidates_of: Callable[..., tile_choices.Candidates]
    # (kernel, configurations, nanoseconds) -> ModuleTuningData
    tuning_data: Callable[..., protos.ModuleTuningData]


OF_TASK: dict[str, Choices] = {
    reading.TILE: Choices(tile_choices.candidates_of, tile_choices.tuning_data),
    reading.LAYOUT: Choices(layouts.candidates_of, layouts.tuning_data),
}


def kernels_of(
    program: reader.Program,
    task: str,
    session: session_lib.Session | None,
    digests: set[str],
    skipped: collections.Counter[str],
) -> Sequence[cutting.Kernel]:
    """Returns the kernels of a program (tile) or the program itself (layout).

    Args:
        task: 'tile' or 'layout'.
        session: compiles the program into kernels; see `preparation.optimise`.
        digests: hashes of earlier programs' kernels, which are left out; those of
            this program are added.
        skipped: counts the kernels left out, by reason.

    Raises:
        ValueError: XLA cannot compile it.
    """
    if task == reading.LAYOUT:
        return layouts.kernels_of(program.module, program.name, skipped)
    module = preparation.optimise(program, session)
    return tile_choices.kernels_of(module, program.name, digests, skipped)
