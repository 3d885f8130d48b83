"""A split of the layout collection, packed once, memory-mapped from then on.

    store = LayoutStore.open('~/data/tpugraphs/npz/layout/xla/random/train', '~/cache')
    store.vectors(7)[store.group_codes(7)]  # graph 7: int8 [u, k, 18]

A configuration is a row of codes, one per configurable node, into the graph's
dictionary of distinct vectors; equal configurations share a row.  What depends
on a vector alone (scaling, embedding) is done on the dictionary, once.

A program's features are read block by block; what stays in memory until its end
are codes, one or two bytes per configuration and configurable node.
"""

from collections.abc import Iterable, Sequence
import dataclasses

import numpy as np

from baselines.data.layout import encoding
from baselines.data.layout import records
from baselines.data.packed import packer
from baselines.data.packed import splits

# A program's codes begin at a multiple, whatever their width.
_ALIGNMENT = 8
# A label is a runtime in nanoseconds divided by this, as published.
LABEL_SCALE = 1e7
# Configurations in memory that are encoded at a time.
_AT_ONCE = 256


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedProgram(records.LayoutRecord):
    """A program whose configurations are encoded; `node_config_feat` is empty."""

    configs: encoding.EncodedConfigs


def _encode(
    program: records.LayoutRecord, blocks: Iterable[np.ndarray]
) -> EncodedProgram:
    """Encodes the features of a program's configurations, [configurations, k, 18]."""
    nodes = len(program.node_config_ids)
    encoder = encoding.ConfigEncoder(program.num_configs, nodes)
    for block in blocks:
        encoder.add(block)
    return EncodedProgram(**vars(program), configs=encoder.finish())


class LayoutStore(splits.PackedSplit):
    """The programs of a split as packed arrays; made by `open` or `from_records`.

    Next to G graphs, N nodes and C configurations there are K configurable
    nodes, S segment ends, U groups of equal configurations and D distinct
    vectors in all.  Numbers of nodes, configurations and groups are counted
    within a graph.

    Attributes:
        node_config_ids: int64 [K], the configurable nodes.
        node_splits: int64 [S], 0 and the ends of the segments.
        config_group: int32 [C], the group of each configuration.
        group_first: int32 [U], the first configuration of each group.
        group_runtime: float64 [U], the mean of their runtimes.
        Offsets of the owners in `columns`, and the attributes of `PackedSplit`;
            config_min and config_max are over configurations and configurable nodes.
    """

    node_config_ids: np.ndarray
    node_splits: np.ndarray
    config_group: np.ndarray
    group_first: np.ndarray
    group_runtime: np.ndarray
    group_offsets: np.ndarray
    code_width: np.ndarray

    collection = 'layout'
    noun = 'program'
    record_class = records.LayoutRecord
    record_arrays = (
        *('node_feat', 'node_opcode', 'edge_index'),
        *('node_config_ids', 'config_runtime'),
    )
    version = 3
    columns = {
        **splits.PackedSplit.columns,
        'node_config_ids': 'config_node',
        'node_splits': 'split',
        'config_runtime': 'config',
        'config_group': 'config',
        'group_first': 'group',
        'group_runtime': 'group',
        'config_vectors': 'vector',
        'config_codes': 'code',
        'code_width': 'graph',
    }

    @classmethod
    def read(cls, path: str) -> EncodedProgram:
        record = records.read_program(path)
        return _encode(record, records.read_configs(path, record))

    @classmethod
    def pack(
        cls, writer: packer.Writer, record: records.LayoutRecord
    ) -> dict[str, np.ndarray]:
        if not isinstance(record, EncodedProgram):  # in memory
            record = record.checked()
            features = record.node_config_feat
            parts = -(-len(features) // _AT_ONCE)  # rounded up
            record = _encode(record, np.array_split(features, parts))
        configs = record.configs
        arrays = {
            **{key: getattr(record, key) for key in cls.record_arrays},
            'node_splits': record.node_splits[0],
            'config_group': configs.group,
            'config_vectors': configs.vectors,
        }
        writer.append(
            **arrays,
            group_first=configs.first,
            group_runtime=np.bincount(configs.group, record.config_runtime)
            / np.bincount(configs.group),
            config_codes=configs.codes.reshape(-1).view(np.uint8),
            code_width=np.array([configs.codes.itemsize], np.uint8),
            # Every vector of the dictionary is in some row, so this is exact.
            **packer.find_extremes(record, configs.vectors),
        )
        padding = -configs.codes.nbytes % _ALIGNMENT  # to the next multiple
        writer.append(config_codes=np.zeros(padding, np.uint8))
        return {**arrays, 'config_codes': configs.codes}

    @property
    def group_counts(self) -> np.ndarray:
        """int64 [G]: how many different configurations each graph has."""
        return np.diff(self.group_offsets)

    def configurations(self, graph: int) -> np.ndarray:
        """Returns the group of each configuration of a graph, int32 [c]."""
        return self.part('config_group', graph)

    def with_configurations(self, chosen: Sequence[np.ndarray]) -> 'LayoutStore':
        """Returns the split with only the chosen configurations, to be scored.

        Args:
            chosen: for each graph int [s], numbers of its configurations in their new
                order; repetitions are allowed.
        """
        offsets = np.cumsum([0, *map(len, chosen)])
        arrays = {
            **self.arrays,
            'config_offsets': offsets,
            **{
                name: np.concatenate(
                    [self.part(name, graph)[rows] for graph, rows in enumerate(chosen)]
                )
                for name in ('config_group', 'config_runtime')
            },
        }
        return LayoutStore(self.source, self.manifest, arrays)

    def vectors(self, graph: int) -> np.ndarray:
        """Returns int8 [d, 18], a graph's distinct vectors, as a view."""
        return self.part('config_vectors', graph)

    def group_codes(self, graph: int) -> np.ndarray:
        """Returns a graph's different configurations, as a view.

        uint8, uint16 or uint32 [u, k]: for each group and configurable node a row of
        `vectors`.
        """
        rows = self.rows('group', graph)
        nodes = self.rows('config_node', graph)
        shape = rows.stop - rows.start, nodes.stop - nodes.start
        # Codes begin at multiples of 8 bytes; there may be padding behind them.
        codes = self.part('config_codes', graph).view(f'<u{self.code_width[graph]}')
        return codes[: shape[0] * shape[1]].reshape(shape)

    def record(self, graph: int) -> records.LayoutRecord:
        """Returns the record of a graph, with all features: it may be large."""
        fields = self._make_fields(graph, (*self.record_arrays, 'node_splits'))
        vectors = self.vectors(graph).astype(np.float32)
        codes = self.group_codes(graph)[self.part('config_group', graph)]
        return records.LayoutRecord(
            node_config_feat=np.take(vectors, codes, axis=0),
            node_splits=fields.pop('node_splits')[None],
            **fields,
        )
