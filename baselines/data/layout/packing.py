"""Packs the programs of a split of the layout collection.

Only `layout_store` needs this; it says what the columns are.  A program's
features are read block by block; what stays in memory until its end are codes,
one or two bytes per configuration and configurable node.
"""

import dataclasses
from typing import Any, Callable, Dict, Optional

import numpy as np

from baselines.data.layout import encoding as layout_encoding
from baselines.data.layout import records as layout_records
from baselines.data.packed import columns
from baselines.data.packed import packer as split_packing

ARRAYS = (
    *('node_feat', 'node_opcode', 'edge_index'),
    *('node_config_ids', 'config_runtime'),
)
# A program's codes begin at a multiple, whatever their width.
_ALIGNMENT = 8


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedProgram(layout_records.LayoutRecord):
    """A program without the features of its configurations, but these encoded."""

    configs: Optional[layout_encoding.EncodedConfigs] = None


def read_encoded(
    path: str, advance: Callable[[float], Any] = lambda share: None
) -> EncodedProgram:
    """Reads and checks `<graph id>.npz` in little memory.

    `advance` is told which share of the file has been read.

    Raises:
        ValueError: what is wrong with the file, in one line.
        OSError: the file cannot be read.
    """
    record = layout_records.read_program(path)
    nodes = len(record.node_config_ids)
    with layout_records.open_configs(path, record) as blocks:
        encoder = layout_encoding.ConfigEncoder(record.num_configs, nodes)
        for first, block in blocks:
            encoder.add(block)
            advance((first + len(block)) / record.num_configs)
    return EncodedProgram(**vars(record), configs=encoder.finish())


class LayoutPacker(split_packing.SplitPacker):
    """Packs one split of programs."""

    collection = 'layout'
    noun = 'program'
    version = 1

    def _read(self, path: str, advance: Callable[[float], Any]) -> EncodedProgram:
        return read_encoded(path, advance)

    def _append(
        self, writer: columns.PackedWriter, record: EncodedProgram
    ) -> Dict[str, int]:
        configs = record.configs
        arrays = {key: getattr(record, key) for key in ARRAYS}
        arrays['node_splits'] = record.node_splits[0]
        arrays['config_group'] = configs.group
        arrays['config_vectors'] = configs.vectors
        self._digest(record.graph_id, {**arrays, 'config_codes': configs.codes})
        writer.append(
            **arrays,
            **group_statistics(record.config_runtime, configs.group),
            group_first=configs.first,
            config_codes=configs.codes.reshape(-1).view(np.uint8),
            code_width=np.array([configs.codes.itemsize], np.uint8),
            **split_packing.extremes('node', record.node_feat),
            # Every vector of the dictionary is in some row, so this is exact.
            **split_packing.extremes('config', configs.vectors),
            max_opcode=record.node_opcode.max(keepdims=True),
        )
        padding = -configs.codes.nbytes % _ALIGNMENT
        writer.append(config_codes=np.zeros(padding, np.uint8))
        return {
            'node': record.num_nodes,
            'edge': len(record.edge_index),
            'config_node': len(record.node_config_ids),
            'split': record.node_splits.size,
            'config': len(record.config_runtime),
            'group': len(configs.first),
            'vector': len(configs.vectors),
            'code': configs.codes.nbytes + padding,
        }

    def _meaning(self, record: EncodedProgram) -> Dict[str, Any]:
        return {
            'columns of node_feat': record.node_feat.shape[1],
            'pad': record.pad,
            'feature_names': record.feature_names,
        }


def group_statistics(runtimes: np.ndarray, group: np.ndarray) -> Dict[str, np.ndarray]:
    """Summarises repeated measurements: their number, mean and deviation.

    Args:
        runtimes: int64 [c], nanoseconds.
        group: int32 [c], which configurations are the same; all of 0..u-1.

    Returns:
        group_size int32 [u]; group_runtime float64 [u]; group_std float64 [u]
        (n - 1), 0 for one.
    """
    sizes = np.bincount(group)
    mean = np.bincount(group, runtimes) / sizes
    squares = np.bincount(group, (runtimes - mean[group]) ** 2)
    return {
        'group_size': sizes.astype(np.int32),
        'group_runtime': mean,
        'group_std': np.sqrt(squares / np.maximum(sizes - 1, 1)),
    }
