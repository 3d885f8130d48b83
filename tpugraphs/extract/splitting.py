"""Divides extracted files into train, valid and test, by whole programs.

A model is measured on programs that it was not trained on, so all modules of a program
go into one split.
"""

from collections.abc import Mapping, Sequence
import glob
import os

import numpy as np

from baselines.core import text
from baselines.data import collections
from baselines.data import families
from baselines.data import shares as shares_lib

BY = ('program', 'file', 'module')


def find_path(folder: str, name: str) -> str:
    """Returns the path of a module's npz file: in a split, or else in the folder."""
    parts = (os.path.join(folder, part, f'{name}.npz') for part in collections.SPLITS)
    existing = (path for path in parts if os.path.lexists(path))
    return next(existing, os.path.join(folder, f'{name}.npz'))


def move_files(
    folder: str, shares: Sequence[float], by: str, modules: Mapping[str, Sequence[str]]
) -> str:
    """Moves npz files of a folder into train, valid and test below it.

    Files that are in a split already are moved, too.

    Args:
        by: the unit that stays together: a 'program' (all ids that differ in their last
            _<hash> alone), a raw 'file', or only a 'module'.
        modules: raw file -> ids of its modules.

    Returns:
        A line with the number of files in every split.

    Raises:
        ValueError: there are fewer groups than splits; says how else to cut.
    """
    groups = check_groups(shares, by, modules)
    sizes = {group: len(names) for group, names in groups.items()}
    # Group -> the number of its split.
    chosen = shares_lib.share_out(sizes, [share / sum(shares) for share in shares])
    counts = []
    for number, split_name in enumerate(collections.SPLITS):
        os.makedirs(os.path.join(folder, split_name), exist_ok=True)
        mine = [group for group, where in chosen.items() if where == number]
        members = [member for group in mine for member in groups[group]]
        for member in members:
            place = os.path.join(folder, split_name, f'{member}.npz')
            os.replace(find_path(folder, member), place)
        counts.append(f'{split_name} {len(members)} of {text.count(len(mine), by)}')
    return 'split    ' + ', '.join(counts)


def check_groups(
    shares: Sequence[float], by: str, modules: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Groups the ids of modules, at least one group per split; see `move_files`.

    Raises:
        ValueError: there are fewer groups than splits; says how else to cut.
    """
    groups = _group_ids(modules, by)
    num_splits = np.count_nonzero(shares)
    if len(groups) < num_splits:
        finer = [b for b in BY if len(_group_ids(modules, b)) >= num_splits]
        advice = f'use --by {finer[0]}' if finer else 'give more raw files'
        raise ValueError(
            f'--split: {text.count(len(groups), by)} for {num_splits} splits: '
            f'{advice}, or a share of 0 to a split that can be empty'
        )
    return groups


def list_extracted(folder: str) -> dict[str, str]:
    """Returns the npz files in a folder and in its splits: id -> path."""
    root = glob.escape(folder)
    places = (os.path.join(root, part, '*.npz') for part in ('', *collections.SPLITS))
    paths = sorted(path for place in places for path in glob.glob(place))
    return {os.path.basename(path)[: -len('.npz')]: path for path in paths}


def _group_ids(modules: Mapping[str, Sequence[str]], by: str) -> dict[str, list[str]]:
    """Groups the ids of modules, see `move_files`: name of the group -> ids."""
    file_of = {name: path for path, names in modules.items() for name in names}
    groups: dict[str, list[str]] = {}
    for name in sorted(file_of):
        program = families.find_program(name)
        group = {'program': program, 'file': file_of[name], 'module': name}[by]
        groups.setdefault(group, []).append(name)
    return groups
