"""Folders of simulated kernels in the published layout, written whole or not."""

import dataclasses
import os
import types
from typing import ClassVar, NamedTuple

import numpy as np

from baselines import files
from baselines.data.collections import SPLITS
from baselines.data.tile import records
from baselines.hlo import protos
from baselines.simulated import folders
from baselines.simulated import raw
from baselines.simulated.tile import generate


class Summary(NamedTuple):
    """Totals of what was written; spreads are medians over its kernels."""

    kernels: int
    nodes: int
    configs: int
    median_to_best: float
    worst_to_best: float


@dataclasses.dataclass(frozen=True)
class Kernels(folders.Dataset):
    """`<root>/{train,valid,test}/<program>_<hash>.npz`."""

    train: int = 1400
    valid: int = 200
    test: int = 200
    configs_mean: float = 577.0  # configurations per kernel, about, on average

    collection: ClassVar[str] = 'tile'
    generator: ClassVar[types.ModuleType] = generate
    version: ClassVar[int] = generate.GENERATOR_VERSION
    default_root: ClassVar[str] = '~/data/tpugraphs/sample/npz/tile/xla'
    about: ClassVar[str] = (
        'Kernels are random fusions over the shapes of invented programs (names begin\n'
        'with sim_), and every runtime comes from an analytical model of a TPU v3\n'
        'core plus 1 % noise.'
    )
    document: ClassVar[str] = 'docs/simulated-data.md'

    def __post_init__(self):
        super().__post_init__()
        if not 20 <= self.configs_mean <= 20000:
            raise ValueError(
                f'configs_mean is {self.configs_mean:g}: use a number from 20 to 20000'
            )

    def describe(self, root: str, summary: Summary) -> str:
        return (
            f'SIMULATED data (no measurements) in {root}: '
            f'train {self.train}, valid {self.valid}, test {self.test} kernels\n'
            f'{summary.kernels:,} kernels, {summary.configs:,} configurations '
            f'({summary.configs / summary.kernels:.0f} per kernel), '
            f'{summary.nodes / summary.kernels:.1f} nodes per kernel\n'
            f'runtimes, median over kernels: median / best '
            f'{summary.median_to_best:.2f}, worst / best {summary.worst_to_best:.1f}'
        )

    def write_raw(self, path: str) -> str:
        """Writes the test kernels as one raw file (.pb); says what it is.

        Raises:
            OSError: it cannot be written.
        """
        found = protos.protos().TuningData()
        for index in range(self.test):
            made = generate.generate(
                'test', index, seed=self.seed, configs_mean=self.configs_mean
            )
            found.modules.append(raw.tuning_of(*made))
        content = found.SerializeToString(deterministic=True)
        with files.write_atomically(path, 'wb') as stream:
            stream.write(content)
        return f'SIMULATED kernels in {path}: {self.test}, {len(content):,} bytes'

    def _fill(self, folder: str, progress: bool) -> Summary:
        rows = []
        with self._bar(self.train + self.valid + self.test, 'kernels', progress) as bar:
            for split in SPLITS:
                os.makedirs(os.path.join(folder, split))
                for index in range(getattr(self, split)):
                    record = self.generator.generate_kernel(
                        split, index, seed=self.seed, configs_mean=self.configs_mean
                    )
                    path = os.path.join(folder, split, f'{record.graph_id}.npz')
                    records.write_tile(path, self._published(record, split))
                    slow = record.config_runtime / record.config_runtime.min()
                    described = record.num_nodes, record.num_configs
                    rows.append((*described, np.median(slow), slow.max()))
                    bar.update()
        nodes, configs, medians, worst = np.transpose(rows)
        spreads = float(np.median(medians)), float(np.median(worst))
        return Summary(len(rows), int(nodes.sum()), int(configs.sum()), *spreads)
