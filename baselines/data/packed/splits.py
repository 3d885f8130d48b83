"""The base class of packed splits of tiles and of layouts."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import os
import sys
from typing import Any, TypeVar

import numpy as np

from baselines.core import files
from baselines.core import text
from baselines.core import untrusted
from baselines.data import collections
from baselines.data import graph_files
from baselines.data import shipped
from baselines.data.packed import cache
from baselines.data.packed import packer
from baselines.hlo import schema

_WITH_EXTRA = len(schema.NODE_AND_EXTRA)
SplitType = TypeVar('SplitType', bound='PackedSplit')


class PackedSplit:
    """The graphs of a split as packed arrays.

    G graphs, N nodes, M edges and C configurations in all.  Large arrays are
    memory-mapped and read-only; `np.asarray` of one is a plain view.

    Attributes:
        source: the split's folder.
        graph_ids: list of the G file stems, sorted.
        node_feat: float32 [N, F].
        node_feat_extra: float32 [E, k], the columns `schema.EXTRA` of the E nodes of
            graphs that have them.
        node_opcode: int32 [N].
        edge_index: int32 [M, 2], (consumer, producer), indices in their graph.
        config_runtime: int64 [C], nanoseconds; 0 where not published.
        node_offsets: int64 [G + 1]; graph i has nodes offsets[i]:offsets[i + 1].
        edge_offsets: int64 [G + 1].
        extra_offsets: int64 [G + 1].
        config_offsets: int64 [G + 1].
        node_min: float32 [G, F], the smallest value of each graph's columns.
        node_max: float32 [G, F].
        config_min: float32 [G, K], the same of its configurations' columns.
        config_max: float32 [G, K].
        max_opcode: int32 [G].
        pad: the value of absent list entries, 0 or -1.
        has_runtimes: whether any runtime is published.
        skipped: list of (file name, reason) of damaged files left out.
        fingerprint: hex digest of ids and contents; the same on every machine.
        manifest: entries that a packer wrote; most are above.
        arrays: all its columns by name.
        columns: column -> owner of its rows: 'graph', or 'node' where the rows of a
            graph are those between its `node_offsets`, and so on.
        collection: 'tile' or 'layout'; starts the name of a packed folder.
        noun: 'kernel' or 'program', for messages.
        record_class: the class of a graph in memory: `TileRecord` or `LayoutRecord`.
        record_arrays: the arrays of a record that are columns, too.
        version: to be raised when columns, their meaning or the checks change.
    """

    collection: str
    noun: str
    record_class: type[graph_files.GraphRecord]
    record_arrays: Sequence[str]
    version: int

    node_feat: np.ndarray
    node_feat_extra: np.ndarray
    node_opcode: np.ndarray
    edge_index: np.ndarray
    config_runtime: np.ndarray
    node_offsets: np.ndarray
    edge_offsets: np.ndarray
    extra_offsets: np.ndarray
    config_offsets: np.ndarray
    node_min: np.ndarray
    node_max: np.ndarray
    config_min: np.ndarray
    config_max: np.ndarray
    max_opcode: np.ndarray
    # Columns at the end of node_feat that say of which collection a graph is.
    flags: Sequence[str] = ()

    columns: Mapping[str, str] = {
        'node_feat': 'node',
        'node_feat_extra': 'extra',
        'node_opcode': 'node',
        'edge_index': 'edge',
        'node_min': 'graph',
        'node_max': 'graph',
        'config_min': 'graph',
        'config_max': 'graph',
        'max_opcode': 'graph',
    }

    def __init__(
        self, source: str, manifest: text.JsonObject, arrays: Mapping[str, np.ndarray]
    ):
        """Takes the manifest and columns of a packer; see `open`, `from_records`."""
        self.source = source
        self.manifest, self.arrays = manifest, arrays
        for name, owner in self.columns.items():
            column = arrays[name]
            setattr(self, name, np.asarray(column) if owner == 'graph' else column)
        for owner in {*self.columns.values()} - {'graph'}:
            name = f'{owner}_offsets'
            setattr(self, name, np.asarray(arrays[name]))
        self.graph_ids: list[str] = manifest['graph_ids']
        self.pad: int = manifest['pad']
        self.has_runtimes: bool = manifest['has_runtimes']
        self.skipped = [tuple(entry) for entry in manifest['skipped']]
        self.fingerprint: str = manifest['fingerprint']

    @classmethod
    def open(
        cls: type[SplitType],
        split_dir: str,
        cache_dir: str,
        *,
        skip_bad_files: bool = False,
        limit: int | None = None,
    ) -> SplitType:
        """Opens a split, packing it into the cache on first use.

        Args:
            split_dir: a folder of `<graph id>.npz` files.
            cache_dir: the folder of packed splits; one for all splits is fine.
            skip_bad_files: leave damaged files out, with a warning for each,
                instead of stopping at the first.
            limit: only the first so many files by name, at least 1; None means all.

        Raises:
            ValueError: the split is missing or empty, a file is damaged, or the
                files do not agree in width, padding or names.
            OSError: the cache cannot be written, or a file cannot be read.
        """
        split_dir = files.expand(split_dir)
        # The listing is part of the cache key: any change of a file leads to a new one.
        listing = _list_split(split_dir, cls, limit)
        names = [str(name) for name, *_ in listing]
        packed_now = False

        def pack(writer: packer.Writer) -> text.JsonObject:
            """Packs the files of the split; returns entries of the manifest."""
            nonlocal packed_now
            packed_now = True
            return packer.pack_files(writer, cls, split_dir, names, skip_bad_files)

        manifest, arrays = cache.open_or_build(
            files.expand(cache_dir),
            label=f'{cls.collection}-{os.path.basename(split_dir)[:40]}',
            source=[split_dir, 'all' if limit is None else str(limit)],
            listing=listing,
            version=cls.version,
            build=pack,
        )
        store = cls(split_dir, manifest, arrays)
        # Packed earlier with --skip_bad_files; without it that is an error, as when
        # packing.
        if store.skipped and not skip_bad_files:
            names = [str(name) for name, _ in store.skipped]
            raise ValueError(
                f'{store.skipped[0][1]}. In {split_dir} such files are: '
                f'{", ".join(names[:3])}{" ..." if names[3:] else ""} ({len(names)} '
                f'of {len(listing)}); replace them, or pass --skip_bad_files'
            )
        if store.skipped and not packed_now:
            print(
                f'warning: still left out, as damaged: {len(store.skipped)} of '
                f'{text.count(len(listing), "file")} of {split_dir}',
                file=sys.stderr,
            )
        return store

    @classmethod
    def open_collection(
        cls: type[SplitType],
        collection: collections.Collection,
        options: Any,
        split: str,
    ) -> SplitType:
        """Opens a split of a collection; see `open`.

        Args:
            options: places of the graphs: `prediction.Options`, or the settings of a
                training.
            split: 'train', 'valid' or 'test'.

        Raises:
            ValueError: it is missing or damaged.
            OSError: the cache cannot be written.
        """
        if options.sample_data:
            # Unpacked into the user's data folder, once.
            root = shipped.find_folder(collection.task)
            if not os.path.isdir(os.path.join(root, collection.subfolder)):
                raise ValueError(
                    f'no measured {collection.name} ships with this version; of '
                    'layouts there are those of source xla and search random'
                )
        else:
            root = files.expand(options.data_root)
        return cls.open(
            collection.locate_split(root, split),
            options.cache_dir,
            skip_bad_files=options.skip_bad_files,
            limit=collection.toy_files if options.toy_data else None,
        )

    @classmethod
    def from_records(
        cls: type[SplitType], source: str, records: Iterable[Any]
    ) -> SplitType:
        """Packs graphs in memory, in the given order.

        Args:
            records: at least one, all of one width, padding and column names, with
                the dtypes of their schema; see `GraphRecord.checked`.
        """
        packing = packer.Packer(packer.Writer(), cls)
        for record in records:
            packing.add(record)
        return cls.from_packer(source, packing)

    @classmethod
    def from_packer(
        cls: type[SplitType], source: str, packing: packer.Packer
    ) -> SplitType:
        """Takes the graphs that were packed into memory, at least one."""
        return cls(source, packing.finish(), packing.writer.arrays())

    @classmethod
    def read(cls, path: str) -> graph_files.GraphRecord:
        """Reads and checks one file.

        Raises:
            ValueError: the file is damaged; says how, in one line.
            OSError: the file cannot be read.
        """
        return cls.record_class.read(path)

    @classmethod
    def pack(cls, writer: packer.Writer, record: Any) -> dict[str, np.ndarray]:
        """Appends a graph to the columns of its arrays; returns these.

        Their content is fingerprinted.
        """
        arrays = {name: getattr(record, name) for name in cls.record_arrays}
        writer.append(**arrays, **packer.find_extremes(record, record.config_feat))
        return arrays

    def __len__(self) -> int:
        return len(self.graph_ids)

    def rows(self, owner: str, graph: int) -> slice:
        """Returns the rows of a graph in the packed arrays.

        Args:
            owner: a value of `columns`: 'graph', 'node', 'edge', 'config', ...

        Raises:
            IndexError: the index is negative or too large.
        """
        if not 0 <= graph < len(self):
            raise IndexError(f'graph {graph} of {len(self)}')
        if owner == 'graph':
            return slice(graph, graph + 1)
        offsets = getattr(self, f'{owner}_offsets')
        return slice(int(offsets[graph]), int(offsets[graph + 1]))

    def part(self, name: str, graph: int) -> np.ndarray:
        """Returns the rows of a graph in column `name`, as a view; see `rows`."""
        return np.asarray(getattr(self, name)[self.rows(self.columns[name], graph)])

    def labels(self, graph: int) -> np.ndarray:
        """Returns the measured runtimes of a graph, int64 [c] nanoseconds."""
        return self.part('config_runtime', graph)

    def default_of(self, graph: int) -> int | None:
        """Returns the compiler's own configuration of a graph; None: not known."""
        return None

    def configurations(self, graph: int) -> np.ndarray | None:
        """Numbers the different configurations of a graph.

        Returns:
            int [c], equal for equal ones; None where that is not known.
        """
        return None

    def with_opcodes_below(self: SplitType, count: int) -> SplitType:
        """Returns the split with opcodes >= `count` replaced by the unknown opcode."""
        if self.max_opcode.max() < count:
            return self
        # The embedding table of a trained model has no row for them.
        opcodes = np.asarray(self.node_opcode)
        opcodes = np.where(opcodes < count, opcodes, schema.UNKNOWN_OPCODE)
        arrays = {**self.arrays, 'node_opcode': opcodes}
        return type(self)(self.source, self.manifest, arrays)

    def with_extra(self: SplitType) -> SplitType:
        """Returns the split with `node_feat_extra` in node_feat; raises ValueError.

        Its node_feat, node_min and node_max have the columns `schema.NODE_AND_EXTRA`.
        """
        if self.node_feat.shape[1] == _WITH_EXTRA:
            return self
        if len(self.node_feat_extra) < len(self.node_feat):
            missing = np.flatnonzero(np.diff(self.extra_offsets) == 0)
            raise ValueError(
                f'{self.source}: --extra needs node_feat_extra, which '
                f'{self.graph_ids[missing[0]]} does not have ({len(missing)} of '
                f'{text.count(len(self), self.noun)}); `tpugraphs extract --extra` and '
                '`collect` write it'
            )
        # [N, F] and [N, k] -> [N, F + k], in memory; the packed columns stay.
        features = np.concatenate([self.node_feat, self.node_feat_extra], axis=1)
        # The extremes of each graph's rows, [G, F + k]; a graph has at least one node.
        starts = self.node_offsets[:-1]
        arrays = {
            **self.arrays,
            'node_feat': features,
            'node_min': np.minimum.reduceat(features, starts, axis=0),
            'node_max': np.maximum.reduceat(features, starts, axis=0),
        }
        return type(self)(self.source, self.manifest, arrays)

    def _make_fields(self, graph: int, names: Iterable[str]) -> text.JsonObject:
        """Returns the record fields of a graph: columns `names`, and what all have."""
        parts = {name: self.part(name, graph) for name in names}
        extra = self.part('node_feat_extra', graph)
        return {
            'graph_id': self.graph_ids[graph],
            'pad': self.pad,
            'node_feat_extra': extra if len(extra) else None,
            **parts,
        }

    @property
    def programs(self) -> list[str]:
        """The name of each graph's program."""
        return self.graph_ids

    @property
    def collection_of(self) -> np.ndarray:
        """int64 [G]: the place of each graph's collection among those of the split."""
        return np.zeros(len(self), np.int64)

    @property
    def config_counts(self) -> np.ndarray:
        """int64 [G]: how many configurations each graph has."""
        return np.diff(self.config_offsets)

    @property
    def group_counts(self) -> np.ndarray:
        """int64 [G]: how many configurations of each graph differ, as far as known."""
        return self.config_counts


