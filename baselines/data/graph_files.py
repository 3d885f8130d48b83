"""The fields and checks that the npz files of tiles and of layouts share.

The file formats are the published ones (docs/design-contracts.md, 1).  Integers of
any width are accepted; the result has one dtype per array, and is not checked again.
"""

from collections.abc import Mapping
import dataclasses
import html
import os
from typing import Any, ClassVar, TypeVar

import numpy as np

from baselines.core import npz
from baselines.core import text
from baselines.hlo import schema

# n nodes, m edges, c configurations, F columns.
GRAPH: Mapping[str, npz.Field] = {
    'node_feat': npz.Field('fiu', ('n', 'F'), np.float32),
    'node_opcode': npz.Field('iu', ('n',), np.int32, 0, 255, 'not an opcode'),
    'edge_index': npz.Field(
        'iu', ('m', 2), np.int32, 0, 'n', 'an edge outside the graph'
    ),
}
# Columns that the published files do not have.
EXTRA: Mapping[str, npz.Field] = {
    'node_feat_extra': npz.Field(
        'fiu', ('n', len(schema.EXTRA)), np.float32, optional=True
    )
}
# The names of columns, which older files hold.
UNREAD = ('feature_names', 'config_feature_names')
RUNTIME = npz.Field('iu', ('c',), np.int64, 0, 2**62, 'a runtime is in nanoseconds')
PAD = npz.Field(
    'iu', (), np.int64, -1, 0, 'absent list entries are 0 or -1', optional=True
)
XLA_RELEASE = npz.Field(
    'iu', (), np.int64, 0, 2**31, 'a release is 1000 x minor + patch', optional=True
)


_Record = TypeVar('_Record', bound='GraphRecord')


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class GraphRecord:
    """One graph and its configurations: the fields of records of both collections.

    Attributes:
        graph_id: the file's stem.
        node_feat: float32 [n, F].
        node_opcode: int32 [n].
        edge_index: int32 [m, 2], rows (consumer, producer) of node numbers.
        config_runtime: int64 [c], nanoseconds; all 0 where not published.
        pad: the value of absent list entries in features, 0 or -1.
        node_feat_extra: float32 [n, k], the columns `schema.EXTRA`, or None.
        schema: the arrays of its file.
        max_bytes: limit of their size, unpacked.
    """

    schema: ClassVar[Mapping[str, npz.Field]]
    max_bytes: ClassVar[int]

    graph_id: str
    node_feat: np.ndarray
    node_opcode: np.ndarray
    edge_index: np.ndarray
    config_runtime: np.ndarray
    _: dataclasses.KW_ONLY
    pad: int = 0
    node_feat_extra: np.ndarray | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return len(self.node_opcode)

    @property
    def num_configs(self) -> int:
        """Number of configurations, c."""
        return len(self.config_runtime)

    def __repr__(self) -> str:
        return (
            f'<{type(self).__name__} {self.graph_id}: '
            f'{text.count(self.num_nodes, "node")}, '
            f'{text.count(self.num_configs, "configuration")}>'
        )

    def _repr_html_(self) -> str:
        arrays = {name: getattr(self, name) for name in self.schema}
        rows = [
            [name, f'{array.dtype}', f'{list(array.shape)}']
            for name, array in arrays.items()
            if isinstance(array, np.ndarray)
        ]
        return html.escape(repr(self)) + text.make_html_table(
            [['array', 'dtype', 'shape'], *rows]
        )

    @staticmethod
    def check(path: str, arrays: dict[str, np.ndarray], whole: bool = True) -> None:
        """Checks arrays beyond their schema, and normalises them in place.

        Args:
            arrays: checked against the schema.
            whole: whether runtimes are checked, too, which scoring does not need: one
                configuration is enough for it.

        Raises:
            ValueError: an array is wrong; names it and `path`.
        """
        check_graph(path, arrays)
        if not arrays['config_feat'].size:
            missing = 'columns' if len(arrays['config_feat']) else 'configuration'
            raise ValueError(
                f'{path}: config_feat has no {missing}: there is nothing to rank'
            )
        if whole:
            check_runtimes(path, 'config_feat', arrays['config_runtime'])

    @classmethod
    def read(cls: type[_Record], path: str) -> _Record:
        """Reads and checks `<graph id>.npz`.

        Raises:
            ValueError: the file is damaged, or an array is wrong; in one line.
            OSError: the file cannot be read.
        """
        arrays = npz.read_arrays(path, cls.schema, cls.max_bytes, UNREAD)
        cls.check(path, arrays)
        return cls(**make_fields(path, arrays))

    def checked(self: _Record) -> _Record:
        """Checks all but runtimes; returns the record in the dtypes of `schema`.

        Raises:
            ValueError: an array is not what the schema says; names the record and
                the array.
        """
        arrays = self._collect_arrays(self.graph_id, whole=False)
        fields = {**make_fields('', arrays), 'graph_id': str(self.graph_id)}
        return type(self)(**fields)

    def write(self, path: str) -> None:
        """Atomically writes `<graph id>.npz` in the published dtypes.

        Scalars (`pad`, `xla_release`) are written only where they are not 0, so that
        an ordinary graph has exactly the published keys.

        Raises:
            ValueError: the record is not valid.
            OSError: the file cannot be written.
        """
        npz.write_arrays(path, convert_published(self._collect_arrays(path)))

    def _collect_arrays(self, path: str, whole: bool = True) -> dict[str, np.ndarray]:
        """Returns the record's arrays, checked; see `check`."""
        arrays = {}
        for key in self.schema:
            value = getattr(self, key)
            if value is None:
                continue
            try:
                arrays[key] = np.asarray(value)
            except (TypeError, ValueError) as error:  # rows of several lengths
                raise ValueError(f'{path}: {key} is no array: {error}') from None
        arrays = npz.check_arrays(path, arrays, self.schema)
        self.check(path, arrays, whole)
        return arrays


def convert_published(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns checked arrays in the published dtypes; without scalars that are 0."""
    arrays = {key: value for key, value in arrays.items() if value.ndim or value}
    arrays['edge_index'] = arrays['edge_index'].astype(np.int64)
    arrays['node_opcode'] = arrays['node_opcode'].astype(np.uint8)
    return arrays


def make_fields(path: str, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns the checked arrays of `<graph id>.npz` as a record has them."""
    graph_id = os.path.splitext(os.path.basename(path))[0]
    scalars = {key: int(value) for key, value in arrays.items() if not value.ndim}
    return {**arrays, **scalars, 'graph_id': graph_id}


def check_graph(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuses a graph without nodes or columns."""
    nodes, columns = arrays['node_feat'].shape
    if not nodes or not columns:
        missing = 'columns' if nodes else 'rows: the graph is empty'
        raise ValueError(f'{path}: node_feat has no {missing}')


def check_runtimes(path: str, key: str, runtimes: np.ndarray) -> None:
    """Refuses fewer than two configurations, and runtimes of which only some are 0.

    `key` is the array that messages name.
    """
    configs = len(runtimes)
    if configs < 2:
        count = 'only 1 configuration' if configs else 'no configuration'
        raise ValueError(f'{path}: {key} has {count}: there is nothing to rank')
    missing = configs - np.count_nonzero(runtimes)
    if 0 < missing < configs:
        raise ValueError(
            f'{path}: config_runtime is 0 for {missing} of {configs} '
            'configurations; either all are (not published) or none'
        )
