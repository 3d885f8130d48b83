"""Folders of simulated data: written whole or not at all, replaced only by another."""

import abc
import collections
import contextlib
import dataclasses
import itertools
import json
import os
import re
from typing import Any, ClassVar, Dict, Iterator, List, Optional, Tuple

import numpy as np
import tqdm

from baselines import files
from baselines.data.collections import SPLITS

# The name that such folders have had from the start.
MARKER = 'sample.json'
_README = """\
This is SIMULATED data, no measurement of any hardware.

{about}
Use it to try the toolkit, never to report results.
How it is made, and what it leaves out: {document} of the toolkit.
Parameters: {marker}.
{test}
"""
_TEST_KNOWN = (
    'Other than in the published data, test files have their runtimes, so that '
    'test metrics\ncan be computed (--hide_test_runtimes writes zeros).'
)
_TEST_HIDDEN = 'As in the published data, the runtimes of test files are 0.'

# Records, by the folders that they lie in; the last folder is the split.
Graphs = Dict[Tuple[str, ...], Any]
# What is said of each record, by its folders without the split.
Rows = Dict[Tuple[str, ...], List[Tuple[float, ...]]]


@dataclasses.dataclass(frozen=True)
class Dataset(abc.ABC):
    """Simulated data to be written; each collection adds its own.

    Raises:
        ValueError: a number makes no sense.
    """

    train: int  # graphs in the train split
    valid: int  # graphs in the valid split
    test: int  # graphs in the test split
    seed: int = 0  # of all randomness
    # whether test files have runtimes 0 (and normalisers 1), as the published ones do
    hide_test_runtimes: bool = False

    collection: ClassVar[str]  # what a folder of them is marked with
    # Raise it whenever the same parameters give other arrays: users' data are then
    # made anew.
    version: ClassVar[int]
    default_root: ClassVar[str]  # the folder where nothing else is said
    about: ClassVar[str]  # what a README.txt says of them
    document: ClassVar[str]  # where they are described
    noun: ClassVar[str]  # what a graph is called
    sources: ClassVar[Tuple[Tuple[str, ...], ...]] = ()  # names of the outer folders

    def __post_init__(self):
        for name in ('train', 'valid', 'test', 'seed'):
            if getattr(self, name) < 0:
                raise ValueError(f'{name} is {getattr(self, name)}: use 0 or more')
        if not self.train + self.valid + self.test:
            raise ValueError('no graphs asked for: set train, valid or test above 0')

    def write(self, root: str) -> str:
        """Writes the splits, a README.txt and a marker, whole or not at all.

        Args:
            root: the folder; missing, empty, or of the same collection, in which
                case it is replaced.

        Returns:
            What was written, in words.

        Raises:
            ValueError: `root` holds something else.
            OSError: the folder cannot be written.
        """
        root = files.expand(root)
        _check_replaceable(root, self.collection)
        parent, name = os.path.split(root)
        files.remove_leftovers(parent, re.compile(rf'\.{re.escape(name)}\.\w{{8}}'))
        readme = _README.format(
            about=self.about,
            document=self.document,
            marker=MARKER,
            test=_TEST_HIDDEN if self.hide_test_runtimes else _TEST_KNOWN,
        )
        with files.folder_atomically(root, replace=True) as folder:
            words = self._fill(folder)
            with files.write_atomically(os.path.join(folder, 'README.txt')) as stream:
                stream.write(readme)
            with files.write_atomically(os.path.join(folder, MARKER)) as stream:
                json.dump(self._marker(), stream, indent=2)
        # Another process may have been faster; its data are as good as ours.
        if read_marker(root) != self._marker():
            raise OSError(f'{root}: another process has written other data there')
        return f'SIMULATED data (no measurements) in {root}: {words}'

    def ensure(self, root: str = '') -> str:
        """Returns the folder, written if these data are not there yet.

        Arguments and errors are those of `write`; `default_root` by default.
        """
        root = files.expand(root or self.default_root)
        if read_marker(root) != self._marker():
            self.write(root)
        return root

    def _fill(self, folder: str) -> str:
        """Writes the splits into an empty folder; returns what that was, in words."""
        for place in itertools.product(*self.sources, SPLITS):
            os.makedirs(os.path.join(folder, *place))
        rows: Rows = collections.defaultdict(list)
        total = sum(getattr(self, split) for split in SPLITS)
        total *= len(self.sources[0]) if self.sources else 1
        bar = {'desc': 'simulating', 'unit': f' {self.noun}', 'disable': None}
        for graphs in tqdm.tqdm(self._graphs(), total=total, **bar):
            for place, record in graphs.items():
                path = os.path.join(folder, *place, f'{record.graph_id}.npz')
                self._published(record, place[-1]).write(path)
                rows[place[:-1]].append(self._described(record))
        return self._words(rows)

    def _published(self, record: Any, split: str) -> Any:
        """Returns a record as its file has it: test runtimes may be hidden."""
        if split != 'test' or not self.hide_test_runtimes:
            return record
        hidden = {'config_runtime': 0, 'config_runtime_normalizers': 1}
        changes = {
            name: np.full_like(getattr(record, name), value)
            for name, value in hidden.items()
            if hasattr(record, name)
        }
        return dataclasses.replace(record, **changes)

    @abc.abstractmethod
    def _graphs(self) -> Iterator[Graphs]:
        """Makes the graphs, one after the other."""

    @abc.abstractmethod
    def _described(self, record: Any) -> Tuple[float, ...]:
        """Returns figures of a record."""

    @abc.abstractmethod
    def _words(self, rows: Rows) -> str:
        """Returns what was written, in words."""

    def _marker(self) -> Dict[str, Any]:
        return {
            'simulated': True,
            'collection': self.collection,
            'generator_version': self.version,
            'parameters': dataclasses.asdict(self),
        }


def noise(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draws standard normal errors of measurements, cut at three."""
    return np.clip(rng.standard_normal(count), -3.0, 3.0)


def read_marker(root: str) -> Optional[Dict[str, Any]]:
    """Returns what is noted of the data at `root`; None if there are none."""
    with contextlib.suppress(OSError, ValueError):
        with files.open_regular(os.path.join(root, MARKER), 1 << 20) as stream:
            return json.load(stream)
    return None


def _check_replaceable(root: str, collection: str) -> None:
    if not os.path.isdir(root):
        if os.path.lexists(root):
            raise ValueError(f'{root} is a file; name a folder')
        return
    if not os.listdir(root):
        return
    found = read_marker(root)
    if not found or found.get('collection') != collection:
        raise ValueError(
            f'{root} is not empty and holds no simulated {collection} data (it has no '
            f'{MARKER} of them); name another folder'
        )
