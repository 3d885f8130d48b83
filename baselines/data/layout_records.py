"""One program of the layout collection: its arrays, read, checked and written.

The file format is the published one (design.md 2.1).
"""

import dataclasses
import os
from typing import Any, Dict, Mapping, Optional, Tuple

import numpy as np

from baselines import files
from baselines.data import npz

_MAX_BYTES = 16 << 30

# n nodes, m edges, c configurations of k nodes, s segment ends, F columns.
LAYOUT_SCHEMA: Mapping[str, npz.Field] = {
    'node_feat': npz.Field('fiu', ('n', 'F'), np.float32),
    'node_opcode': npz.Field(
        'iu', ('n',), np.int32, 0, 65535, 'not an opcode'),
    'edge_index': npz.Field(
        'iu', ('m', 2), np.int32, 0, 'n', 'an edge outside the graph'),
    'node_config_ids': npz.Field(
        'iu', ('k',), np.int64, 0, 'n', 'a node outside the graph'),
    'node_config_feat': npz.Field('fiu', ('c', 'k', 18), np.float32),
    'config_runtime': npz.Field(
        'iu', ('c',), np.int64, 0, 2**62, 'a runtime is in nanoseconds'),
    'node_splits': npz.Field('iu', (1, 's'), np.int64, 0),
    'pad': npz.Field(
        'iu', (), np.int64, -1, 0, 'absent list entries are 0 or -1',
        optional=True),
    'feature_names': npz.Field('U', ('F',), optional=True),
}


@dataclasses.dataclass(frozen=True, eq=False)
class LayoutRecord:
    """A program and its layout configurations.

    Attributes:
        graph_id: the file's stem.
        node_feat: float32 [n, F].
        node_opcode: int32 [n].
        edge_index: int32 [m, 2], rows (consumer, producer) of node numbers.
        node_config_ids: int64 [k], numbers of the configurable nodes.
        node_config_feat: float32 [c, k, 18]; -1 where an entry is absent.
        config_runtime: int64 [c], nanoseconds; all 0 where not published.
        node_splits: int64 [1, s], 0 and the ends of the segments.
        pad: what absent list entries hold in node_feat, 0 or -1.
        feature_names: of the F columns, where the file names them.
    """

    graph_id: str
    node_feat: np.ndarray
    node_opcode: np.ndarray
    edge_index: np.ndarray
    node_config_ids: np.ndarray
    node_config_feat: np.ndarray
    config_runtime: np.ndarray
    node_splits: np.ndarray
    pad: int = 0
    feature_names: Optional[Tuple[str, ...]] = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return len(self.node_opcode)

    @property
    def num_configs(self) -> int:
        """Number of configurations, c."""
        return len(self.node_config_feat)


def read_layout(path: str) -> LayoutRecord:
    """Reads and checks `<graph id>.npz`.

    Raises:
        ValueError: what is wrong with the file, in one line.
        OSError: the file cannot be read.
    """
    # The published files have a leading axis of 1 here, others have not.
    rest = {k: f for k, f in LAYOUT_SCHEMA.items() if k != 'node_splits'}
    splits = {'node_splits': npz.Field('iu', ('s',), np.int64, 0)}
    arrays = npz.read_arrays(path, rest, _MAX_BYTES)
    try:
        arrays.update(npz.read_arrays(path, splits, _MAX_BYTES))
        arrays['node_splits'] = arrays['node_splits'][None]
    except ValueError:
        splits['node_splits'] = LAYOUT_SCHEMA['node_splits']
        arrays.update(npz.read_arrays(path, splits, _MAX_BYTES))
    _check_program(path, arrays)
    names = arrays.pop('feature_names', None)
    return LayoutRecord(
        graph_id=os.path.splitext(os.path.basename(path))[0],
        pad=int(arrays.pop('pad', 0)),
        feature_names=None if names is None else tuple(names.tolist()),
        **arrays,
    )


def write_layout(path: str, record: LayoutRecord) -> None:
    """Writes a record in the published schema and dtypes, whole or not at all.

    `pad` and the names are written only where they differ from the default, so
    that an ordinary program has exactly the published keys.

    Args:
        path: the file, `<graph id>.npz`; missing folders are made.
        record: what goes into it.

    Raises:
        ValueError: the record is not a valid program.
        OSError: the file cannot be written.
    """
    arrays = {
        key: np.asarray(getattr(record, key)) for key in LAYOUT_SCHEMA
        if getattr(record, key) is not None
    }
    arrays = npz.check_arrays(path, arrays, LAYOUT_SCHEMA)
    _check_program(path, arrays)
    if not arrays['pad']:
        del arrays['pad']
    arrays['edge_index'] = arrays['edge_index'].astype(np.int64)
    if arrays['node_opcode'].max() < 256:
        arrays['node_opcode'] = arrays['node_opcode'].astype(np.uint8)
    with files.write_atomically(path, 'wb') as stream:
        np.savez_compressed(stream, **arrays)


def _check_program(path: str, arrays: Dict[str, Any]) -> None:
    """Checks what a schema cannot say."""
    nodes, columns = arrays['node_feat'].shape
    for key, count in (('node_feat', nodes * columns),
                       ('node_config_ids', len(arrays['node_config_ids'])),
                       ('config_runtime', len(arrays['config_runtime']))):
        if not count:
            raise ValueError(f'{path}: {key} is empty')
    splits = arrays['node_splits'][0]
    if (not len(splits) or splits[0] != 0 or splits[-1] != nodes
            or (np.diff(splits) < 0).any()):
        raise ValueError(
            f'{path}: node_splits is {splits.tolist()[:10]}..., expected '
            f'ascending numbers from 0 to {nodes}, the number of nodes')
