"""What a raw or npz file holds, in one form for both."""

import dataclasses
from typing import Any, List, Optional, Tuple

import numpy as np

from baselines import files
from baselines.data import npz
from baselines.data import raw
from baselines.data.layout import records as layout_records
from baselines.data.tile import records
from baselines.hlo import graph
from baselines.hlo import layout
from baselines.hlo import reading
from baselines.hlo import schema
from baselines.hlo import tile
from baselines.inspection import structural_hash

# Hops to which neighbourhoods are compared; published models go two or three.
_DEPTH = 3


@dataclasses.dataclass(frozen=True, eq=False)
class Content:
    """One graph and its configurations.

    Attributes:
        name: of the npz file, or that it would get.
        kind: 'tile' or 'layout'.
        opcodes: a name for each of n nodes.
        shapes: element type and dimensions of each node's result, as text.
        edges: int [m, 2], (consumer, producer).
        config_rows: [c, anything], rows are equal if configurations are;
            None if there are no usable configurations.
        runtimes: int64 [c], nanoseconds; all 0 where not published.
        default: time of the default configuration, if known.
        repeated: share of nodes equal to an earlier one, at depth 0, 1, ..; see
            `structural_hash`.
        configurable: number of nodes with a layout to choose (layout).
        feature_count: columns of node_feat.
        variant: `pad` and extra columns where not as published, in words.
        dropped: runs of a raw file that do not count.
        problem: why there are no configurations, or no graph.
    """

    name: str
    kind: str
    opcodes: Tuple[str, ...] = ()
    shapes: Tuple[str, ...] = ()
    edges: np.ndarray = dataclasses.field(
        default_factory=lambda: np.zeros((0, 2), np.int64)
    )
    config_rows: Optional[np.ndarray] = None
    runtimes: np.ndarray = dataclasses.field(
        default_factory=lambda: np.zeros(0, np.int64)
    )
    default: Optional[int] = None
    repeated: Tuple[float, ...] = ()
    configurable: int = 0
    feature_count: int = 0
    variant: str = ''
    dropped: int = 0
    problem: str = ''


def load(path: str) -> List[Content]:
    """Reads a file: one graph of an npz, every module of a raw file.

    Args:
        path: .npz or .pb; the bytes tell, not the name.

    Raises:
        ValueError: the file is neither, or damaged.
        OSError: it cannot be read.
    """
    with files.open_regular(path) as stream:
        zipped = stream.read(2) == b'PK'
    if zipped or path.endswith('.npz'):
        return [_npz_content(path)]
    file = reading.read_tuning(path)
    return [_module_content(file.kind, tuning) for tuning in file.modules]


def _npz_content(path: str) -> Content:
    with npz.explain_damage(path):
        with npz.open_archive(path, layout_records.MAX_FILE_BYTES) as archive:
            kind = 'tile'
            if 'node_config_feat.npy' in archive.namelist():
                kind = 'layout'
    default, configurable = None, 0
    if kind == 'tile':
        record = records.read_tile(path)
        rows = record.config_feat
        if record.config_runtime.any():
            default = int(np.median(record.config_runtime_normalizers))
    else:
        record = layout_records.read_layout(path)
        rows = _flat(record.node_config_feat)
        configurable = len(record.node_config_ids)
    return Content(
        name=record.graph_id,
        kind=kind,
        opcodes=_opcode_names(record.node_opcode),
        shapes=shape_texts(record.node_feat, record.pad),
        edges=record.edge_index,
        config_rows=rows,
        runtimes=record.config_runtime,
        default=default,
        repeated=_repeated(record.node_opcode, record.node_feat, record.edge_index),
        configurable=configurable,
        feature_count=record.node_feat.shape[1],
        variant=_variant(record),
    )


def _module_content(kind: str, tuning: Any) -> Content:
    """Returns what can be told of a module, with what is wrong if it is."""
    name = raw.graph_id(tuning)
    try:
        nodes = graph.extract_graph(tuning.module)
    except ValueError as error:
        return Content(name=name, kind=kind, problem=str(error))
    instructions = graph.list_instructions(tuning.module)
    found = Content(
        name=name,
        kind=kind,
        opcodes=tuple(i.opcode for i in instructions),
        shapes=shape_texts(nodes.node_feat, 0),
        edges=nodes.edge_index,
        repeated=_repeated(nodes.node_opcode, nodes.node_feat, nodes.edge_index),
        feature_count=nodes.node_feat.shape[1],
    )
    try:
        if kind == reading.TILE:
            configs: Any = tile.extract_configs(tuning)
            rows, configurable = configs.config_feat, 0
        else:
            configs = layout.extract_configs(tuning, len(instructions))
            rows = _flat(configs.node_config_feat)
            configurable = len(configs.node_config_ids)
    except ValueError as error:
        return dataclasses.replace(found, problem=str(error))
    return dataclasses.replace(
        found,
        config_rows=rows,
        runtimes=configs.config_runtime,
        default=configs.normalizer,
        configurable=configurable,
        dropped=sum(configs.dropped.values()),
    )


def _repeated(*arrays: np.ndarray) -> Tuple[float, ...]:
    classes = structural_hash.node_classes(*arrays, _DEPTH)
    return tuple(structural_hash.repeated_shares(classes))


def _flat(node_config_feat: np.ndarray) -> np.ndarray:
    return node_config_feat.reshape(len(node_config_feat), -1)


def _opcode_names(numbers: np.ndarray) -> Tuple[str, ...]:
    known = {number: name for name, number in schema.OPCODE_NUMBERS.items()}
    return tuple(known.get(n, f'opcode {n}') for n in numbers.tolist())


def shape_texts(node_feat: np.ndarray, pad: int) -> Tuple[str, ...]:
    """Returns texts such as `f32[64,128]`, as far as the features tell."""
    if node_feat.shape[1] < schema.DIMENSIONS.stop:
        return ('',) * len(node_feat)
    flags = node_feat[:, schema.TYPES]
    types = np.where(flags.any(axis=1), flags.argmax(axis=1), 0)
    # `opaque`, not `opaque_type`; the first one is no type.
    names = [kind.name.partition('_')[0] for kind in schema.ELEMENT_TYPES]
    names[0], texts = '?', []
    for kind, row in zip(types.tolist(), node_feat[:, schema.DIMENSIONS].tolist()):
        while row and row[-1] == pad:
            row.pop()
        name = names[kind]
        dims = ','.join(f'{size:.0f}' for size in row)
        texts.append(f'{name}[{dims}]' if row else name)
    return tuple(texts)


def _variant(record: Any) -> str:
    parts = []
    if record.pad:
        parts.append(f'absent entries are {record.pad}')
    if record.feature_names:
        parts.append('columns are named in the file')
    return ', '.join(parts)
