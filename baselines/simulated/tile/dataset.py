"""Folders of simulated kernels in the published layout, written whole or not."""

import dataclasses
import os
from typing import Any, Dict, Iterator, NamedTuple, Optional

import numpy as np
import tqdm

from baselines import files
from baselines.data.tile import records
from baselines.simulated import folder as sample_folder
from baselines.simulated.tile.generate import GENERATOR_VERSION
from baselines.simulated.tile.generate import generate_kernel

DEFAULT_ROOT = '~/data/tpugraphs/sample/npz/tile/xla'

_README = """\
This is SIMULATED sample data, no measurement of any hardware.

Kernels are random fusions over the shapes of invented programs (names begin
with sim_), and every runtime comes from an analytical model of a TPU v3 core
plus 1 % noise.  Use it to try the toolkit, never to report results.
How it is made, and what it leaves out: docs/sample-data.md of the toolkit.
Parameters: {marker}.
"""
_TEST_KNOWN = (
    'Other than in the published data, test files have their runtimes, so that '
    'test metrics\ncan be computed (--hide_test_runtimes writes zeros).'
)
_TEST_HIDDEN = 'As in the published data, the runtimes of test files are 0.'


class Sizes(NamedTuple):
    """What a sample consists of.

    Attributes:
        train: kernels in the train split.
        valid: kernels in the valid split.
        test: kernels in the test split.
        seed: of all randomness.
        configs_mean: configurations per kernel, about, on average.
        hide_test_runtimes: whether test files have runtimes 0 and normalisers
            1, as the published ones do.
    """

    train: int = 1400
    valid: int = 200
    test: int = 200
    seed: int = 0
    configs_mean: float = 577.0
    hide_test_runtimes: bool = False

    def checked(self) -> 'Sizes':
        """Returns self.

        Raises:
            ValueError: a number makes no sense.
        """
        for name in ('train', 'valid', 'test', 'seed'):
            if getattr(self, name) < 0:
                raise ValueError(f'{name} is {getattr(self, name)}: use 0 or more')
        if not self.train + self.valid + self.test:
            raise ValueError('no kernels asked for: set train, valid or test above 0')
        if not 20 <= self.configs_mean <= 20000:
            raise ValueError(
                f'configs_mean is {self.configs_mean:g}: use a number from 20 to 20000'
            )
        return self


class Summary(NamedTuple):
    """Totals of a written sample; spreads are medians over its kernels."""

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
    holds the parameters.  An older sample at `root` is replaced.

    Args:
        root: the folder; it may be missing, empty or a sample.
        sizes: how much of what.
        progress: whether to show a bar (on stderr, if that is a terminal).

    Returns:
        Totals, for the user.

    Raises:
        ValueError: sizes make no sense, or `root` holds something else.
        OSError: the folder cannot be written.
    """
    sizes = sizes.checked()
    hidden = _TEST_HIDDEN if sizes.hide_test_runtimes else _TEST_KNOWN
    with sample_folder.replacing(
        files.expand(root), _marker(sizes), _README + hidden + '\n'
    ) as folder:
        return _fill(folder, sizes, progress)


def ensure_sample(root: Optional[str] = None, *, progress: bool = True, **sizes) -> str:
    """Makes the sample once and returns its folder; what `--sample_data` uses.

    A sample with other parameters, or of another version of the generator, is
    made anew.

    Args:
        root: the folder; default `~/data/tpugraphs/sample/npz/tile/xla`.
        progress: whether to show a bar.
        **sizes: fields of `Sizes`.

    Raises:
        ValueError: see `generate_dataset`.
        OSError: the folder cannot be written.
    """
    root = files.expand(root or DEFAULT_ROOT)
    wanted = Sizes(**sizes).checked()
    if sample_folder.read_marker(root) != _marker(wanted):
        generate_dataset(root, wanted, progress=progress)
    return root


def _marker(sizes: Sizes) -> Dict[str, Any]:
    return sample_folder.marker('tile', GENERATOR_VERSION, sizes._asdict())


def _fill(folder: str, sizes: Sizes, progress: bool) -> Summary:
    spreads, nodes, configs = [], 0, 0
    for record in _records(folder, sizes, progress):
        runtimes = record.config_runtime
        spreads.append((np.median(runtimes), runtimes.max()) / runtimes.min())
        nodes += record.num_nodes
        configs += record.num_configs
    median, worst = np.median(spreads, axis=0)
    return Summary(len(spreads), nodes, configs, float(median), float(worst))


def _records(folder: str, sizes: Sizes, progress: bool) -> Iterator[records.TileRecord]:
    """Makes and writes all kernels, and hands out each with its runtimes."""
    counts = {'train': sizes.train, 'valid': sizes.valid, 'test': sizes.test}
    bar = tqdm.tqdm(
        total=sum(counts.values()),
        desc='simulated sample',
        unit=' kernels',
        disable=None if progress else True,
    )
    with bar:
        for split, count in counts.items():
            os.makedirs(os.path.join(folder, split))
            for index in range(count):
                record = generate_kernel(
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
