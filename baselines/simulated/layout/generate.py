"""One simulated program of the layout collections: graph, configurations, runtimes.

Everything derives from (seed, source, split, program, search), so that a program
does not depend on how many others are made.
"""

from typing import Tuple
import zlib

import numpy as np

from baselines.data.layout.records import LayoutRecord
from baselines.hlo import graph
from baselines.simulated import folders
from baselines.simulated import raw
from baselines.simulated.layout import rules
from baselines.simulated.layout import search
from baselines.simulated.layout.model import LayoutModel
from baselines.simulated.layout.programs import Program


class CompiledProgram:
    """A program, built once for several collections, with rules of a book."""

    def __init__(self, program: Program, seed: int = 0, book: str = 'roofline'):
        computations = program.build()
        name = zlib.crc32(f'{book} {program.name}'.encode())
        found = rules.rules_of(book, np.random.default_rng([seed, name]))
        self.program = program
        names = [computation.name for computation in computations]
        sizes = [len(computation.instructions) for computation in computations]
        self.graph = raw.graph_arrays(computations)
        self.graph['node_splits'] = graph.node_splits(names, sizes)[None]
        self.model = LayoutModel(computations, found)
        self._seed = seed

    def record(
        self, searched: str, configs: Tuple[int, int], many_repeats: bool = False
    ) -> LayoutRecord:
        """Searches, measures and returns what goes into a file.

        Runtimes have the noise of the rules, drawn anew for each repetition.

        Args:
            searched: 'random' or 'default'.
            configs: least and most configurations; how many there are is drawn
                in between, on a logarithmic scale.
            many_repeats: whether nearly all configurations repeat a few distinct
                ones, as in some real programs; `random` only.
        """
        name = f'{searched} {self.program.name}'.encode()
        rng = np.random.default_rng([self._seed, zlib.crc32(name)])
        least, most = configs
        count = int(round(least * (most / least) ** rng.random()))
        slots = self.model.slots

        def chosen(choices):
            return search.shared(slots, choices) if self.model.rules.shared else choices

        if searched == 'default':
            choices = search.genetic_search(
                slots, count, rng, lambda rows: self._measure(chosen(rows), rng)
            )
        elif many_repeats:
            choices = search.random_search(slots, most, rng, search.FEW_REPEATED)
        else:
            choices = search.random_search(slots, count, rng)
        choices = chosen(choices)
        runtimes = np.rint(self._measure(choices, rng)).astype(np.int64)
        return LayoutRecord(
            graph_id=self.program.name,
            node_config_ids=self.model.config_nodes,
            node_config_feat=search.features(slots, choices),
            config_runtime=np.maximum(runtimes, 1),
            **self.graph,
        )

    def _measure(self, choices: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        noise = self.model.rules.noise * folders.noise(rng, len(choices))
        return self.model.runtime_ns(choices) * (1.0 + noise)
