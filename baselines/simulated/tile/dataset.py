"""Folders of simulated kernels in the published layout, written whole or not."""

import dataclasses
import os
import types
from typing import ClassVar

import numpy as np

from baselines import files
from baselines.data.collections import SPLITS
from baselines.data.tile import records
from baselines.hlo import protos
from baselines.simulated import folders
from baselines.simulated import raw
from baselines.simulated.tile import generate


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

    def _fill(self, folder: str, progress: bool) -> str:
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
        return (
            f'train {self.train}, valid {self.valid}, test {self.test} kernels\n'
            f'{len(rows):,} kernels, {configs.sum():,.0f} configurations '
            f'({configs.mean():.0f} per kernel), {nodes.mean():.1f} nodes per kernel\n'
            f'runtimes, median over kernels: median / best {np.median(medians):.2f}, '
            f'worst / best {np.median(worst):.1f}'
        )
