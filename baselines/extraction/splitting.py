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


def gather(folder: str) -> None:
    """Moves the npz files of an earlier split back into the folder itself."""
    for split in collections.SPLITS:
        inside = os.path.join(folder, split)
        if os.path.isdir(inside):
            for name in os.listdir(inside):
                if name.endswith('.npz'):
                    os.replace(os.path.join(inside, name), os.path.join(folder, name))


def split(
    folder: str, shares: Sequence[float], by: str, files: Mapping[str, Sequence[str]]
) -> str:
    """Moves the npz files of a folder into train, valid and test below it.

    Args:
        folder: where they are.
        shares: of the splits, from `shares.parse`.
        by: what stays together: 'program' (an id without its last _<hash>), 'file'
            (the raw file), or 'module' (nothing).
        files: raw file -> ids of its modules.

    Returns:
        What went where, in a line.

    Raises:
        ValueError: there are fewer groups than splits.
    """
    ids = sorted(n[: -len('.npz')] for n in os.listdir(folder) if n.endswith('.npz'))
    file_of = {name: path for path, names in files.items() for name in names}
    group_of = {
        'program': families.program_of_kernel,
        'file': lambda name: file_of.get(name, ''),
        'module': str,
    }[by]
    groups: Dict[str, List[str]] = {}
    for name in ids:
        groups.setdefault(group_of(name), []).append(name)
    parts = np.count_nonzero(shares)
    if len(groups) < parts:
        finer = BY[BY.index(by) + 1 :]
        advice = f': use --by {finer[0]}' if finer else ''
        raise ValueError(
            f'--split: there are {len(groups)} {by}s for {parts} splits{advice}'
        )
    sizes = {group: len(names) for group, names in groups.items()}
    chosen = shares_lib.share_out(sizes, [share / sum(shares) for share in shares])
    words = []
    for number, name in enumerate(collections.SPLITS):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        mine = [group for group, where in chosen.items() if where == number]
        members = [member for group in mine for member in groups[group]]
        for member in members:
            path = f'{member}.npz'
            os.replace(os.path.join(folder, path), os.path.join(folder, name, path))
        words.append(f'{name} {len(members)} of {len(mine)} {by}s')
    return 'split    ' + ', '.join(words)
