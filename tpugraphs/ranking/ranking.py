"""Ranks the configurations of modules and records.

outcome = outcomes.Outcome()
predictor = prediction.load('latest', prediction.Options())
for ranked in rank_files(['kernels.pb'], predictor, outcome):
    print(ranked.module, ranked.row(0))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
import functools
from typing import Any

import numpy as np

from baselines.core import text
from baselines.data import hardware
from baselines.data import raw as raw_lib
from baselines.data.layout import records as layout_records
from baselines.data.tile import records as tile_records
from baselines.evaluation import choices
from baselines.evaluation import ensembles
from baselines.hlo import candidates as candidates_lib
from baselines.hlo import graph as graph_lib
from baselines.hlo import layout_configs
from baselines.hlo import outcomes
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.hlo import schema
from baselines.hlo import tile_configs
from baselines.scoring import prediction
from baselines.scoring import scorer as scorer_lib

# Nodes and configurations that are scored together, since every group costs a second of
# compiling.  Features of so many nodes take 600 MB, of configurations 100 MB.
_GROUP_ROWS = 1 << 20

# Configurations that replace those of files, as `hlo.candidates` reads them.
Candidates = Sequence[Mapping[str, Any]] | None
# A file or program and one of its modules, a ModuleTuningData.
Module = tuple[str, 'protos.ModuleTuningData']
_Record = raw_lib.Record
RECORDS = tile_records.TileRecord, layout_records.LayoutRecord


@dataclasses.dataclass(frozen=True, eq=False)
class _Graph:
    """A graph whose c configurations are to be ranked."""

    source: str  # the file that it is from
    record: _Record
    # from an entry of `run_index` to the configuration as a JSON object
    as_json: Callable[[int], text.JsonObject]
    run_index: np.ndarray  # int64 [c], the position of each among the file's runs
    runtimes: np.ndarray  # int64 [c], nanoseconds; 0 where not measured
    default: int | None = None  # the index of the compiler's default
    # the HloModuleProto; None of a record
    hlo: protos.HloModuleProto | None = None

    def ranked(
        self, members: tuple[np.ndarray, ...], scorer: scorer_lib.Scorer
    ) -> choices.RankedModule:
        """Ranks by the mean of the members' scores."""
        record, as_json = self.record, self.as_json
        is_tile = isinstance(record, tile_records.TileRecord)
        as_text = tile_configs.tile_text if is_tile else layout_configs.layout_text
        # Members are the graph model and the trees of a run; what their agreement tells
        # is known of tiles.
        both = is_tile and len(members) > 1
        return choices.RankedModule(
            scores=scorer.mean(members),
            module=record.graph_id,
            source=self.source,
            nodes=record.num_nodes,
            run_index=self.run_index,
            config_text=lambda run: as_text(as_json(run)),
            as_json=as_json,
            runtimes=self.runtimes,
            default=self.default,
            hlo=self.hlo,
            agreement=ensembles.agreement(members) if both else None,
        )


def rank_modules(
    modules: Iterable[Module],
    predictor: prediction.Predictor,
    outcome: outcomes.Outcome,
    candidates: Candidates = None,
) -> Iterator[choices.RankedModule]:
    """Ranks modules in memory; see `rank_files`.

    Args:
        modules: pairs (file or program, ModuleTuningData).
        outcome: modules that cannot be ranked are added.
    """
    kind = predictor.collection.task
    # A program of layouts may be larger than many kernels.
    most = _GROUP_ROWS if kind == reading.TILE else 0
    group: list[_Graph] = []
    rows = 0
    release = hardware.installed_release()
    for source, tuning in modules:
        if candidates is not None:
            tuning = candidates_lib.tuning_data(tuning, candidates, kind)
        with outcome.noting(source, tuning.module.name):
            graph = _graph_of(source, tuning, predictor, outcome, release)
            group.append(graph)
            rows += graph.record.num_nodes + graph.record.num_configs
        if rows > most:
            yield from _score(predictor, source, group)
            group, rows = [], 0
    if group:
        yield from _score(predictor, source, group)


def _score(
    predictor: prediction.Predictor, source: str, group: list[_Graph]
) -> Iterator[choices.RankedModule]:
    """Scores graphs together, and yields their rankings."""
    records = [graph.record for graph in group]
    store = predictor.task.store_class.from_records(source, records)
    for members, graph in zip(predictor.score_members(store), group):
        yield graph.ranked(members, predictor.scorer)


