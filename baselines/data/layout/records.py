"""One program of the layout collection: its arrays, read, checked and written."""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses
from typing import Any

import numpy as np

from baselines.core import npz
from baselines.data import graph_files
from baselines.hlo import schema

# Most bytes of one file, and of all that it holds except the configurations.
MAX_FILE_BYTES = 16 << 30
_MAX_PROGRAM_BYTES = 1 << 30
# Output, input and kernel layout, 6 dimensions each; -1 where there is none.
# Arrays of rank 7 and more have dimension numbers above 5; more than an int8
# holds is no dimension.
LOWEST, HIGHEST = -1, 127

# n nodes, m edges, c configurations of k nodes, s segment ends, F columns.
_PROGRAM_SCHEMA: Mapping[str, npz.Field] = {
    **graph_files.GRAPH,
    **graph_files.EXTRA,
    'node_config_ids': npz.Field(
        'iu', ('k',), np.int64, 0, 'n', 'a node outside the graph'
    ),
    'config_runtime': graph_files.RUNTIME,
    # The published files have a leading axis of 1 here, others have not.
    'node_splits': npz.Field('iu', None, np.int64),
    'pad': graph_files.PAD,
}
LAYOUT_SCHEMA: Mapping[str, npz.Field] = {
    **_PROGRAM_SCHEMA,
    'node_config_feat': npz.Field('fiu', ('c', 'k', len(schema.LAYOUT)), np.float32),
}
# The first is read block by block; extraction of others writes the second.
_UNREAD = ('node_config_feat', 'config_runtime_normalizers', *graph_files.UNREAD)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LayoutRecord(graph_files.GraphRecord):
    """A program and its layout configurations.

    Attributes:
        node_config_ids: int64 [k], numbers of the configurable nodes.
        node_config_feat: float32 [c, k, 18]; -1 where an entry is absent.
        node_splits: int64 [1, s], 0 and the ends of the segments.
        Those of `GraphRecord`.
    """

    node_config_ids: np.ndarray
    node_config_feat: np.ndarray
    node_splits: np.ndarray

    schema = LAYOUT_SCHEMA

    @staticmethod
    def check(path: str, arrays: dict[str, np.ndarray], whole: bool = True) -> None:
        """Checks the graph, its segments and all features; see the base class."""
        _check_program(path, arrays, whole)
        check_config_values(path, arrays['node_config_feat'])


def write_program(
    path: str, program: LayoutRecord, configs: Iterable[np.ndarray]
) -> None:
    """Writes `<graph id>.npz` with features that come in blocks, as `write` does.

    Args:
        program: all but the features, of which it has none.
        configs: the features of all configurations in order, in arrays of float32
            [configurations, k, 18].
    """
    values = {key: getattr(program, key) for key in _PROGRAM_SCHEMA}
    arrays = {k: np.asarray(value) for k, value in values.items() if value is not None}
    arrays = npz.check_arrays(path, arrays, _PROGRAM_SCHEMA)
    _check_program(path, arrays)
    shape = program.num_configs, len(program.node_config_ids), len(schema.LAYOUT)
    features = npz.StreamedField(
        'node_config_feat', shape, np.dtype(np.float32), _check_blocks(path, configs)
    )
    npz.write_arrays(path, graph_files.convert_published(arrays), features)


def read_program(path: str) -> LayoutRecord:
    """Reads and checks a file except for its configurations' features.

    Of these the record has an empty array [0, k, 18].

    Raises:
        ValueError: the file is damaged, or an array is wrong; in one line.
        OSError: the file cannot be read.
    """
    arrays = npz.read_arrays(
        path, _PROGRAM_SCHEMA, _MAX_PROGRAM_BYTES, _UNREAD, MAX_FILE_BYTES
    )
    _check_program(path, arrays)
    nodes = len(arrays['node_config_ids'])
    return LayoutRecord(
        node_config_feat=np.zeros((0, nodes, len(schema.LAYOUT)), np.float32),
        **graph_files.make_fields(path, arrays),
    )


def read_configs(path: str, program: LayoutRecord) -> Iterator[np.ndarray]:
    """Reads the features of a file's configurations block by block.

    Args:
        program: the record from `read_program`, the errors of which this raises, too.

    Yields:
        Blocks of configurations in order, [configurations, k, 18], checked, of any
        number type and read-only.
    """
    lengths = {
        'c': (program.num_configs, 'config_runtime'),
        'k': (len(program.node_config_ids), 'node_config_ids'),
    }
    key = 'node_config_feat'
    blocks = npz.read_blocks(path, key, LAYOUT_SCHEMA[key], lengths, MAX_FILE_BYTES)
    return _check_blocks(path, blocks)


def _check_blocks(path: str, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Yields blocks of a file's features, after `check_config_values`."""
    first = 0
    for block in blocks:
        check_config_values(path, block, first)
        yield block
        first += len(block)


def check_config_values(path: str, features: np.ndarray, first: int = 0) -> None:
    """Makes sure that features are whole numbers from -1 to 127.

    Args:
        features: [configurations, k, 18] of any number type.
        first: the number of the first of these configurations.

    Raises:
        ValueError: a feature is not; names its configuration and node.
    """
    if not features.size:
        return
    # Each pass is one that NumPy vectorises; NaN fails the comparisons.
    if (
        features.min() >= LOWEST
        and features.max() <= HIGHEST
        and (features.dtype.kind != 'f' or (np.rint(features) == features).all())
    ):
        return
    wrong = ~((features >= LOWEST) & (features <= HIGHEST))
    if features.dtype.kind == 'f':
        wrong |= np.rint(features) != features
    config, node, column = np.argwhere(wrong)[0]
    raise ValueError(
        f'{path}: node_config_feat has {features[config, node, column]} in '
        f'configuration {first + config}, configurable node {node}, column '
        f'{column}; it must be a whole number from {LOWEST} to {HIGHEST}'
    )


def _check_program(path: str, arrays: dict[str, Any], whole: bool = True) -> None:
    """Checks arrays as `LayoutRecord.check`; reshapes node_splits to [1, s]."""
    graph_files.check_graph(path, arrays)
    nodes = len(arrays['node_feat'])
    ids, counts = np.unique(arrays['node_config_ids'], return_counts=True)
    if not len(ids):
        raise ValueError(
            f'{path}: node_config_ids is empty: it must name a node, or '
            'there is nothing to choose'
        )
    if counts.max() > 1:
        raise ValueError(
            f'{path}: node_config_ids has node {ids[counts > 1][0]} '
            f'{counts[counts > 1][0]} times; each node must be there once'
        )
    if whole:
        graph_files.check_runtimes(path, 'config_runtime', arrays['config_runtime'])
    splits = arrays['node_splits']
    if splits.ndim != 1 and splits.shape[:-1] != (1,):
        raise ValueError(
            f'{path}: node_splits has shape {splits.shape}, must be [s] or [1, s]'
        )
    splits = splits.reshape(1, -1)
    if (
        not splits.size
        or splits[0, 0] != 0
        or splits[0, -1] != nodes
        or (np.diff(splits) < 0).any()
    ):
        text = ', '.join(str(value) for value in splits[0, :10])
        raise ValueError(
            f'{path}: node_splits is [{text}{", ..." * (splits.size > 10)}], '
            f'must ascend from 0 to {nodes}, the number of nodes'
        )
    arrays['node_splits'] = splits
