"""A split of the tile collection, packed once, memory-mapped from then on.

    store = TileStore.open('~/data/tpugraphs/npz/tile/xla/train', '~/cache')
    begin, end = store.config_offsets[7:9]
    store.config_feat[begin:end]        # kernel 7, read from the page cache

All kernels lie end to end in a few long arrays, so a batch is built from ranges
in a few vectorised operations, and a step touches only the rows it draws.
"""

import numpy as np

from baselines.data import families
from baselines.data.packed import splits
from baselines.data.tile import records


class TileStore(splits.PackedSplit):
    """The kernels of a split as packed arrays; made by `open` or `from_records`.

    Attributes:
        config_feat: float32 [C, K].
        config_runtime_normalizers: int64 [C].
        xla_release: int64 [G], the jaxlib that measured each kernel; see `TileRecord`.
        Those of `PackedSplit`.
    """

    config_feat: np.ndarray
    config_runtime_normalizers: np.ndarray
    xla_release: np.ndarray

    collection = 'tile'
    noun = 'kernel'
    record_class = records.TileRecord
    record_arrays = (
        *('node_feat', 'node_opcode', 'edge_index', 'config_feat'),
        *('config_runtime', 'config_runtime_normalizers'),
    )
    version = 4
    columns = {
        **splits.PackedSplit.columns,
        'config_feat': 'config',
        'config_runtime': 'config',
        'config_runtime_normalizers': 'config',
        'xla_release': 'graph',
    }

    @property
    def programs(self) -> list[str]:
        """The name of each kernel's program, which several may share."""
        return [families.find_program(graph_id) for graph_id in self.graph_ids]

    def labels(self, graph: int) -> np.ndarray:
        """Returns runtimes divided by that of the default tile, float64 [c]."""
        normalizers = self.part('config_runtime_normalizers', graph)
        return self.part('config_runtime', graph) / normalizers

    def default_of(self, graph: int) -> int | None:
        """Returns the compiler's default tile of a kernel, by its runtime.

        It is the one that runtimes are divided by; None where no runtime is known, or
        the default was not measured.
        """
        normalizers = self.part('config_runtime_normalizers', graph)
        defaults = np.flatnonzero(self.part('config_runtime', graph) == normalizers)
        return int(defaults[0]) if len(defaults) else None

    def record(self, index: int) -> records.TileRecord:
        """Returns kernel `index` as views into the packed arrays; see `rows`."""
        fields = self._make_fields(index, self.record_arrays)
        release = int(self.xla_release[index])
        return records.TileRecord(**fields, xla_release=release)
