"""Splits of several collections as one, with a flag that says where a program is from.

    store = JointStore({'layout:xla:random': a, 'layout:nlp:random': b}, names)
    store.part('node_feat', 0)    # float32 [n, 140 + 2], the flags last

A model is trained on several collections, and ranks each separately, with the same
flags: `JointStore({name: a}, names)`.  Nothing is copied; the parts stay memory-mapped.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from baselines.data.layout import store as layout_store
from baselines.data.packed import splits

_FLAGGED = ('node_feat', 'node_min', 'node_max')


class JointStore(layout_store.LayoutStore):
    """The programs of several collections; see `LayoutStore`.

    Collections alternate, so that the first programs are of all of them.  Each node
    has a flag for every collection, 1 for that of its program and otherwise 0; nodes
    are what all models read.

    Only columns with a row per graph are attributes; others are read with `part`.

    Attributes:
        flags: names of the flags, such as 'is_xla_random'.

    Args:
        parts: splits by the name of their collection.
        names: the collections that have a flag, those of `parts` among them.

    Raises:
        ValueError: the parts differ in their columns.
    """

    def __init__(
        self, parts: Mapping[str, layout_store.LayoutStore], names: Sequence[str]
    ):
        # Not the constructor of the base class, which takes columns of all rows.
        self._parts, self._names = dict(parts), list(names)
        self._stores = list(parts.values())
        # (number in its split, number of the split) of each graph, so they alternate.
        self._places = sorted(
            (graph, part)
            for part, store in enumerate(self._stores)
            for graph in range(len(store))
        )
        self._flags = np.array(
            [[one == name for one in names] for name in parts], np.float32
        )
        first, *others = self._stores
        for store in others:
            splits.Variant.from_store(first).check(store, f'is in {first.source}')
        self.flags: list[str] = [
            'is_' + '_'.join(name.split(':')[1:]) for name in names
        ]
        self.source = ', '.join(store.source for store in self._stores)
        self.manifest, self.arrays = {}, {}
        self.graph_ids = [self._stores[p].graph_ids[g] for g, p in self._places]
        self.pad = first.pad
        self.has_runtimes = all(store.has_runtimes for store in self._stores)
        self.skipped = [entry for store in self._stores for entry in store.skipped]
        self.fingerprint = ' '.join(store.fingerprint for store in self._stores)
        for owner in {*self.columns.values()} - {'graph'}:
            sizes = [np.diff(getattr(s, f'{owner}_offsets')) for s in self._stores]
            of_graphs = [sizes[part][graph] for graph, part in self._places]
            setattr(self, f'{owner}_offsets', np.cumsum([0, *of_graphs]))
        for name, owner in self.columns.items():
            if owner == 'graph':
                rows = [self.part(name, graph) for graph in range(len(self))]
                setattr(self, name, np.concatenate(rows))

    @property
    def collection_of(self) -> np.ndarray:
        """int64 [G]: the place of each graph's collection in `parts`."""
        return np.array([part for _, part in self._places], np.int64)

    def part(self, name: str, graph: int) -> np.ndarray:
        self.rows(self.columns[name], graph)  # IndexError: there is no such graph
        of_part, part = self._places[graph]
        rows = self._stores[part].part(name, of_part)
        if name not in _FLAGGED:
            return rows
        flags = np.broadcast_to(self._flags[part], (len(rows), len(self.flags)))
        return np.concatenate([rows, flags], axis=1)

    def with_opcodes_below(self, count: int) -> 'JointStore':
        parts = {n: store.with_opcodes_below(count) for n, store in self._parts.items()}
        return JointStore(parts, self._names)

    def with_extra(self) -> 'JointStore':
        """Returns the split with additional columns before the flags."""
        parts = {name: store.with_extra() for name, store in self._parts.items()}
        return JointStore(parts, self._names)
