"""A split of the tile collection, packed once and mapped ever after.

    store = TileStore.open('~/data/tpugraphs/npz/tile/xla/train', '~/cache')
    begin, end = store.config_offsets[7:9]
    store.config_feat[begin:end]        # kernel 7, read from the page cache

All kernels lie end to end in a few long arrays, so a batch is built from ranges
in a few vectorised operations, and a step touches only the rows it draws.
"""

from typing import Any, Callable, Dict

from baselines.data.packed import columns
from baselines.data.packed import packer
from baselines.data.packed import splits
from baselines.data.tile import records


class TilePacker(packer.SplitPacker):
    """Packs one split of kernels."""

    collection = 'tile'
    noun = 'kernel'
    version = 1

    def _read(self, path: str, advance: Callable[[float], Any]) -> records.TileRecord:
        return records.read_tile(path)

    def _append(
        self, writer: columns.PackedWriter, record: records.TileRecord
    ) -> Dict[str, int]:
        arrays = {key: getattr(record, key) for key in records.ARRAYS}
        self._digest(record.graph_id, arrays)
        writer.append(
            **arrays,
            **packer.extremes('node', record.node_feat),
            **packer.extremes('config', record.config_feat),
            max_opcode=record.node_opcode.max(keepdims=True),
        )
        return {
            'node': record.num_nodes,
            'edge': len(record.edge_index),
            'config': record.num_configs,
        }

    def _meaning(self, record: records.TileRecord) -> Dict[str, Any]:
        return {
            'columns of node_feat': record.node_feat.shape[1],
            'columns of config_feat': record.config_feat.shape[1],
            'pad': record.pad,
            'feature_names': record.feature_names,
            'config_feature_names': record.config_feature_names,
        }


class TileStore(splits.PackedSplit):
    """The kernels of a split as packed arrays; made by `open`.

    Attributes:
        config_feat: float32 [C, K].
        config_runtime_normalizers: int64 [C].
        Those of `PackedSplit`.
    """

    packer = TilePacker
    columns = {
        **splits.PackedSplit.columns,
        'config_feat': 'config',
        'config_runtime_normalizers': 'config',
    }

    def record(self, index: int) -> records.TileRecord:
        """Returns kernel `index` as views into the packed arrays; see `rows`."""
        return records.TileRecord(
            config_feature_names=self.config_feature_names,
            **self._fields(index, records.ARRAYS),
        )
