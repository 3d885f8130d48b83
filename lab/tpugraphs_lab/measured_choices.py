"""Times the first choices of ranked kernels, for `tpugraphs lab rank --measure`."""

from __future__ import annotations

from collections.abc import Sequence

from baselines.hlo import reading
from baselines.scoring import prediction
from tpugraphs.ranking import sources
from tpugraphs_lab import measure
from tpugraphs_lab.kernels import tpu_tiles
from tpugraphs_lab.programs import extras
from tpugraphs_lab.programs import reader


def check(count: int, raw_files: sources.RawFiles, paths: Sequence[str]) -> None:
    """Checks that the kernels of all files can be timed here.

    Args:
        count: choices to time of each kernel.
        raw_files: reads the paths.

    Raises:
        ValueError: one cannot, jaxlib is not installed, or the count is not positive.
    """
    if count < 1:
        raise ValueError(f'--measure must be at least 1, not {count}')
    extras.require('--measure')
    for path in paths:
        if reader.tuning_kind(path):
            raise ValueError(
                f'{path}: --measure times programs, and this is tuning data, with '
                'the kernels and candidates of another compiler'
            )
        program = raw_files.read(path)
        if _is_of_tpu(program):
            raise ValueError(f'{path}: compiled for a TPU, so --measure cannot time it')


def _is_of_tpu(program: reading.Source) -> bool:
    """Returns whether layouts of a program, or its backend, have tiles of a TPU."""
    return isinstance(program, reading.Program) and (
        tpu_tiles.is_of_tpu(program.module)
        or any(
            tpu_tiles.own_tiles(instruction)
            for computation in program.module.computations
            for instruction in computation.instructions
        )
    )


class Timing:
    """Times ranked kernels.

    Attributes:
        is_interrupted: whether Ctrl-C ended it after the first kernel, whose times are
            printed.

    Args:
        count: choices to time of each kernel.
    """

    def __init__(self, count: int):
        self._count = count
        self.is_interrupted = False

    def add_times(
        self, predictor: prediction.Predictor, modules: sources.Ranked
    ) -> sources.Ranked:
        """Yields ranked modules with the times of the first choices and the default.

        Raises:
            ValueError: the model ranks layouts.
        """
        if predictor.collection.task == reading.LAYOUT:
            raise ValueError(
                f'--measure times tiles, and {predictor.name} ranks layouts'
            )
        return self._timed(modules)

    def _timed(self, modules: sources.Ranked) -> sources.Ranked:
        """Yields the modules with their times, until Ctrl-C; see `add_times`."""
        has_some = False
        try:
            with measure.Session() as session:
                for ranked in modules:
                    places = [*range(min(self._count, len(ranked.scores)))]
                    places = [
                        ranked.default,
                        *(p for p in places if p != ranked.default),
                    ]
                    configs = [ranked.as_json(int(ranked.run_index[p])) for p in places]
                    try:
                        rows = measure.time_choices(session, ranked.hlo, configs)
                        ranked.times = dict(zip(places, rows))
                    except measure.WorkerError as error:
                        ranked.untimed = str(error)
                    yield ranked
                    has_some = True
        except KeyboardInterrupt:
            if not has_some:
                raise
            self.is_interrupted = True