def _graph_of(
    source: str,
    tuning: protos.ModuleTuningData,
    predictor: prediction.Predictor,
    outcome: outcomes.Outcome,
    xla_release: int,
) -> _Graph:
    """Returns the graph of a ModuleTuningData; raises Skip if none can be ranked."""
    kind, variant = predictor.collection.task, predictor.scorer.variant
    if kind == reading.TILE:
        reason = tile_configs.why_unusable(tuning, measured=False)
        if reason:
            raise outcomes.Skip(reason)
    extra = predictor.scorer.reads_extra
    nodes = graph_lib.extract_graph(tuning.module, variant.pad, extra)
    if not len(nodes.node_opcode):
        raise outcomes.Skip('no instructions')
    _count_unknown_opcodes(predictor, nodes, tuning.module, outcome)
    configs = raw_lib.configs_of(kind, tuning, nodes, measured=False)
    if len(configs.run_index) < 2:
        raise outcomes.Skip('only one run without error mark')
    name = raw_lib.graph_id(tuning)
    record = raw_lib.record_of(name, nodes, configs, xla_release=xla_release)
    # A file does not mix measured configurations with others; scores do not depend
    # on it.
    unmeasured = np.zeros_like(configs.config_runtime)
    record = dataclasses.replace(record, config_runtime=unmeasured).checked()
    return _Graph(
        source,
        record,
        functools.partial(_run_as_json, tuning, record, configs),
        run_index=configs.run_index,
        runtimes=configs.config_runtime,
        default=configs.default,
        hlo=tuning.module,
    )


def _count_unknown_opcodes(
    predictor: prediction.Predictor,
    nodes: graph_lib.Graph,
    module: protos.HloModuleProto,
    outcome: outcomes.Outcome,
) -> None:
    """Counts the nodes of a graph whose opcodes the model takes for the unknown one."""
    opcodes = nodes.node_opcode
    is_unknown = (opcodes >= predictor.scorer.num_ops) | (
        opcodes == schema.UNKNOWN_OPCODE
    )
    # In the order of the nodes, with the opcodes as text.
    instructions = graph_lib.list_instructions(module)
    for row in np.flatnonzero(is_unknown):
        name = instructions[row].opcode
        outcome.unknown_opcodes[name] = outcome.unknown_opcodes.get(name, 0) + 1


def _run_as_json(
    tuning: protos.ModuleTuningData, record: _Record, configs: raw_lib.Configs, run: int
) -> text.JsonObject:
    """Returns the configuration of a run, by its number, as a JSON object."""
    if isinstance(record, tile_records.TileRecord):
        return tile_configs.tile_json(tuning.runs[run])
    default = None
    if configs.default is not None:
        default = tuning.runs[int(configs.run_index[configs.default])]
    ids = record.node_config_ids.tolist()
    return layout_configs.layout_json(tuning.runs[run], ids, default)


def _row_as_json(record: _Record, row: int) -> text.JsonObject:
    """Returns a configuration of a record, by its row, as a JSON object."""
    if isinstance(record, tile_records.TileRecord):
        return tile_configs.tile_row_json(record.config_feat[row], record.pad)
    ids = record.node_config_ids.tolist()
    return layout_configs.layout_row_json(record.node_config_feat[row], ids)


def rank_record(
    predictor: prediction.Predictor, record: _Record, candidates: Candidates
) -> choices.RankedModule:
    """Ranks the configurations of a record, or candidates instead of them."""
    if candidates is not None:
        record = with_configs(record, candidates)
    members = predictor.score_record_members(record)  # refuses what is no record
    graph = _Graph(
        '',
        record,
        functools.partial(_row_as_json, record),
        run_index=np.arange(record.num_configs),
        runtimes=record.config_runtime,
    )
    return graph.ranked(members, predictor.scorer)


def with_configs(record: _Record, configs: Any) -> _Record:
    """Returns a record with other configurations, not measured.

    Args:
        configs: for a tile, float32 [c, 24], or candidates as in `hlo.candidates`;
            for layouts [c, k, 18].

    Raises:
        ValueError: it is no record, there is no configuration, or the shape is wrong.
    """
    if isinstance(record, tile_records.TileRecord):
        is_list = isinstance(configs, (list, tuple)) and len(configs) > 0
        if is_list and isinstance(configs[0], Mapping):
            rows = tile_configs.columns_of(configs, record.pad)
        else:
            rows = _rows_of(configs, '[c, 24]')
        return dataclasses.replace(
            record,
            config_feat=rows,
            config_runtime=np.zeros(len(rows), np.int64),
            config_runtime_normalizers=np.ones(len(rows), np.int64),
        )
    if isinstance(record, layout_records.LayoutRecord):
        rows = _rows_of(configs, '[c, k, 18]')
        runtimes = np.zeros(len(rows), np.int64)
        return dataclasses.replace(
            record, node_config_feat=rows, config_runtime=runtimes
        )
    raise ValueError(
        f'record should be a TileRecord or LayoutRecord, not {type(record).__name__}'
    )


def _rows_of(configs: object, shape: str) -> np.ndarray:
    """Returns configurations as float32; raises ValueError for another shape."""
    try:
        rows = np.asarray(configs)
        if rows.dtype.kind not in 'fiu':
            raise ValueError(f'they hold {rows.dtype}, expected numbers')
    except (TypeError, ValueError) as error:
        raise ValueError(f'configs is no array of numbers: {error}') from None
    if rows.ndim != shape.count(',') + 1 or not len(rows):
        raise ValueError(f'configs should have shape {shape}, not {list(rows.shape)}')
    return rows.astype(np.float32)
