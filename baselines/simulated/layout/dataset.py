"""Folders of simulated whole programs in the published layout, whole or not at all."""

import dataclasses
from typing import ClassVar, Iterator, Tuple

import numpy as np

from baselines.data.collections import SPLITS
from baselines.data.layout import records
from baselines.simulated import folders
from baselines.simulated.layout import rules
from baselines.simulated.layout.generate import CompiledProgram
from baselines.simulated.layout.programs import SOURCES, draw_programs
from baselines.simulated.layout.search import SEARCHES


@dataclasses.dataclass(frozen=True)
class Programs(folders.Dataset):
    """`<root>/{xla,nlp}/{random,default}/{train,valid,test}/<program>.npz`.

    The numbers of programs are per source (xla, nlp).
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

    def _graphs(self) -> Iterator[folders.Graphs]:
        configs = self.configs_min, self.configs_max
        for source in SOURCES:
            for split in SPLITS:
                count = getattr(self, split)
                for program in draw_programs(source, split, count, self.seed):
                    compiled = CompiledProgram(program, self.seed, self.rules)
                    # As in xla:random, where nearly all of the duplicates are in a
                    # few programs.
                    repeats = (source, program.family) == ('xla', 'recurrent')
                    yield {
                        (source, search, split): compiled.record(
                            search, configs, repeats
                        )
                        for search in SEARCHES
                    }

    def _save(self, path: str, record: records.LayoutRecord) -> None:
        records.write_layout(path, record)

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
