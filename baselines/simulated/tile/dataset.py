"""Folders of simulated kernels in the published layout, written whole or not."""

import dataclasses
import os
from typing import Callable, Iterator, NamedTuple, Optional

import numpy as np
import tqdm

from baselines import files
from baselines.data.tile import records
from baselines.simulated import folders
from baselines.simulated.tile.generate import GENERATOR_VERSION
from baselines.simulated.tile.generate import generate_kernel

DEFAULT_ROOT = '~/data/tpugraphs/sample/npz/tile/xla'

_KIND = folders.Kind(
    'tile',
    GENERATOR_VERSION,
    'Kernels are random fusions over the shapes of invented programs (names begin\n'
    'with sim_), and every runtime comes from an analytical model of a TPU v3 core\n'
    'plus 1 % noise.',
    'docs/simulated-data.md',
)


@dataclasses.dataclass(frozen=True)
class Sizes(folders.Sizes):
    """How many kernels, and how many configurations.

    Attributes:
        configs_mean: configurations per kernel, about, on average.
    """

    train: int = 1400
    valid: int = 200
    test: int = 200
    configs_mean: float = 577.0

    def __post_init__(self):
        super().__post_init__()
        if not 20 <= self.configs_mean <= 20000:
            raise ValueError(
                f'configs_mean is {self.configs_mean:g}: use a number from 20 to 20000'
            )


class Summary(NamedTuple):
    """Totals of what was written; spreads are medians over its kernels."""

    kernels: int
    nodes: int
    configs: int
    median_to_best: float
    worst_to_best: float


def generate_dataset(
    root: str, sizes: Sizes = Sizes(), *, progress: bool = True
) -> Summary:
    """Writes `<root>/{train,valid,test}/<program>_<hash>.npz`; see `Sizes`.

    The folder appears whole or not at all, with a README.txt and a marker that
    holds the parameters.  Older data at `root` are replaced.

    Args:
        root: the folder; it may be missing, empty or hold such data.
        sizes: how much of what.
        progress: whether to show a bar (on stderr, if that is a terminal).

    Returns:
        Totals, for the user.

    Raises:
        ValueError: `root` holds something else.
        OSError: the folder cannot be written.
    """
    return write(root, _KIND, generate_kernel, sizes, progress)


def write(
    root: str,
    kind: folders.Kind,
    generate: Callable[..., records.TileRecord],
    sizes: Sizes,
    progress: bool,
) -> Summary:
    """As `generate_dataset`, with kernels of any simulator.

    Args:
        root: the folder.
        kind: what is simulated.
        generate: (split, index, seed=, configs_mean=) -> a kernel.
        sizes: how much of what.
        progress: whether to show a bar.
    """
    with folders.replacing(root, kind, sizes) as folder:
        return _fill(folder, generate, sizes, progress)


def ensure_dataset(
    root: Optional[str] = None, *, progress: bool = True, **sizes
) -> str:
    """Makes the data once and returns their folder; what `--sample_data` uses.

    Data of other parameters, or of another version of the generator, are made
    anew.

    Args:
        root: the folder; default `~/data/tpugraphs/sample/npz/tile/xla`.
        progress: whether to show a bar.
        **sizes: fields of `Sizes`.

    Raises:
        ValueError: sizes make no sense, or `root` holds something else.
        OSError: the folder cannot be written.
    """
    root = files.expand(root or DEFAULT_ROOT)
    wanted = Sizes(**sizes)
    if not folders.holds(root, _KIND, wanted):
        generate_dataset(root, wanted, progress=progress)
    return root


def describe(root: str, sizes: Sizes, summary: Summary) -> str:
    """Returns what `generate_dataset` wrote, in words."""
    return (
        f'SIMULATED data (no measurements) in {root}: '
        f'train {sizes.train}, valid {sizes.valid}, test {sizes.test} kernels\n'
        f'{summary.kernels:,} kernels, {summary.configs:,} configurations '
        f'({summary.configs / summary.kernels:.0f} per kernel), '
        f'{summary.nodes / summary.kernels:.1f} nodes per kernel\n'
        f'runtimes, median over kernels: median / best '
        f'{summary.median_to_best:.2f}, worst / best {summary.worst_to_best:.1f}'
    )


def _fill(folder: str, generate, sizes: Sizes, progress: bool) -> Summary:
    spreads, nodes, configs = [], 0, 0
    for record in _records(folder, generate, sizes, progress):
        runtimes = record.config_runtime
        spreads.append((np.median(runtimes), runtimes.max()) / runtimes.min())
        nodes += record.num_nodes
        configs += record.num_configs
    median, worst = np.median(spreads, axis=0)
    return Summary(len(spreads), nodes, configs, float(median), float(worst))


def _records(
    folder: str, generate, sizes: Sizes, progress: bool
) -> Iterator[records.TileRecord]:
    """Makes and writes all kernels, and hands out each with its runtimes."""
    counts = {'train': sizes.train, 'valid': sizes.valid, 'test': sizes.test}
    bar = tqdm.tqdm(
        total=sum(counts.values()),
        desc='simulating',
        unit=' kernels',
        disable=None if progress else True,
    )
    with bar:
        for split, count in counts.items():
            os.makedirs(os.path.join(folder, split))
            for index in range(count):
                record = generate(
                    split, index, seed=sizes.seed, configs_mean=sizes.configs_mean
                )
                hidden = split == 'test' and sizes.hide_test_runtimes
                path = os.path.join(folder, split, f'{record.graph_id}.npz')
                records.write_tile(path, _hide(record) if hidden else record)
                bar.update()
                yield record


def _hide(record: records.TileRecord) -> records.TileRecord:
    return dataclasses.replace(
        record,
        config_runtime=np.zeros_like(record.config_runtime),
        config_runtime_normalizers=np.ones_like(record.config_runtime_normalizers),
    )
