"""Packs the kernels of a split of the tile collection.

Only `store` needs this; it says what the columns are.
"""

from typing import Any, Callable, Dict

from baselines.data.packed import columns
from baselines.data.packed import packer as split_packing
from baselines.data.tile import records


class TilePacker(split_packing.SplitPacker):
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
            **split_packing.extremes('node', record.node_feat),
            **split_packing.extremes('config', record.config_feat),
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
