"""Folders of the second simulator's kernels; they look like the first one's."""

import dataclasses

from baselines.simulated import folders
from baselines.simulated.tile import dataset
from baselines.simulated.tile_other import generate

DEFAULT_ROOT = '~/data/tpugraphs/sample_other/npz/tile/xla'

_KIND = folders.Kind(
    'tile_other',
    generate.GENERATOR_VERSION,
    'Kernels are random fusions over the shapes of drawn programs (names begin\n'
    'with sim_other_), and every runtime comes from a drawn machine that works\n'
    'tile by tile, plus 0.4 % noise.',
    'docs/simulated-data.md',
)

describe = dataset.describe


@dataclasses.dataclass(frozen=True)
class Sizes(dataset.Sizes):
    """How many kernels, and how many configurations; the seed draws the machine."""

    train: int = 600
    valid: int = 100
    test: int = 100


def generate_dataset(
    root: str, sizes: Sizes = Sizes(), *, progress: bool = True
) -> dataset.Summary:
    """As `tile.dataset.generate_dataset`, with kernels of the second simulator."""
    return dataset.write(root, _KIND, generate.generate_kernel, sizes, progress)
