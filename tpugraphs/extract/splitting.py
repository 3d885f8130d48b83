"""Extracted files into train, valid and test: whole programs, by shares.

A model is worth what it does on programs that it has not seen, so what belongs
together goes into one split.
"""

import contextlib
import json
import os
from typing import Dict, Iterator, List, Mapping, Sequence

import numpy as np

from baselines import files
from baselines import untrusted
from baselines.data import collections
from baselines.data import families
from baselines.data import shares as shares_lib

BY = ('program', 'file', 'module')


# In a folder that was split: the names of the files in train, valid and test.
_RECORD = '.split.json'


@contextlib.contextmanager
def gathered(folder: str) -> Iterator[List[str]]:
    """Moves the npz files of an earlier split into the folder itself.

    When the block raises (also on Ctrl-C), they go back to where they were.

    Yields:
        The names of these files.

    Raises:
        ValueError: train, valid or test holds npz files that no `split` put there.
    """
    places = {}
    try:
        with files.open_regular(os.path.join(folder, _RECORD)) as stream:
            recorded = untrusted.loads(stream.read())
    except (OSError, ValueError):
        recorded = []
    listed = recorded if isinstance(recorded, list) else []
    ours = {name for name in listed if isinstance(name, str)}
    for part in collections.SPLITS:
        inside = os.path.join(folder, part)
        names = os.listdir(inside) if os.path.isdir(inside) else []
        for name in sorted(name for name in names if name.endswith('.npz')):
            if name not in ours:
                raise ValueError(
                    f'{os.path.join(inside, name)}: --split did not put it there; use '
                    'another folder, or move what is in train, valid and test'
                )
            places[name] = os.path.join(inside, name)
    try:
        for name, place in places.items():
            os.replace(place, os.path.join(folder, name))
        yield list(places)
    except BaseException:
        for name, place in places.items():
            if os.path.exists(os.path.join(folder, name)):
                os.replace(os.path.join(folder, name), place)
        raise


def split(
    folder: str,
    shares: Sequence[float],
    by: str,
    modules: Mapping[str, Sequence[str]],
    earlier: Sequence[str] = (),
) -> str:
    """Moves npz files of a folder into train, valid and test below it.

    Args:
        folder: where they are.
        shares: of the splits, from `shares.parse`.
        by: what stays together: 'program' (an id without its last _<hash>), 'file'
            (the raw file), or 'module' (nothing).
        modules: raw file -> ids of its modules.
        earlier: names of more files that are divided, from `gathered`.

    Returns:
        What went where, in a line.

    Raises:
        ValueError: there are fewer groups than splits.
    """
    file_of = {name: path for path, names in modules.items() for name in names}
    ids = sorted({*file_of, *(name[: -len('.npz')] for name in earlier)})
    groups: Dict[str, List[str]] = {}
    for name in ids:
        program = families.program_of_kernel(name)
        group = {'program': program, 'file': file_of.get(name, ''), 'module': name}[by]
        groups.setdefault(group, []).append(name)
    parts = np.count_nonzero(shares)
    if len(groups) < parts:
        finer = BY[BY.index(by) + 1 :]
        advice = f': use --by {finer[0]}' if finer else ''
        raise ValueError(
            f'--split: there are {len(groups)} {by}s for {parts} splits{advice}'
        )
    sizes = {group: len(names) for group, names in groups.items()}
    chosen = shares_lib.share_out(sizes, [share / sum(shares) for share in shares])
    counts = []
    # Before the first is moved, so that all are known after a crash, too.
    with files.write_atomically(os.path.join(folder, _RECORD)) as stream:
        json.dump([f'{name}.npz' for name in ids], stream)
    for number, name in enumerate(collections.SPLITS):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        mine = [group for group, where in chosen.items() if where == number]
        members = [member for group in mine for member in groups[group]]
        for member in members:
            path = f'{member}.npz'
            os.replace(os.path.join(folder, path), os.path.join(folder, name, path))
        counts.append(f'{name} {len(members)} of {len(mine)} {by}s')
    return 'split    ' + ', '.join(counts)
