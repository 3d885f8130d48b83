"""Cross-validation: train and valid, joined and divided again by program.

    stores = make_fold('2/5', stores, '~/cache')

Of `k` folds one validates and the others train.  A program with all its batch
sizes is in one fold, so validation is on programs that were not trained on, as
in the published splits.  The test split is not touched.  The graphs of a fold are
packed into the cache once more, so each takes as much of the disk as both splits.
"""

from collections.abc import Mapping, Sequence
import os
import re

import numpy as np

from baselines.core import files
from baselines.core import text
from baselines.data import families
from baselines.data import shares
from baselines.data.packed import cache
from baselines.data.packed import packer
from baselines.data.packed import splits

_JOINED = ('train', 'valid')


def parse_fold(text: str) -> tuple[int, int] | None:
    """Parses --fold, 'i/k' with 1 <= i <= k >= 2; raises ValueError.

    Returns:
        The numbers i and k; None for ''.
    """
    if not text:
        return None
    numbers = re.fullmatch(r'([0-9]{1,6})/([0-9]{1,6})', text)
    number, count = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= number <= count or count < 2:
        raise ValueError(
            '--fold must be i/k, the i-th of k folds, such as 1/5, with k at '
            f'least 2 and i from 1 to k, not {text!r}'
        )
    return number, count


def assign_folds(
    groups: Sequence[str], configs: Sequence[int], count: int
) -> np.ndarray:
    """Assigns graphs to folds, each group to one fold; see `shares.share_out`.

    A group's size is its share of the graphs plus its share of the configurations.

    Args:
        groups: names of the groups of the n graphs.
        configs: int [n], numbers of configurations.

    Returns:
        int64 [n], 0 to count - 1; no fold is empty.

    Raises:
        ValueError: there are more folds than groups.
    """
    # members [n]: the number of each graph's group in `names`.
    names, members = np.unique(np.asarray(groups), return_inverse=True)
    if count > len(names):
        raise ValueError(
            f'--fold: {count} folds need at least {count} programs that differ '
            f'in more than their batch size, not {len(names)}'
        )
    # int64 [groups]: graphs and configurations of each.  Sizes are products of whole
    # numbers instead of shares, so that ties are the same on every machine.
    graphs = np.bincount(members)
    in_groups = np.bincount(members, configs).astype(np.int64)
    sizes = graphs * in_groups.sum() + in_groups * len(members)
    fold_of = shares.share_out(dict(enumerate(sizes.tolist())), [1] * count)
    return np.array([fold_of[i] for i in range(len(names))], np.int64)[members]


def make_fold(
    fold: str, stores: Mapping[str, splits.PackedSplit], cache_dir: str
) -> dict[str, splits.PackedSplit]:
    """Replaces the splits train and valid by their shares in a fold.

    These are packed on first use.

    Args:
        fold: the text that `parse_fold` takes; '' changes nothing.
        stores: packed splits by name, train and valid among them.

    Raises:
        OSError: the cache cannot be written.
        ValueError: `fold` is malformed; train and valid differ in columns, share a
            graph, or one has no runtimes; there are more folds than programs.
    """
    parsed = parse_fold(fold)
    if parsed is None:
        return dict(stores)
    joined = [stores[name] for name in _JOINED]
    # Both are packed into the same columns.
    splits.Variant.from_store(joined[0]).check(joined[1], f'is in {joined[0].source}')
    for store in joined:
        if not store.has_runtimes:
            raise ValueError(
                f'--fold: all runtimes in {store.source} are 0; folds are made '
                'of train and valid, and need those of both'
            )
    twice = set(joined[0].graph_ids) & set(joined[1].graph_ids)
    if twice:
        raise ValueError(
            f'--fold: {min(twice)} is in both {joined[0].source} and '
            f'{joined[1].source}; folds join them'
        )
    programs = [name for store in joined for name in store.programs]
    groups = [families.remove_batch_size(name) for name in programs]
    configs = np.concatenate([store.config_counts for store in joined])
    number, count = parsed
    validates = assign_folds(groups, configs, count) == number - 1
    return {
        **stores,
        'train': _pack_split(fold, 'train', stores, ~validates, cache_dir),
        'valid': _pack_split(fold, 'valid', stores, validates, cache_dir),
    }


def _pack_split(
    fold: str,
    name: str,
    stores: Mapping[str, splits.PackedSplit],
    chosen: np.ndarray,
    cache_dir: str,
) -> splits.PackedSplit:
    """Packs split `name` of a fold: the `chosen` graphs of train and valid, joined."""
    joined = [stores[part] for part in _JOINED]
    kind, stamp = type(joined[0]), hash_fold(fold, stores, name)
    # A graph by its place in `chosen`: its split, and its number there.
    graphs = [(store, graph) for store in joined for graph in range(len(store))]

    def pack(writer: packer.Writer) -> text.JsonObject:
        """Packs the chosen graphs; returns entries of the manifest."""
        packing = packer.Packer(writer, kind)
        for number in np.flatnonzero(chosen):
            store, graph = graphs[number]
            rows = {column: store.part(column, graph) for column in kind.columns}
            packing.copy(store.graph_ids[graph], rows)
        return {
            **joined[0].manifest,
            **packing.finish(),
            'skipped': joined[0].skipped + joined[1].skipped,
            'fingerprint': stamp,
        }

    manifest, arrays = cache.open_or_build(
        files.expand(cache_dir),
        label=f'{kind.collection}-fold-{fold.replace("/", "-of-")}-{name}',
        source=[store.source for store in joined],
        listing=[(stamp, 0, 0)],
        version=kind.version,
        build=pack,
    )
    # A split's folder is that of its data, the same for all folds.
    parent = os.path.dirname(joined[0].source)
    source = f'{parent}/{{train,valid}}/{name} of fold {fold.replace("/", " of ")}'
    return kind(source, manifest, arrays)


def hash_fold(fold: str, stores: Mapping[str, splits.PackedSplit], name: str) -> str:
    """Returns the fingerprint of split `name` of a fold, which need not be packed."""
    described = [fold, name, *(stores[part].fingerprint for part in _JOINED)]
    return text.hash_json(described)[:32]
