"""Folders of the second simulator's kernels; they look like the first one's."""

import dataclasses
from typing import ClassVar

from baselines.data.tile import records
from baselines.simulated.tile import dataset
from baselines.simulated.tile_other import generate


@dataclasses.dataclass(frozen=True)
class Kernels(dataset.Kernels):
    """As those of the first simulator; here the seed draws the machine, too."""

    train: int = 600
    valid: int = 100
    test: int = 100

    collection: ClassVar[str] = 'tile_other'
    version: ClassVar[int] = generate.GENERATOR_VERSION
    default_root: ClassVar[str] = '~/data/tpugraphs/sample_other/npz/tile/xla'
    about: ClassVar[str] = (
        'Kernels are random fusions over the shapes of drawn programs (names begin\n'
        'with sim_other_), and every runtime comes from a drawn machine that works\n'
        'tile by tile, plus 0.4 % noise.'
    )

    def _kernel(self, split: str, index: int) -> records.TileRecord:
        return generate.generate_kernel(
            split, index, seed=self.seed, configs_mean=self.configs_mean
        )
