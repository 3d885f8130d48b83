"""Reads raw and npz files into one form: graphs with their configurations."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from baselines.core import files
from baselines.core import text
from baselines.core import untrusted
from baselines.data import raw
from baselines.data.layout import records as layout_records
from baselines.data.layout import store as layout_store
from baselines.data.tile import records
from baselines.hlo import graph
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.hlo import schema


class Content(NamedTuple):
    """One graph and its configurations.

    Attributes:
        name: name of the npz file that has it, or would get it.
        kind: 'tile' or 'layout'.
        opcodes: the opcodes of n nodes.
        shapes: element types and dimensions of the nodes' results, as text.
        edges: int [m, 2], (consumer, producer).
        config_groups: int [c], equal numbers for configurations with equal features;
            None if no configuration is usable.
        runtimes: int64 [c], nanoseconds; all 0 where not published.
        default: nanoseconds of the default configuration; None without a time.
        configurable: number of nodes with a layout to choose (layout).
        feature_count: number of columns of node_feat.
        variant: how its features differ from published ones, human-readable, or ''.
        dropped: number of measurements of a raw file that do not count.
        problem: the reason why it has no configurations or no graph; else ''.
    """

    name: str
    kind: str
    opcodes: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    edges: np.ndarray = np.zeros((0, 2), np.int64)
    config_groups: np.ndarray | None = None
    runtimes: np.ndarray = np.zeros(0, np.int64)
    default: int | None = None
    configurable: int = 0
    feature_count: int = 0
    variant: str = ''
    dropped: int = 0
    problem: str = ''


def read_contents(path: str) -> list[Content]:
    """Reads the graph of an npz file or HLO module, or all modules of a raw file.

    Args:
        path: .npz or .pb; the content decides, not the name.

    Raises:
        ValueError: the file is neither, or is damaged.
        OSError: it cannot be read.
    """
    if is_npz(path):
        return [_read_npz(path)]
    [path] = reading.find_files([path], 'show')
    source = reading.read_source(path, 'show')
    if isinstance(source, reading.Program):
        return [describe_program(source)]
    return [_describe_module(source.kind, tuning) for tuning in source.modules]


def is_npz(path: str) -> bool:
    """Returns whether a file is an npz file, or is named like one."""
    if path.endswith('.npz'):
        return True
    path = files.expand(path)
    if not os.path.isfile(path):
        return False
    with untrusted.open_regular(path) as stream:
        return stream.read(2) == b'PK'  # a zip archive


def detect_task(path: str) -> str:
    """Returns 'tile' or 'layout' for an npz file; raises as `read_contents` does."""
    with untrusted.open_archive(path, layout_records.MAX_FILE_BYTES) as archive:
        is_layout = 'node_config_feat.npy' in archive.namelist()
    return reading.LAYOUT if is_layout else reading.TILE


def _read_npz(path: str) -> Content:
    """Reads the graph of an npz file; see `read_contents` for the errors."""
    kind, default = detect_task(path), None
    if kind == reading.LAYOUT:
        record: Any = layout_store.LayoutStore.read(path)
    else:
        record = records.TileRecord.read(path)
        if record.config_runtime.any():
            default = int(np.median(record.config_runtime_normalizers))
    names = {number: name for name, number in schema.OPCODE_NUMBERS.items()}
    opcodes = record.node_opcode.tolist()
    return Content(
        name=record.graph_id,
        kind=kind,
        opcodes=tuple(names.get(n, f'opcode {n}') for n in opcodes),
        runtimes=record.config_runtime,
        default=default,
        variant=f'absent entries are {record.pad}' if record.pad else '',
        **_describe_configurations(kind, record),
        **_describe_graph(record),
    )


def _describe_module(kind: str, tuning: protos.ModuleTuningData) -> Content:
    """Describes a module of a raw file; `problem` tells if it is damaged."""
    name = raw.name_graph(tuning)
    try:
        nodes = graph.extract_graph(tuning.module)
    except ValueError as error:
        return Content(name=name, kind=kind, problem=str(error))
    opcodes = tuple(i.opcode for i in graph.list_instructions(tuning.module))
    content = Content(name=name, kind=kind, opcodes=opcodes, **_describe_graph(nodes))
    try:
        configs = raw.extract_configs(kind, tuning, nodes)
    except ValueError as error:
        return content._replace(problem=str(error))
    return content._replace(
        runtimes=configs.config_runtime,
        default=configs.normalizer,
        dropped=sum(configs.dropped.values()),
        **_describe_configurations(kind, configs),
    )


def describe_program(program: reading.Program) -> Content:
    """Describes a program without configurations; raises ValueError if damaged."""
    nodes = graph.extract_graph(program.module)
    opcodes = tuple(i.opcode for i in graph.list_instructions(program.module))
    return Content(program.name, program.form, opcodes, **_describe_graph(nodes))


def _describe_graph(nodes: Any) -> text.JsonObject:
    """Returns the fields of `Content` on the graph of a record or module."""
    return {
        'shapes': format_shapes(nodes.node_feat, nodes.pad),
        'edges': nodes.edge_index,
        'feature_count': nodes.node_feat.shape[1],
    }


def _describe_configurations(kind: str, configs: Any) -> text.JsonObject:
    """Returns the fields of `Content` on the configurations of a record or module."""
    if kind == reading.TILE:
        return {'config_groups': _number_rows(configs.config_feat)}
    encoded = isinstance(configs, layout_store.EncodedProgram)
    groups = configs.configs.group if encoded else _number_rows(configs.codes)
    return {'config_groups': groups, 'configurable': len(configs.node_config_ids)}


def _number_rows(rows: np.ndarray) -> np.ndarray:
    """Numbers the distinct rows of [c, n]: int64 [c]."""
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def format_shapes(node_feat: np.ndarray, pad: int) -> tuple[str, ...]:
    """Reads the shapes of nodes from their features: text such as `f32[64,128]`.

    Args:
        node_feat: [n, f].
        pad: the value of absent dimensions.

    Returns:
        n texts; '' where there are fewer than the published columns.
    """
    if node_feat.shape[1] < schema.DIMENSIONS.stop:
        return ('',) * len(node_feat)
    flags = node_feat[:, schema.TYPES]  # [n, types], one-hot
    # [n], the number of each node's element type; 0, the invalid one, without a flag.
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