@dataclasses.dataclass(frozen=True)
class Variant:
    """The columns and the padding of a split, by which data sets can differ.

    Raw files can be extracted in several ways (`--pad`, `--extra`).  A run records the
    columns that it was trained on, so that others are refused.  The defaults are the
    published ones, of tiles.
    """

    pad: int = 0  # the value of absent list entries, 0 or -1
    # columns of node_feat, with those of node_feat_extra for a run that was trained
    # with --extra
    node_features: int = len(schema.NODE)
    config_features: int = len(schema.TILE)  # columns of config_feat

    @property
    def extra(self) -> bool:
        """Whether the columns of node_feat_extra are among the nodes'."""
        return self.node_features == _WITH_EXTRA

    @classmethod
    def from_store(cls, store: PackedSplit) -> 'Variant':
        """Returns the variant of a split, which flags of collections do not change."""
        node_features = store.node_min.shape[1] - len(store.flags)
        return cls(store.pad, node_features, store.config_min.shape[1])

    @classmethod
    def from_json(
        cls, info: text.JsonObject, config_features: int = config_features
    ) -> 'Variant':
        """Reads the variant that a run was trained on.

        Args:
            info: the run file's object.  Runs without these keys were trained
                on published columns, as many as their normaliser has.
            config_features: number of published columns; 18 for layouts.

        Raises:
            ValueError: a value is not a number of columns, or not 0 or -1.
        """
        normalizer = info.get('normalizer')
        scaled = normalizer if isinstance(normalizer, dict) else {}
        fields: text.JsonObject = {'pad': info.get('pad', cls.pad)}
        widths = {'node': cls.node_features, 'config': config_features}
        for part, width in widths.items():
            used = scaled.get(f'{part}_used')
            width = len(used) if isinstance(used, list) else width
            fields[f'{part}_features'] = info.get(f'{part}_features', width)
        with text.locate_errors('the run file'):
            untrusted.check_fields(fields, _RULES)
        return cls(**fields)

    def to_json(self) -> text.JsonObject:
        """Returns the entries of a run file that `from_json` reads."""
        return dataclasses.asdict(self)

    def check(self, store: PackedSplit, than: str) -> PackedSplit:
        """Returns a split in this variant; raises ValueError for one in another.

        Args:
            than: ends the message 'but 140 in what ...': 'the model was trained on'.
        """
        if self.extra:
            store = store.with_extra()
        # The first difference is named; one is enough to know that the data do not fit.
        for name, actual in Variant.from_store(store).to_json().items():
            expected = getattr(self, name)
            if actual != expected:
                difference = f'absent entries are {actual} (--pad={actual})'
                if name != 'pad':
                    array = name.replace('features', 'feat')
                    difference = f'{array} has {text.count(actual, "column")}'
                raise ValueError(
                    f'{store.source}: {difference}, but {expected} in what {than}; use '
                    'data extracted in the same way, or train a model on this one'
                )
        return store


