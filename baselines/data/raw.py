"""Modules of raw files (.pb) as records, which the npz files hold."""

import hashlib
import re
from typing import Any

from google.protobuf import message
import numpy as np

from baselines.data.layout import records as layout_records
from baselines.data.tile import records
from baselines.hlo import graph
from baselines.hlo import layout_configs
from baselines.hlo import reading
from baselines.hlo import schema
from baselines.hlo import tile_configs

Configs = tile_configs.TileConfigs | layout_configs.LayoutConfigs
Record = records.TileRecord | layout_records.LayoutRecord

# File systems allow 255 bytes; hash, ending and temporary names need some.
_MAX_NAME = 180


def name_graph(tuning: message.Message) -> str:
    """Returns `<module name>_<fingerprint in hex>` of a ModuleTuningData.

    The name is made safe, as the published names are.  A module without a fingerprint
    gets a hash of its bytes, so that programs with the same name stay distinct.
    """
    name = clean_name(tuning.module.name)[:_MAX_NAME]
    if not name or name.startswith('-'):  # a path that looks like a flag
        name = 'module' + name
    fingerprint = tuning.fingerprint
    if not fingerprint:
        content = tuning.module.SerializeToString(deterministic=True)
        fingerprint = int.from_bytes(hashlib.sha256(content).digest()[:8], 'big')
    return f'{name}_{fingerprint:016x}'


def clean_name(name: str) -> str:
    """Replaces all characters but letters, digits, `_` and `-` by `_`."""
    return re.sub(r'[^A-Za-z0-9_-]', '_', name)


def extract_configs(
    kind: str, tuning: message.Message, nodes: graph.Graph, measured: bool = True
) -> Configs:
    """Returns the configurations of a 'tile' or 'layout' module, its usable runs.

    Args and errors are those of `extract_configs` in `hlo.tile_configs` and
    `hlo.layout_configs`.
    """
    if kind == reading.TILE:
        return tile_configs.extract_configs(tuning, nodes.pad, measured)
    return layout_configs.extract_configs(tuning, len(nodes.node_opcode), measured)


def record_of(
    name: str,
    nodes: graph.Graph,
    configs: Configs,
    with_features: bool = True,
    xla_release: int = 0,
) -> Record:
    """Makes the record of a kernel or program.

    Args:
        with_features: for layouts, whether the features of all configurations are
            unpacked; else node_config_feat is [0, k, 18].
        xla_release: for tiles, the release that measured them; see `TileRecord`.
    """
    fields: dict[str, Any] = dict(
        graph_id=name,
        node_feat=nodes.node_feat,
        node_opcode=nodes.node_opcode.astype(np.int32),
        edge_index=nodes.edge_index.astype(np.int32),
        config_runtime=configs.config_runtime,
        pad=nodes.pad,
        node_feat_extra=nodes.node_feat_extra,
    )
    if isinstance(configs, tile_configs.TileConfigs):
        # Where no default run was measured there is nothing to divide by.
        normalizers = np.full_like(configs.config_runtime, configs.normalizer or 1)
        return records.TileRecord(
            config_feat=configs.config_feat,
            config_runtime_normalizers=normalizers,
            xla_release=xla_release,
            **fields,
        )
    empty = (0, len(configs.node_config_ids), len(schema.LAYOUT))
    return layout_records.LayoutRecord(
        node_config_ids=configs.node_config_ids,
        node_config_feat=configs.node_config_feat
        if with_features
        else np.zeros(empty, np.float32),
        node_splits=nodes.node_splits[None],
        **fields,
    )


def write_record(
    path: str, name: str, nodes: graph.Graph, configs: Configs, xla_release: int = 0
) -> None:
    """Writes the npz file of a kernel or program block by block; see `record_of`.

    Raises:
        ValueError: the record is not valid.
        OSError: the file cannot be written.
    """
    record = record_of(name, nodes, configs, False, xla_release)
    if isinstance(record, records.TileRecord):
        record.write(path)
    elif isinstance(configs, layout_configs.LayoutConfigs):
        layout_records.write_program(path, record, configs.blocks())
