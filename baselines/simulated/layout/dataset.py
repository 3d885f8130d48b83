"""Folders of simulated whole programs in the published layout, whole or not at all."""

import dataclasses
import itertools
import os
from typing import ClassVar, Dict, Tuple

import numpy as np

from baselines.data.layout import records as layout_records
from baselines.simulated import folders
from baselines.simulated.layout import rules
from baselines.simulated.layout.generate import GENERATOR_VERSION, CompiledProgram
from baselines.simulated.layout.programs import SOURCES, SPLITS, draw_programs
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
    version: ClassVar[int] = GENERATOR_VERSION
    default_root: ClassVar[str] = '~/data/tpugraphs/sample/npz/layout'
    about: ClassVar[str] = (
        'Programs are invented networks (names begin with sim_), and every runtime\n'
        'comes from an analytical model of array layouts on a TPU v3 core plus\n'
        'noise.'
    )
    document: ClassVar[str] = 'docs/simulated-data-layout.md'

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

    def _fill(self, folder: str, progress: bool) -> str:
        rows: Dict[str, list] = {f'{s}:{r}': [] for s in SOURCES for r in SEARCHES}
        total = len(SOURCES) * (self.train + self.valid + self.test)
        configs = self.configs_min, self.configs_max
        for parts in itertools.product(SOURCES, SEARCHES, SPLITS):
            os.makedirs(os.path.join(folder, *parts))
        with self._bar(total, 'programs', progress) as bar:
            for source, split in itertools.product(SOURCES, SPLITS):
                count = getattr(self, split)
                for program in draw_programs(source, split, count, self.seed):
                    compiled = CompiledProgram(program, self.seed, self.rules)
                    for searched in SEARCHES:
                        # As in xla:random, where nearly all of the duplicates are in
                        # a few programs.
                        kind = source, searched, program.family
                        repeats = kind == ('xla', 'random', 'recurrent')
                        record = compiled.record(searched, configs, repeats)
                        place = source, searched, split, f'{program.name}.npz'
                        shown = self._published(record, split)
                        layout_records.write_layout(os.path.join(folder, *place), shown)
                        rows[f'{source}:{searched}'].append(_described(record))
                    bar.update()
        lines = [
            f'of each source train {self.train}, valid {self.valid}, test {self.test} '
            'programs'
        ]
        for name, some in rows.items():
            nodes, count, again, _ = np.sum(some, axis=0)
            lines.append(
                f'{name:12} {len(some)} programs, {nodes:,.0f} nodes, {count:,.0f} '
                f'configurations ({again:,.0f} repeat another); worst / best '
                f'{np.median(some, axis=0)[3]:.2f}, median over programs'
            )
        return '\n'.join(lines)


def _described(record: layout_records.LayoutRecord) -> Tuple[int, int, int, float]:
    """Nodes, configurations, how many of these repeat another, and their spread."""
    count, runtimes = record.num_configs, record.config_runtime
    distinct = len({row.tobytes() for row in record.node_config_feat})
    return record.num_nodes, count, count - distinct, runtimes.max() / runtimes.min()
