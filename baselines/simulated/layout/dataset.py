"""Simulated whole programs, and folders of them in the published layout."""

import dataclasses
from typing import ClassVar, Dict, Iterator, NamedTuple, Tuple
import zlib

import numpy as np

from baselines.data.collections import SPLITS
from baselines.data.layout import records
from baselines.hlo import graph
from baselines.simulated import folders
from baselines.simulated import raw
from baselines.simulated.layout import rules
from baselines.simulated.layout import search
from baselines.simulated.layout.model import LayoutModel
from baselines.simulated.layout.programs import SOURCES, Program, draw_programs
from baselines.simulated.layout.search import SEARCHES


class Compiled(NamedTuple):
    """A program, built once for several searches."""

    program: Program
    graph: Dict[str, np.ndarray]  # its arrays, as records have them
    model: LayoutModel  # its runtimes, by the rules of a book


@dataclasses.dataclass(frozen=True)
class Programs(folders.Dataset):
    """`<root>/{xla,nlp}/{random,default}/{train,valid,test}/<program>.npz`.

    The numbers of programs are per source (xla, nlp).  Everything derives from
    (seed, source, split, program, search), so that a program does not depend on how
    many others are made.
    """

    train: int = 24
    valid: int = 6
    test: int = 6
    configs_min: int = 200  # fewest configurations of a program
    configs_max: int = 2000  # most configurations of a program
    rules: str = 'drawn'  # what costs there are: one of `rules.NAMES`

    collection: ClassVar[str] = 'layout'
    version: ClassVar[int] = 2
    default_root: ClassVar[str] = '~/data/tpugraphs/sample/npz/layout'
    about: ClassVar[str] = (
        'Programs are invented networks (names begin with sim_), and every runtime\n'
        'comes from an analytical model of array layouts on a TPU v3 core plus\n'
        'noise.'
    )
    document: ClassVar[str] = 'docs/simulated-data-layout.md'
    noun: ClassVar[str] = 'programs'
    sources: ClassVar[Tuple[Tuple[str, ...], ...]] = (SOURCES, SEARCHES)

    def __post_init__(self):
        super().__post_init__()
        if not 2 <= self.configs_min <= self.configs_max <= 100000:
            raise ValueError(
                f'configs_min is {self.configs_min} and configs_max '
                f'{self.configs_max}: use 2 <= configs_min <= configs_max <= 100000'
            )
        if self.rules not in rules.NAMES:
            raise ValueError(
                f'rules is {self.rules!r}: use one of {", ".join(rules.NAMES)}'
            )

    def compiled(self, program: Program) -> Compiled:
        """Builds a program and prices its instructions."""
        computations = program.build()
        names = [computation.name for computation in computations]
        sizes = [len(computation.instructions) for computation in computations]
        arrays = raw.graph_arrays(computations)
        arrays['node_splits'] = graph.node_splits(names, sizes)[None]
        rng = self._rng(self.rules, program)
        found = rules.rules_of(self.rules, rng)
        return Compiled(program, arrays, LayoutModel(computations, found))

    def record(self, compiled: Compiled, searched: str) -> records.LayoutRecord:
        """Searches, measures and returns what goes into a file.

        Runtimes have the noise of the rules, drawn anew for each repetition.

        Args:
            compiled: the program.
            searched: 'random' or 'default'.
        """
        program, arrays, model = compiled
        rng = self._rng(searched, program)
        # How many configurations there are is drawn on a logarithmic scale.
        spread = self.configs_max / self.configs_min
        count = int(round(self.configs_min * spread ** rng.random()))

        def decided(choices):
            return (
                search.shared(model.slots, choices) if model.rules.shared else choices
            )

        def measure(choices):
            noise = model.rules.noise * folders.noise(rng, len(choices))
            return model.runtime_ns(choices) * (1.0 + noise)

        if searched == 'default':
            choices = search.genetic_search(
                model.slots, count, rng, lambda rows: measure(decided(rows))
            )
        elif (program.source, program.family) == ('xla', 'recurrent'):
            # As in xla:random, where nearly all of the duplicates are in a few
            # programs.
            choices = search.random_search(
                model.slots, self.configs_max, rng, search.FEW_REPEATED
            )
        else:
            choices = search.random_search(model.slots, count, rng)
        choices = decided(choices)
        runtimes = np.rint(measure(choices)).astype(np.int64)
        return records.LayoutRecord(
            graph_id=program.name,
            node_config_ids=model.config_nodes,
            node_config_feat=search.features(model.slots, choices),
            config_runtime=np.maximum(runtimes, 1),
            **arrays,
        )

    def _rng(self, what: str, program: Program) -> np.random.Generator:
        name = zlib.crc32(f'{what} {program.name}'.encode())
        return np.random.default_rng([self.seed, name])

    def _graphs(self) -> Iterator[folders.Graphs]:
        for source in SOURCES:
            for split in SPLITS:
                count = getattr(self, split)
                for program in draw_programs(source, split, count, self.seed):
                    compiled = self.compiled(program)
                    yield {
                        (source, searched, split): self.record(compiled, searched)
                        for searched in SEARCHES
                    }

    def _described(self, record: records.LayoutRecord) -> Tuple[float, ...]:
        count, runtimes = record.num_configs, record.config_runtime
        distinct = len({row.tobytes() for row in record.node_config_feat})
        spread = runtimes.max() / runtimes.min()
        return record.num_nodes, count, count - distinct, spread

    def _words(self, rows: folders.Rows) -> str:
        lines = [
            f'of each source train {self.train}, valid {self.valid}, test {self.test} '
            'programs'
        ]
        for place, some in rows.items():
            nodes, count, again, _ = np.sum(some, axis=0)
            lines.append(
                f'{":".join(place):12} {len(some)} programs, {nodes:,.0f} nodes, '
                f'{count:,.0f} configurations ({again:,.0f} repeat another); worst / '
                f'best {np.median(some, axis=0)[3]:.2f}, median over programs'
            )
        return '\n'.join(lines)
