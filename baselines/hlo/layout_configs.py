"""Layout configurations of a tuned program (ModuleTuningData)."""

import collections
from collections import Counter
from collections.abc import Iterator, Sequence
import dataclasses

from google.protobuf import message
import numpy as np

from baselines.core import text
from baselines.hlo import gather
from baselines.hlo import schema

# 72 bytes of features come from as little as two bytes of protobuf.
MAX_BYTES = 16 << 30
# Features that are unpacked at a time where they are not needed all at once.
BLOCK_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class LayoutConfigs(gather.Configs):
    """The usable runs of a program, of k configurable nodes."""

    node_config_ids: np.ndarray  # int64 [k], node numbers
    # int32 [d, 18], the distinct layouts; -1 where an entry is absent
    vectors: np.ndarray
    codes: np.ndarray  # int32 [c, k], the row of `vectors` that each node has

    @property
    def node_config_feat(self) -> np.ndarray:
        """Unpacks the features of all configurations: float32 [c, k, 18]."""
        return self.vectors.astype(np.float32)[self.codes]

    def blocks(self) -> Iterator[np.ndarray]:
        """Unpacks features of configurations in order, in blocks of 16 MB."""
        vectors = self.vectors.astype(np.float32)
        row_bytes = self.codes.shape[1] * vectors[0].nbytes
        rows = max(1, BLOCK_BYTES // row_bytes)
        for start in range(0, len(self.codes), rows):
            yield vectors[self.codes[start : start + rows]]


def extract_configs(
    tuning: message.Message, num_nodes: int, measured: bool = True
) -> LayoutConfigs:
    """Returns the usable runs of a program, in stored order.

    A run counts if it has a module configuration and a profile, and no error
    mark.

    Args:
        measured: whether runs need a profile; to be ranked, they do not.

    Raises:
        ValueError: a usable run took no time, or does not fit the configurable
            nodes; the configurable nodes do not fit the graph; there is
            nothing usable.
    """
    ids = np.array(tuning.config_index_to_node, np.uint64)
    if len(ids) and ids.max() >= num_nodes:
        raise ValueError(
            f'config_index_to_node has node {ids.max()}, but the graph has '
            f'{text.count(num_nodes, "node")}'
        )
    # Runs that failed are counted, not refused: a tuner's log has some.
    usable: list[tuple[int, message.Message]] = []
    dropped: Counter[str] = collections.Counter()
    for index, run in enumerate(tuning.runs):
        reason = _explain_drop(run, measured)
        if reason:
            dropped[reason] += 1
        else:
            usable.append((index, run))
    if not usable:
        reasons = ', '.join(f'{n} {why}' for why, n in dropped.items())
        raise ValueError(f'no usable run ({reasons or "there is none at all"})')
    if not len(ids):
        raise ValueError(
            'config_index_to_node is empty: no node has a layout to choose'
        )
    # A usable run that contradicts the module is an error of the whole file.
    for index, run in usable:
        if measured and gather.time_of(run) <= 0:
            raise ValueError(
                f'run {index} took {gather.time_of(run)} ns; a usable run takes time'
            )
        if not run.module_config.HasField('layout_config'):
            raise ValueError(f'run {index} has no layout configuration')
        count = len(run.module_config.layout_config.nodes)
        if count != len(ids):
            raise ValueError(
                f'run {index} has layouts of {text.count(count, "node")}, but '
                f'config_index_to_node has {len(ids)}'
            )
    vectors, codes = _encode_layouts([run for _, run in usable], len(ids))
    return LayoutConfigs(
        node_config_ids=ids.astype(np.int64),
        vectors=vectors,
        codes=codes,
        dropped=dict(dropped),
        **gather.gather_timing(usable, 1),
    )


def _explain_drop(run: message.Message, measured: bool) -> str | None:
    """Returns why a run does not count; None if it does."""
    if not run.HasField('module_config'):
        return 'without module configuration'
    if run.error:
        return 'error'
    return 'without profile' if measured and not run.HasField('profile') else None


def _encode_layouts(
    runs: list[message.Message], num_configurable: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns `vectors` and `codes` of `LayoutConfigs`; refuses more than 16 GB."""
    size = len(runs) * num_configurable * len(schema.LAYOUT) * 4
    if size > MAX_BYTES:
        raise ValueError(
            f'{len(runs):,} runs of {num_configurable:,} nodes take {size:,} '
            f'bytes, more than the {MAX_BYTES:,} allowed'
        )
    # Nodes have few distinct layouts, so each is unpacked once.
    codes = np.empty((len(runs), num_configurable), np.int32)
    code_of: dict[bytes, int] = {}
    rows: list[list[int]] = []
    for index, run in enumerate(runs):
        for column, node in enumerate(run.module_config.layout_config.nodes):
            code = code_of.setdefault(node.SerializeToString(), len(code_of))
            if code == len(rows):
                rows.append(_make_row(node, index, column))
            codes[index, column] = code
    return np.array(rows, np.int32), codes


def _make_row(node: message.Message, index: int, column: int) -> list[int]:
    """Returns the 18 features of a node's layouts; errors name run and node entry."""
    if len(node.tensors) > len(schema.LAYOUT_ARRAYS):
        raise ValueError(
            f'usable run {index}, node entry {column} has '
            f'{len(node.tensors)} tensors; {len(schema.LAYOUT_ARRAYS)} are known '
            f'({", ".join(schema.LAYOUT_ARRAYS)})'
        )
    row: list[int] = []
    for tensor in node.tensors:
        dims = tensor.dims[: schema.RANK]
        row += dims
        row += [-1] * (schema.RANK - len(dims))
    return row + [-1] * (len(schema.LAYOUT) - len(row))


def describe_layout(
    run: message.Message, nodes: Sequence[int], default: message.Message | None = None
) -> text.JsonObject:
    """Returns e.g. {'layouts': {'12': {'output': [1, 0], 'input': [0, 1]}}}.

    Args:
        run: a ConfigProfile with layouts.
        nodes: the numbers of the configurable nodes.
        default: a ConfigProfile; only nodes that differ from it are listed.
    """
    chosen = {}
    layouts = run.module_config.layout_config.nodes
    usual = default.module_config.layout_config.nodes if default else ()
    for i, (number, layout) in enumerate(zip(nodes, layouts)):
        if i >= len(usual) or layout != usual[i]:
            arrays = zip(schema.LAYOUT_ARRAYS, layout.tensors)
            chosen[str(number)] = {name: list(tensor.dims) for name, tensor in arrays}
    return {'layouts': chosen}


def describe_layout_row(rows: np.ndarray, nodes: Sequence[int]) -> text.JsonObject:
    """Returns the layouts of `describe_layout` from the columns of a configuration.

    Args:
        rows: float32 [k, 18].
        nodes: the numbers of the k configurable nodes.
    """
    layouts = {}
    for number, row in zip(nodes, rows):
        blocks = {name: row[schema.LAYOUT.block(name)] for name in schema.LAYOUT_ARRAYS}
        layouts[str(number)] = {
            name: block[block >= 0].astype(int).tolist()
            for name, block in blocks.items()
        }
    return {'layouts': layouts}


def format_layout(configuration: text.JsonObject) -> str:
    """Formats `describe_layout`: `12: output {1,0} input {0,1}; 15: output {}`."""
    nodes = []
    for number, arrays in configuration['layouts'].items():
        layouts = [
            f'{name} {{{",".join(map(str, dims))}}}' for name, dims in arrays.items()
        ]
        nodes.append(f'{number}: {" ".join(layouts) or "-"}')
    return '; '.join(nodes) or 'as the default'
