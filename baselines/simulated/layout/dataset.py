"""Folders of simulated whole programs in the published layout, whole or not at all."""

import dataclasses
import os
from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple

import numpy as np
import tqdm

from baselines import files
from baselines.data.layout import records as layout_records
from baselines.simulated import folder as sample_folder
from baselines.simulated.layout.generate import GENERATOR_VERSION
from baselines.simulated.layout.generate import CompiledProgram
from baselines.simulated.layout.programs import SOURCES
from baselines.simulated.layout.programs import SPLITS
from baselines.simulated.layout.programs import draw_programs
from baselines.simulated.layout.search import SEARCHES

DEFAULT_ROOT = '~/data/tpugraphs/sample/npz/layout'

_README = """\
This is SIMULATED sample data, no measurement of any hardware.

Programs are invented networks (names begin with sim_), and every runtime comes
from an analytical model of array layouts on a TPU v3 core plus 0.3 % noise.
Use it to try the toolkit, never to report results.
How it is made, and what it leaves out: docs/sample-data-layout.md of the toolkit.
Parameters: {marker}.
"""
_TEST_KNOWN = (
    'Other than in the published data, test files have their runtimes, so that '
    'test metrics\ncan be computed (--hide_test_runtimes writes zeros).'
)
_TEST_HIDDEN = 'As in the published data, the runtimes of test files are 0.'


class LayoutSizes(NamedTuple):
    """What a sample consists of; every number is per source (xla, nlp).

    Attributes:
        train: programs in the train split.
        valid: programs in the valid split.
        test: programs in the test split.
        seed: of all randomness.
        configs_min: fewest configurations of a program.
        configs_max: most configurations of a program.
        hide_test_runtimes: whether test files have runtimes 0, as the published
            ones do.
    """

    train: int = 24
    valid: int = 6
    test: int = 6
    seed: int = 0
    configs_min: int = 200
    configs_max: int = 2000
    hide_test_runtimes: bool = False

    def checked(self) -> 'LayoutSizes':
        """Returns self.

        Raises:
            ValueError: a number makes no sense.
        """
        for name in (*SPLITS, 'seed'):
            if getattr(self, name) < 0:
                raise ValueError(f'{name} is {getattr(self, name)}: use 0 or more')
        if not self.train + self.valid + self.test:
            raise ValueError('no programs asked for: set train, valid or test above 0')
        if not 2 <= self.configs_min <= self.configs_max <= 100000:
            raise ValueError(
                f'configs_min is {self.configs_min} and configs_max '
                f'{self.configs_max}: use 2 <= configs_min <= configs_max <= 100000'
            )
        return self


class LayoutSummary(NamedTuple):
    """Totals over the files of one collection; the spread is their median."""

    programs: int
    nodes: int
    configs: int
    duplicates: int
    worst_to_best: float


def generate_layout_dataset(
    root: str, sizes: LayoutSizes = LayoutSizes(), *, progress: bool = True
) -> Dict[str, LayoutSummary]:
    """Writes `<root>/{xla,nlp}/{random,default}/{train,valid,test}/<program>.npz`.

    The folder appears whole or not at all, with a README.txt and a marker that
    holds the parameters.  An older sample at `root` is replaced.

    Args:
        root: the folder; it may be missing, empty or a sample.
        sizes: how much of what.
        progress: whether to show a bar (on stderr, if that is a terminal).

    Returns:
        Totals by collection ('xla:random', ...), for the user.

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


def ensure_layout_sample(
    root: Optional[str] = None, *, progress: bool = True, **sizes
) -> str:
    """Makes the sample once and returns its folder; what `--sample_data` uses.

    A sample with other parameters, or of another version of the generator, is
    made anew.

    Args:
        root: the folder; default `~/data/tpugraphs/sample/npz/layout`.
        progress: whether to show a bar.
        **sizes: fields of `LayoutSizes`.

    Raises:
        ValueError: see `generate_layout_dataset`.
        OSError: the folder cannot be written.
    """
    root = files.expand(root or DEFAULT_ROOT)
    wanted = LayoutSizes(**sizes).checked()
    if sample_folder.read_marker(root) != _marker(wanted):
        generate_layout_dataset(root, wanted, progress=progress)
    return root


def _marker(sizes: LayoutSizes) -> Dict[str, Any]:
    return sample_folder.marker('layout', GENERATOR_VERSION, sizes._asdict())


def _fill(folder: str, sizes: LayoutSizes, progress: bool) -> Dict[str, LayoutSummary]:
    spreads: Dict[str, list] = {f'{s}:{r}': [] for s in SOURCES for r in SEARCHES}
    totals = {name: np.zeros(3, np.int64) for name in spreads}
    for name, record in _records(folder, sizes, progress):
        distinct = len({row.tobytes() for row in record.node_config_feat})
        count = record.num_configs
        totals[name] += (record.num_nodes, count, count - distinct)
        spreads[name].append(record.config_runtime.max() / record.config_runtime.min())
    return {
        name: LayoutSummary(len(found), *totals[name].tolist(), float(np.median(found)))
        for name, found in spreads.items()
    }


def _records(
    folder: str, sizes: LayoutSizes, progress: bool
) -> Iterator[Tuple[str, layout_records.LayoutRecord]]:
    """Makes and writes all files, and hands out each with its runtimes."""
    bar = tqdm.tqdm(
        total=len(SOURCES) * (sizes.train + sizes.valid + sizes.test),
        desc='simulated sample',
        unit=' programs',
        disable=None if progress else True,
    )
    configs = sizes.configs_min, sizes.configs_max
    with bar:
        for source in SOURCES:
            for searched in SEARCHES:
                for split in SPLITS:
                    os.makedirs(os.path.join(folder, source, searched, split))
            for split in SPLITS:
                count = getattr(sizes, split)
                for program in draw_programs(source, split, count, sizes.seed):
                    compiled = CompiledProgram(program, sizes.seed)
                    for searched in SEARCHES:
                        # As in xla:random, where nearly all of the duplicates
                        # are in a few programs.
                        repeats = (source, searched, program.family) == (
                            'xla',
                            'random',
                            'recurrent',
                        )
                        record = compiled.record(searched, configs, repeats)
                        hidden = split == 'test' and sizes.hide_test_runtimes
                        path = os.path.join(
                            folder, source, searched, split, f'{program.name}.npz'
                        )
                        layout_records.write_layout(
                            path, _hide(record) if hidden else record
                        )
                        yield f'{source}:{searched}', record
                    bar.update()


def _hide(record: layout_records.LayoutRecord) -> layout_records.LayoutRecord:
    zeros = np.zeros_like(record.config_runtime)
    return dataclasses.replace(record, config_runtime=zeros)
