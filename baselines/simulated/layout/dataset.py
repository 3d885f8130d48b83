"""Folders of simulated whole programs in the published layout, whole or not at all."""

import dataclasses
import os
from typing import Dict, Iterator, NamedTuple, Optional, Tuple

import numpy as np
import tqdm

from baselines import files
from baselines.data.layout import records as layout_records
from baselines.simulated import folders
from baselines.simulated.layout.generate import GENERATOR_VERSION
from baselines.simulated.layout.generate import CompiledProgram
from baselines.simulated.layout.programs import SOURCES
from baselines.simulated.layout.programs import SPLITS
from baselines.simulated.layout.programs import draw_programs
from baselines.simulated.layout.search import SEARCHES

DEFAULT_ROOT = '~/data/tpugraphs/sample/npz/layout'

_KIND = folders.Kind(
    'layout',
    GENERATOR_VERSION,
    'Programs are invented networks (names begin with sim_), and every runtime comes\n'
    'from an analytical model of array layouts on a TPU v3 core plus 0.3 % noise.',
    'docs/simulated-data-layout.md',
)


@dataclasses.dataclass(frozen=True)
class Sizes(folders.Sizes):
    """How many programs of each source (xla, nlp), and how many configurations.

    Attributes:
        configs_min: fewest configurations of a program.
        configs_max: most configurations of a program.
    """

    train: int = 24
    valid: int = 6
    test: int = 6
    configs_min: int = 200
    configs_max: int = 2000

    def __post_init__(self):
        super().__post_init__()
        if not 2 <= self.configs_min <= self.configs_max <= 100000:
            raise ValueError(
                f'configs_min is {self.configs_min} and configs_max '
                f'{self.configs_max}: use 2 <= configs_min <= configs_max <= 100000'
            )


class Summary(NamedTuple):
    """Totals over the files of one collection; the spread is their median."""

    programs: int
    nodes: int
    configs: int
    duplicates: int
    worst_to_best: float


def generate_dataset(
    root: str, sizes: Sizes = Sizes(), *, progress: bool = True
) -> Dict[str, Summary]:
    """Writes `<root>/{xla,nlp}/{random,default}/{train,valid,test}/<program>.npz`.

    The folder appears whole or not at all, with a README.txt and a marker that
    holds the parameters.  Older data at `root` are replaced.

    Args:
        root: the folder; it may be missing, empty or hold such data.
        sizes: how much of what.
        progress: whether to show a bar (on stderr, if that is a terminal).

    Returns:
        Totals by collection ('xla:random', ...), for the user.

    Raises:
        ValueError: `root` holds something else.
        OSError: the folder cannot be written.
    """
    with folders.replacing(root, _KIND, sizes) as folder:
        return _fill(folder, sizes, progress)


def ensure_dataset(
    root: Optional[str] = None, *, progress: bool = True, **sizes
) -> str:
    """Makes the data once and returns their folder; what `--sample_data` uses.

    Data of other parameters, or of another version of the generator, are made
    anew.

    Args:
        root: the folder; default `~/data/tpugraphs/sample/npz/layout`.
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


def describe(root: str, sizes: Sizes, summaries: Dict[str, Summary]) -> str:
    """Returns what `generate_dataset` wrote, in words."""
    lines = [
        f'SIMULATED data (no measurements) in {root}: of each source train '
        f'{sizes.train}, valid {sizes.valid}, test {sizes.test} programs'
    ]
    for name, summary in summaries.items():
        lines.append(
            f'{name:12} {summary.programs} programs, {summary.nodes:,} nodes, '
            f'{summary.configs:,} configurations ({summary.duplicates:,} repeat '
            f'another); worst / best {summary.worst_to_best:.2f}, median over programs'
        )
    return '\n'.join(lines)


def _fill(folder: str, sizes: Sizes, progress: bool) -> Dict[str, Summary]:
    spreads: Dict[str, list] = {f'{s}:{r}': [] for s in SOURCES for r in SEARCHES}
    totals = {name: np.zeros(3, np.int64) for name in spreads}
    for name, record in _records(folder, sizes, progress):
        distinct = len({row.tobytes() for row in record.node_config_feat})
        count = record.num_configs
        totals[name] += (record.num_nodes, count, count - distinct)
        spreads[name].append(record.config_runtime.max() / record.config_runtime.min())
    return {
        name: Summary(len(found), *totals[name].tolist(), float(np.median(found)))
        for name, found in spreads.items()
    }


def _records(
    folder: str, sizes: Sizes, progress: bool
) -> Iterator[Tuple[str, layout_records.LayoutRecord]]:
    """Makes and writes all files, and hands out each with its runtimes."""
    bar = tqdm.tqdm(
        total=len(SOURCES) * (sizes.train + sizes.valid + sizes.test),
        desc='simulating',
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
