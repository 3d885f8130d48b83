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
from baselines.data.packed import packer
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

# Nodes and configurations that are scored together, since every group costs a second of
# compiling.  Features of so many nodes take 600 MB, of configurations 100 MB.
_GROUP_ROWS = 1 << 20

# Configurations that replace those of files, as `hlo.candidates` reads them.
Candidates = Sequence[Mapping[str, Any]] | None
# A file or program and one of its modules, a ModuleTuningData.
Module = tuple[str, 'protos.ModuleTuningData']
_Record = raw_lib.Record
RECORDS = tile_records.TileRecord, layout_records.LayoutRecord


# Makes a RankedModule from its scores and what `_rank` knows.
_Unscored = Callable[..., choices.RankedModule]


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
    if predictor.run:
        other = hardware.describe_difference(predictor.name, predictor.run.info)
        if other:
            text.note(other)
    kind = predictor.collection.task
    # A program of layouts may be larger than many kernels.
    most = _GROUP_ROWS if kind == reading.TILE else 0
    group = _Group(predictor)
    for source, tuning in modules:
        if candidates is not None:
            tuning = candidates_lib.make_tuning_data(tuning, candidates, kind)
        with outcome.note_failures(source, tuning.module.name):
            group.add(source, tuning, outcome)
        if group.rows > most:
            yield from group.rank_graphs(source)
            group = _Group(predictor)
    if group.rows:
        yield from group.rank_graphs(source)


class _Group:
    """Graphs that are scored together.

    Attributes:
        rows: number of their nodes and configurations.
    """

    def __init__(self, predictor: prediction.Predictor):
        self._predictor, self.rows = predictor, 0
        self._release = hardware.find_release()
        self._packer = packer.Packer(packer.Writer(), predictor.task.store_class)
        self._graphs: list[_Unscored] = []

    def add(
        self, source: str, tuning: protos.ModuleTuningData, outcome: outcomes.Outcome
    ) -> None:
        """Adds the graph of a module, or raises Skip if it has nothing to rank."""
        kind, scorer = self._predictor.collection.task, self._predictor.scorer
        if kind == reading.TILE:
            reason = tile_configs.explain_unusable(tuning, measured=False)
            if reason:
                raise outcomes.Skip(reason)
        pad, extra = scorer.variant.pad, scorer.reads_extra
        nodes = graph_lib.extract_graph(tuning.module, pad, extra)
        count = len(nodes.node_opcode)
        if not count:
            raise outcomes.Skip('no instructions')
        _count_unknown_opcodes(scorer.num_ops, nodes, tuning.module, outcome)
        configs = raw_lib.extract_configs(kind, tuning, nodes, measured=False)
        if len(configs.run_index) < 2:
            raise outcomes.Skip('only one run without error mark')
        name = raw_lib.name_graph(tuning)
        record = raw_lib.record_of(name, nodes, configs, xla_release=self._release)
        self._packer.add(record)
        self.rows += count + len(configs.run_index)
        self._graphs.append(
            functools.partial(
                choices.RankedModule,
                module=name,
                source=source,
                nodes=count,
                run_index=configs.run_index,
                runtimes=configs.config_runtime,
                default=configs.default,
                hlo=tuning.module,
                as_json=_runs_as_json(tuning, configs),
            )
        )

    def rank_graphs(self, source: str) -> Iterator[choices.RankedModule]:
        """Scores the graphs, and yields their rankings; `source` names the work."""
        predictor = self._predictor
        store = predictor.task.store_class.from_packer(source, self._packer)
        for members, unscored in zip(predictor.score_members(store), self._graphs):
            yield _rank(predictor, members, unscored)


def _rank(
    predictor: prediction.Predictor,
    members: tuple[np.ndarray, ...],
    unscored: _Unscored,
) -> choices.RankedModule:
    """Ranks a graph's configurations by the mean of the members' scores."""
    is_tile = predictor.collection.task == reading.TILE
    # The members are the graph model and the trees of a run; what their agreement
    # tells is known of tiles.
    both = is_tile and len(members) > 1
    return unscored(
        scores=predictor.scorer.mean(members),
        as_text=tile_configs.format_tile if is_tile else layout_configs.format_layout,
        agreement=ensembles.compute_agreement(members) if both else None,
    )


def _count_unknown_opcodes(
    num_ops: int,
    nodes: graph_lib.Graph,
    module: protos.HloModuleProto,
    outcome: outcomes.Outcome,
) -> None:
    """Counts the nodes of a graph whose opcodes the model takes for the unknown one.

    Args:
        num_ops: the model knows the opcodes below it.
    """
    opcodes = nodes.node_opcode
    is_unknown = (opcodes >= num_ops) | (opcodes == schema.UNKNOWN_OPCODE)
    # In the order of the nodes, with the opcodes as text.
    instructions = graph_lib.list_instructions(module)
    for row in np.flatnonzero(is_unknown):
        name = instructions[row].opcode
        outcome.unknown_opcodes[name] = outcome.unknown_opcodes.get(name, 0) + 1


def _runs_as_json(
    tuning: protos.ModuleTuningData, configs: raw_lib.Configs
) -> Callable[[int], text.JsonObject]:
    """Returns a function from the number of a run to its configuration as JSON."""
    runs = tuning.runs
    if isinstance(configs, tile_configs.TileConfigs):
        return lambda run: tile_configs.tile_json(runs[run])
    ids, default = configs.node_config_ids.tolist(), None
    if configs.default is not None:
        default = runs[int(configs.run_index[configs.default])]
    return lambda run: layout_configs.describe_layout(runs[run], ids, default)


def _rows_as_json(record: _Record) -> Callable[[int], text.JsonObject]:
    """Returns a function from a row of a record to its configuration as JSON."""
    if isinstance(record, tile_records.TileRecord):
        tiles, pad = record.config_feat, record.pad
        return lambda row: tile_configs.tile_row_json(tiles[row], pad)
    layouts, ids = record.node_config_feat, record.node_config_ids.tolist()
    return lambda row: layout_configs.describe_layout_row(layouts[row], ids)


def rank_record(
    predictor: prediction.Predictor, record: _Record, candidates: Candidates
) -> choices.RankedModule:
    """Ranks the configurations of a record, or candidates instead of them."""
    if candidates is not None:
        record = with_configs(record, candidates)
    members = predictor.score_record_members(record)  # refuses what is no record
    unscored = functools.partial(
        choices.RankedModule,
        module=record.graph_id,
        source='',
        nodes=record.num_nodes,
        run_index=np.arange(record.num_configs),
        runtimes=record.config_runtime,
        default=None,
        as_json=_rows_as_json(record),
    )
    return _rank(predictor, members, unscored)


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
        f'record must be a TileRecord or LayoutRecord, not {type(record).__name__}'
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
        raise ValueError(f'configs must have shape {shape}, not {list(rows.shape)}')
    return rows.astype(np.float32)
