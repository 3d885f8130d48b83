"""Extracted files into train, valid and test: whole programs, by shares.

A model is worth what it does on programs that it has not seen, so what belongs
together goes into one split.
"""

import os
from typing import Dict, List, Mapping, Sequence

import numpy as np

from baselines.data import collections
from baselines.data import families
from baselines.data import shares as shares_lib

BY = ('program', 'file', 'module')


def path_of(folder: str, name: str) -> str:
    """Returns where the npz file of a module is, or goes: the folder or a split."""
    parts = (os.path.join(folder, part, f'{name}.npz') for part in collections.SPLITS)
    there = (path for path in parts if os.path.lexists(path))
    return next(there, os.path.join(folder, f'{name}.npz'))


def split(
    folder: str, shares: Sequence[float], by: str, modules: Mapping[str, Sequence[str]]
) -> str:
    """Moves npz files of a folder into train, valid and test below it.

    Files that are in one of these already are moved, too.

    Args:
        folder: where they are.
        shares: of the splits, from `shares.parse`.
        by: what stays together: 'program' (an id without its last _<hash>), 'file'
            (the raw file), or 'module' (nothing).
        modules: raw file -> ids of its modules.

    Returns:
        What went where, in a line.

    Raises:
        ValueError: there are fewer groups than splits.
    """
    file_of = {name: path for path, names in modules.items() for name in names}
    groups: Dict[str, List[str]] = {}
    for name in sorted(file_of):
        program = families.program_of_kernel(name)
        group = {'program': program, 'file': file_of[name], 'module': name}[by]
        groups.setdefault(group, []).append(name)
    if len(groups) < np.count_nonzero(shares):
        finer = BY[BY.index(by) + 1 :]
        advice = f': use --by {finer[0]}' if finer else ''
        raise ValueError(
            f'--split: there are {len(groups)} {by}s for '
            f'{np.count_nonzero(shares)} splits{advice}'
        )
    sizes = {group: len(names) for group, names in groups.items()}
    chosen = shares_lib.share_out(sizes, [share / sum(shares) for share in shares])
    counts = []
    for number, split_name in enumerate(collections.SPLITS):
        os.makedirs(os.path.join(folder, split_name), exist_ok=True)
        mine = [group for group, where in chosen.items() if where == number]
        members = [member for group in mine for member in groups[group]]
        for member in members:
            place = os.path.join(folder, split_name, f'{member}.npz')
            os.replace(path_of(folder, member), place)
        counts.append(f'{split_name} {len(members)} of {len(mine)} {by}s')
    return 'split    ' + ', '.join(counts)
