"""Kernels that are in memory, in the form of a packed split."""

from typing import Sequence

import numpy as np

from baselines.data.tile import records
from baselines.data.tile import store

_COUNTED = {'node': 'node_opcode', 'edge': 'edge_index', 'config': 'config_runtime'}
_SHARED = ('pad', 'feature_names', 'config_feature_names')


def tile_store(source: str, kernels: Sequence[records.TileRecord]) -> store.TileStore:
    """Puts kernels end to end, in the given order.

    Args:
        source: where they come from, for messages.
        kernels: at least one, all of one width, padding and column names.
    """
    arrays = {
        key: np.concatenate([getattr(kernel, key) for kernel in kernels])
        for key in records.ARRAYS
    }
    for what, key in _COUNTED.items():
        sizes = [len(getattr(kernel, key)) for kernel in kernels]
        arrays[f'{what}_offsets'] = np.cumsum([0, *sizes], dtype=np.int64)
    for part in ('node', 'config'):
        features, first = arrays[f'{part}_feat'], arrays[f'{part}_offsets'][:-1]
        arrays[f'{part}_min'] = np.minimum.reduceat(features, first)
        arrays[f'{part}_max'] = np.maximum.reduceat(features, first)
    first = arrays['node_offsets'][:-1]
    arrays['max_opcode'] = np.maximum.reduceat(arrays['node_opcode'], first)
    manifest = {
        'graph_ids': [kernel.graph_id for kernel in kernels],
        'has_runtimes': bool(arrays['config_runtime'].any()),
        'skipped': [],
        'fingerprint': '',
        **{name: getattr(kernels[0], name) for name in _SHARED},
    }
    return store.TileStore(source, manifest, arrays)
