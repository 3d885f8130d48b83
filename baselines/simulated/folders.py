"""Folders of simulated data: written whole or not at all, replaced only by another."""

import abc
import contextlib
import dataclasses
import json
import os
import re
from typing import Any, ClassVar, Dict, Optional

import numpy as np
import tqdm

from baselines import files

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
    version: ClassVar[int]  # of the generator; another one makes the data anew
    default_root: ClassVar[str]  # the folder where nothing else is said
    about: ClassVar[str]  # what a README.txt says of them
    document: ClassVar[str]  # where they are described

    def __post_init__(self):
        for name in ('train', 'valid', 'test', 'seed'):
            if getattr(self, name) < 0:
                raise ValueError(f'{name} is {getattr(self, name)}: use 0 or more')
        if not self.train + self.valid + self.test:
            raise ValueError('no graphs asked for: set train, valid or test above 0')

    def write(self, root: str, *, progress: bool = True) -> str:
        """Writes the splits, a README.txt and a marker, whole or not at all.

        Args:
            root: the folder; missing, empty, or of the same collection, in which
                case it is replaced.
            progress: whether to show a bar (on stderr, if that is a terminal).

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
            words = self._fill(folder, progress)
            with files.write_atomically(os.path.join(folder, 'README.txt')) as stream:
                stream.write(readme)
            with files.write_atomically(os.path.join(folder, MARKER)) as stream:
                json.dump(self._marker(), stream, indent=2)
        # Another process may have been faster; its data are as good as ours.
        if read_marker(root) != self._marker():
            raise OSError(f'{root}: another process has written other data there')
        return f'SIMULATED data (no measurements) in {root}: {words}'

    def ensure(self, root: str = '', *, progress: bool = True) -> str:
        """Returns the folder, written if these data are not there yet.

        Arguments and errors are those of `write`; `default_root` by default.
        """
        root = files.expand(root or self.default_root)
        if read_marker(root) != self._marker():
            self.write(root, progress=progress)
        return root

    def _bar(self, total: int, noun: str, progress: bool) -> tqdm.tqdm:
        quiet = None if progress else True
        return tqdm.tqdm(total=total, desc='simulating', unit=f' {noun}', disable=quiet)

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
    def _fill(self, folder: str, progress: bool) -> str:
        """Writes the splits into an empty folder; returns what that was, in words."""

    def _marker(self) -> Dict[str, Any]:
        return {
            'simulated': True,
            'collection': self.collection,
            'generator_version': self.version,
            'parameters': dataclasses.asdict(self),
        }


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
