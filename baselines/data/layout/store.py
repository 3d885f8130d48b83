"""A split of the layout collection, packed once and mapped ever after.

    store = LayoutStore.open('~/data/tpugraphs/npz/layout/xla/random/train', '~/cache')
    store.vectors(7)[store.group_codes(7)]  # graph 7: int8 [u, k, 18]

A configuration is a row of codes, one per configurable node, into the graph's
dictionary of distinct vectors; equal configurations share a row.  What depends
on a vector alone (scaling, embedding) is done on the dictionary, once.
"""

import os
from typing import Optional, Sequence

import numpy as np

from baselines.data.layout import packing as layout_packing
from baselines.data.layout import records as layout_records
from baselines.data.packed import splits


class LayoutStore(splits.PackedSplit):
    """The programs of a split as packed arrays; made by `open`.

    Beside G graphs, N nodes and C configurations there are K configurable
    nodes, S segment ends, U groups of equal configurations and D distinct
    vectors in all.  Numbers of nodes, configurations and groups are counted
    within a graph.

    Attributes:
        node_config_ids: int64 [K], the configurable nodes.
        node_splits: int64 [S], 0 and the ends of the segments.
        config_group: int32 [C], the group of each configuration.
        group_first: int32 [U], the first configuration of each group.
        group_size: int32 [U], how many configurations it has.
        group_runtime: float64 [U], the mean of their runtimes.
        group_std: float64 [U], their standard deviation (n - 1); 0 for one.
        Offsets of what `columns` names, and those of `PackedSplit`; config_min and
            config_max are over all configurations and configurable nodes.
    """

    packer = layout_packing.LayoutPacker
    columns = {
        **splits.PackedSplit.columns,
        'node_config_ids': 'config_node',
        'node_splits': 'split',
        'config_group': 'config',
        'group_first': 'group',
        'group_size': 'group',
        'group_runtime': 'group',
        'group_std': 'group',
        'config_vectors': 'vector',
        'config_codes': 'code',
        'code_width': 'graph',
    }

    @property
    def group_counts(self) -> np.ndarray:
        """int64 [G]: how many different configurations each graph has."""
        return np.diff(self.group_offsets)

    def vectors(self, graph: int) -> np.ndarray:
        """Returns int8 [d, 18], a graph's distinct vectors, as a view."""
        return self.part('config_vectors', graph)

    def group_codes(self, graph: int) -> np.ndarray:
        """Returns a graph's different configurations, as a view.

        uint8, uint16 or uint32 [u, k], rows of `vectors` by configurable node; row
        i is the group i.
        """
        rows = self.rows('group', graph)
        nodes = self.rows('config_node', graph)
        shape = rows.stop - rows.start, nodes.stop - nodes.start
        # Codes begin at multiples of 8 bytes; there may be padding behind them.
        codes = self.part('config_codes', graph).view(f'<u{self.code_width[graph]}')
        return codes[: shape[0] * shape[1]].reshape(shape)

    def relative_noise(self, graphs: Optional[Sequence[int]] = None) -> float:
        """Returns how much a runtime varies when it is measured again.

        The standard deviation over the mean, pooled over all groups of these graphs
        (None: all) with more than one measurement; NaN if there is none.
        """
        degrees = squares = 0.0
        for graph in range(self.num_graphs) if graphs is None else graphs:
            mean = self.part('group_runtime', graph)
            free = np.where(mean > 0, self.part('group_size', graph) - 1, 0)
            relative = self.part('group_std', graph) / np.maximum(mean, 1)
            degrees += free.sum()
            squares += (free * relative**2).sum()
        return float(np.sqrt(squares / degrees)) if degrees else float('nan')

    def record(self, graph: int) -> layout_records.LayoutRecord:
        """Returns a graph as its file has it; mind the size of its features.

        Raises:
            IndexError: there is no such graph.
        """
        fields = self._fields(graph, (*layout_packing.ARRAYS, 'node_splits'))
        vectors = self.vectors(graph).astype(np.float32)
        codes = self.group_codes(graph)[self.part('config_group', graph)]
        return layout_records.LayoutRecord(
            node_config_feat=np.take(vectors, codes, axis=0),
            node_splits=fields.pop('node_splits')[None],
            **fields,
        )


def pack_alone(
    record: layout_records.LayoutRecord, folder: str, name: str = 'split'
) -> LayoutStore:
    """Packs one program in a folder for a while, as a split of some name.

    Raises:
        ValueError: the record is not valid.
    """
    split = os.path.join(folder, name)
    file = os.path.join(split, f'{record.graph_id}.npz')
    try:
        layout_records.write_layout(file, record)
    except ValueError as error:
        # Our file is no business of the user's.
        raise ValueError(str(error).replace(f'{file}: ', '')) from None
    return LayoutStore.open(split, os.path.join(folder, 'cache'), progress=False)
