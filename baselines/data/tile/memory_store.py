"""Kernels that are in memory, in the form of a packed split."""

from typing import Sequence

import numpy as np

from baselines.data.tile import records
from baselines.data.tile import store

_COUNTED = {'node': 'node_opcode', 'edge': 'edge_index', 'config': 'config_runtime'}


def tile_store(source: str, kernels: Sequence[records.TileRecord]) -> store.TileStore:
    """Puts kernels end to end, in the given order.

    Args:
        source: where they come from, for messages.
        kernels: at least one, all of one width, padding and column names.
    """
    first = kernels[0]
    arrays = {
        key: np.concatenate([getattr(kernel, key) for kernel in kernels])
        for key in records.ARRAYS
    }
    for what, key in _COUNTED.items():
        sizes = [len(getattr(kernel, key)) for kernel in kernels]
        arrays[f'{what}_offsets'] = np.cumsum([0, *sizes], dtype=np.int64)
    for part in ('node', 'config'):
        features = [getattr(kernel, f'{part}_feat') for kernel in kernels]
        arrays[f'{part}_min'] = np.stack([f.min(axis=0) for f in features])
        arrays[f'{part}_max'] = np.stack([f.max(axis=0) for f in features])
    arrays['max_opcode'] = np.array(
        [kernel.node_opcode.max() for kernel in kernels], np.int32
    )
    return store.TileStore(
        source,
        {
            'graph_ids': [kernel.graph_id for kernel in kernels],
            'has_runtimes': bool(arrays['config_runtime'].any()),
            'skipped': [],
            'fingerprint': '',
            'pad': first.pad,
            'feature_names': first.feature_names,
            'config_feature_names': first.config_feature_names,
        },
        arrays,
    )
