"""A split of the tile collection, packed once and mapped ever after.

    store = TileStore.open('~/data/tpugraphs/npz/tile/xla/train', '~/cache')
    begin, end = store.config_offsets[7:9]
    store.config_feat[begin:end]        # kernel 7, read from the page cache

All kernels lie end to end in a few long arrays, so a batch is built from ranges
in a few vectorised operations, and a step touches only the rows it draws.
"""

from typing import Any, Mapping

import numpy as np

from baselines.data.packed import splits
from baselines.data.tile import packing
from baselines.data.tile import records


class TileStore(splits.PackedSplit):
    """The kernels of a split as packed arrays; made by `open`.

    Attributes:
        config_feat: float32 [C, K].
        config_runtime_normalizers: int64 [C].
        config_feature_names: tuple of K names, or None.
        Those of `PackedSplit`.
    """

    packer = packing.TilePacker
    columns = {
        **splits.PackedSplit.columns,
        'config_feat': 'config',
        'config_runtime_normalizers': 'config',
    }

    def __init__(
        self, source: str, manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ):
        super().__init__(source, manifest, arrays)
        self.config_feature_names = splits.as_tuple(manifest['config_feature_names'])

    def record(self, index: int) -> records.TileRecord:
        """Returns kernel `index` as views into the packed arrays; see `rows`."""
        return records.TileRecord(
            config_feature_names=self.config_feature_names,
            **self._fields(index, records.ARRAYS),
        )
