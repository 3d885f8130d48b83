"""One kernel of the tile collection: its arrays, read, checked and written.

The file format is the published one (docs/design-contracts.md, 1).  Integers of any
width are accepted; what comes out has one dtype per array, and nobody checks it again.
"""

import dataclasses
import os
from typing import Mapping, Optional, Tuple

import numpy as np

from baselines.data import npz

# The largest kernels have some 100,000 configurations, 10 MB unpacked.
_MAX_BYTES = 1 << 30

# n nodes, m edges, c configurations, F and K columns.
TILE_SCHEMA: Mapping[str, npz.Field] = {
    'node_feat': npz.Field('fiu', ('n', 'F'), np.float32),
    'node_opcode': npz.Field('iu', ('n',), np.int32, 0, 65535, 'not an opcode'),
    'edge_index': npz.Field(
        'iu', ('m', 2), np.int32, 0, 'n', 'an edge outside the graph'
    ),
    'config_feat': npz.Field('fiu', ('c', 'K'), np.float32),
    'config_runtime': npz.Field(
        'iu', ('c',), np.int64, 0, 2**62, 'a runtime is in nanoseconds'
    ),
    'config_runtime_normalizers': npz.Field(
        'iu', ('c',), np.int64, 1, 2**62, 'runtimes are divided by it'
    ),
    'pad': npz.Field(
        'iu', (), np.int64, -1, 0, 'absent dimensions are 0 or -1', optional=True
    ),
    'feature_names': npz.Field('U', ('F',), optional=True),
    'config_feature_names': npz.Field('U', ('K',), optional=True),
}
# Those that every kernel has.
ARRAYS = tuple(key for key, field in TILE_SCHEMA.items() if not field.optional)


@dataclasses.dataclass(frozen=True, eq=False)
class TileRecord:
    """A kernel and its tile configurations.

    Attributes:
        graph_id: the file's stem.
        node_feat: float32 [n, F].
        node_opcode: int32 [n].
        edge_index: int32 [m, 2], rows (consumer, producer) of node numbers.
        config_feat: float32 [c, K].
        config_runtime: int64 [c], nanoseconds; all 0 where not published.
        config_runtime_normalizers: int64 [c]; label = runtime / normaliser.
        pad: what absent tile dimensions hold in config_feat, 0 or -1.
        feature_names: of the F columns, where the file names them.
        config_feature_names: of the K columns, where the file names them.
    """

    graph_id: str
    node_feat: np.ndarray
    node_opcode: np.ndarray
    edge_index: np.ndarray
    config_feat: np.ndarray
    config_runtime: np.ndarray
    config_runtime_normalizers: np.ndarray
    pad: int = 0
    feature_names: Optional[Tuple[str, ...]] = None
    config_feature_names: Optional[Tuple[str, ...]] = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return len(self.node_opcode)

    @property
    def num_configs(self) -> int:
        """Number of configurations, c."""
        return len(self.config_feat)


def read_tile(path: str) -> TileRecord:
    """Reads and checks `<graph id>.npz`.

    Raises:
        ValueError: what is wrong with the file, in one line.
        OSError: the file cannot be read.
    """
    arrays = npz.read_arrays(path, TILE_SCHEMA, _MAX_BYTES)
    _check_kernel(path, arrays)
    graph_id = os.path.splitext(os.path.basename(path))[0]
    return TileRecord(
        graph_id=graph_id,
        pad=int(arrays.pop('pad', 0)),
        feature_names=_names(arrays.pop('feature_names', None)),
        config_feature_names=_names(arrays.pop('config_feature_names', None)),
        **arrays,
    )


def write_tile(path: str, record: TileRecord) -> None:
    """Writes a record in the published schema and dtypes, whole or not at all.

    `pad` and the names are written only where they differ from the default, so
    that an ordinary kernel has exactly the published keys.

    Args:
        path: the file, `<graph id>.npz`; missing folders are made.
        record: what goes into it.

    Raises:
        ValueError: the record is not a valid kernel.
        OSError: the file cannot be written.
    """
    arrays = {
        key: np.asarray(value)
        for key, value in ((key, getattr(record, key)) for key in TILE_SCHEMA)
        if value is not None
    }
    arrays = npz.check_arrays(path, arrays, TILE_SCHEMA)
    _check_kernel(path, arrays)
    if not arrays['pad']:
        del arrays['pad']
    arrays['edge_index'] = arrays['edge_index'].astype(np.int64)
    if arrays['node_opcode'].max() < 256:
        arrays['node_opcode'] = arrays['node_opcode'].astype(np.uint8)
    npz.write_arrays(path, arrays)


def _names(array: Optional[np.ndarray]) -> Optional[Tuple[str, ...]]:
    return None if array is None else tuple(array.tolist())


def _check_kernel(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Checks what a schema cannot say."""
    nodes, columns = arrays['node_feat'].shape
    configs, config_columns = arrays['config_feat'].shape
    if not nodes:
        raise ValueError(f'{path}: node_feat has no rows: the graph is empty')
    if not columns or not config_columns:
        key = 'config_feat' if columns else 'node_feat'
        raise ValueError(f'{path}: {key} has no columns')
    if configs < 2:
        count = 'only 1 configuration' if configs else 'no configuration'
        raise ValueError(f'{path}: config_feat has {count}: there is nothing to rank')
    runtimes = arrays['config_runtime']
    missing = configs - np.count_nonzero(runtimes)
    if 0 < missing < configs:
        raise ValueError(
            f'{path}: config_runtime is 0 for {missing} of {configs} '
            'configurations; either all are (not published) or none'
        )
