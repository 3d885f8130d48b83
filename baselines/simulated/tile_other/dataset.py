"""Folders of the second simulator's kernels; they look like the first one's."""

import dataclasses
import types
from typing import ClassVar

from baselines.simulated.tile import dataset
from baselines.simulated.tile_other import generate


@dataclasses.dataclass(frozen=True)
class Kernels(dataset.Kernels):
    """As those of the first simulator; here the seed draws the machine, too."""

    train: int = 600
    valid: int = 100
    test: int = 100

    collection: ClassVar[str] = 'tile_other'
    generator: ClassVar[types.ModuleType] = generate
    version: ClassVar[int] = generate.GENERATOR_VERSION
    default_root: ClassVar[str] = '~/data/tpugraphs/sample_other/npz/tile/xla'
    about: ClassVar[str] = (
        'Kernels are random fusions over the shapes of drawn programs (names begin\n'
        'with sim_other_), and every runtime comes from a drawn machine that works\n'
        'tile by tile, plus 0.4 % noise.'
    )