_WIDTH = lambda value: untrusted.is_int(value, 1), 'a number of columns'
_RULES: dict[str, untrusted.Rule] = {
    'pad': (lambda value: type(value) is int and value in (0, -1), '0 or -1'),
    'node_features': _WIDTH,
    'config_features': _WIDTH,
}


def _list_split(
    split_dir: str, kind: type[PackedSplit], limit: int | None
) -> cache.Listing:
    """Lists the files of a split by name, the first `limit`; there is at least one."""
    parent = os.path.dirname(split_dir)
    of_task = [c for c in collections.COLLECTIONS if c.task == kind.collection]
    meant = [c for c in of_task if parent.endswith(c.subfolder)]
    advice = (
        f'it must hold one .npz file per {kind.noun}. Point --data_root at the '
        'folder of train, valid and test; or get the published files: `tpugraphs '
        f'download --collection {meant[0].name if meant else "all"}`; or try '
        '--sample_data'
    )
    for collection in meant:
        # Without '/<subfolder>': what --data_root was.
        root = parent[: len(parent) - len(collection.subfolder) - 1]
        for other in of_task:
            # --data_root is another collection's folder.
            if other.subfolder and root.endswith(other.subfolder):
                flags = ' '.join(f'--{k}={v}' for k, v in other.flags.items())
                advice = f'{root} is of {other.name}: pass {flags}'
    if not os.path.isdir(split_dir):
        siblings = [s for s in collections.SPLITS if os.path.isdir(f'{parent}/{s}')]
        if siblings:
            advice = (
                f'its parent has only {" and ".join(siblings)}. `collect` fills all '
                'splits, given enough programs; `extract --split` divides raw files'
            )
        raise ValueError(f'{split_dir}: there is no such folder; {advice}')
    listing: cache.Listing = []
    for name in sorted(os.listdir(split_dir)):
        if name.startswith('.') or not name.endswith('.npz'):
            continue
        path = os.path.join(split_dir, name)
        # A folder or a link to nothing is listed: reading it will say so.
        state = os.stat(path) if os.path.exists(path) else os.lstat(path)
        # The last one changes even where a copy keeps the others.
        listing.append((name, state.st_size, state.st_mtime_ns, state.st_ctime_ns))
    if not listing:
        raise ValueError(f'{split_dir}: there is no .npz file in it; {advice}')
    return listing[:limit]
