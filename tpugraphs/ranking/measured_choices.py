"""Times the first choices of ranked kernels, for `tpugraphs rank --measure`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from baselines.evaluation import choices
from tpugraphs import measure
from tpugraphs.kernels import tpu_tiles
from tpugraphs.programs import extras
from tpugraphs.programs import reader
from tpugraphs.ranking import ranking


def check(
    count: int, paths: Sequence[str], sources: Mapping[str, reader.Source]
) -> None:
    """Checks that the kernels of all files can be timed here.

    Args:
        count: choices to time of each kernel.
        sources: those of `paths` that were read.

    Raises:
        ValueError: one cannot, jaxlib is not installed, or the count is not positive.
    """
    if count < 1:
        raise ValueError(f'--measure is {count}; it counts choices')
    extras.require('--measure')
    for path in paths:
        source = sources.get(path)
        if not isinstance(source, reader.Program):
            if source is not None or reader.tuning_kind(path):
                raise ValueError(
                    f'{path}: --measure times programs, and this is tuning data, with '
                    'the kernels and candidates of another compiler'
                )
        elif ranking.is_of_tpu(source.module) or any(
            tpu_tiles.own_tiles(instruction)
            for computation in source.module.computations
            for instruction in computation.instructions
        ):
            raise ValueError(f'{path}: compiled for a TPU, so --measure cannot time it')


def add_times(
    modules: Iterable[choices.RankedModule], count: int
) -> Iterator[choices.RankedModule]:
    """Yields ranked modules with the times of the first choices and the default."""
    with measure.Session() as session:
        for ranked in modules:
            places = [*range(count)][: len(ranked.scores)]
            places = [ranked.default, *(p for p in places if p != ranked.default)]
            configs = [ranked.as_json(int(ranked.run_index[p])) for p in places]
            try:
                rows = measure.time_choices(session, ranked.hlo, configs)
                ranked.times = dict(zip(places, rows))
            except measure.WorkerError as error:
                ranked.untimed = str(error)
            yield ranked
