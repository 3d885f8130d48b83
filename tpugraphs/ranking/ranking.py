"""Ranks the configurations of raw files, programs and records.

outcome = outcomes.Outcome()
predictor = prediction.load('latest', prediction.Options())
for ranked in rank_files(['kernels.pb'], predictor, outcome):
    print(ranked.module, ranked.row(0))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
import functools
import os
from typing import Any

import numpy as np

from baselines.core import text
from baselines.data import raw as raw_lib
from baselines.data.layout import records as layout_records
from baselines.data.tile import records as tile_records
from baselines.evaluation import choices
from baselines.evaluation import ensembles
from baselines.hlo import candidates as candidates_lib
from baselines.hlo import config_text
from baselines.hlo import graph as graph_lib
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.hlo import schema
from baselines.hlo import tile_configs
from baselines.scoring import prediction
from baselines.scoring import scorer as scorer_lib
from tpugraphs.extract import outcomes
from tpugraphs.programs import reader
from tpugraphs.programs import xla
from tpugraphs.ranking import sources as sources_lib

# Nodes and configurations that are scored together, since every group costs a second of
# compiling.  Features of so many nodes take 600 MB, of configurations 100 MB.
_GROUP_ROWS = 1 << 20

_Record = tile_records.TileRecord | layout_records.LayoutRecord


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
        as_text = config_text.tile_text if is_tile else config_text.layout_text
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


def rank(
    predictor: prediction.Predictor,
    source: Any,
    candidates: sources_lib.Candidates = None,
) -> tuple[list[choices.RankedModule], outcomes.Outcome]:
    """Ranks the configurations of raw files, records or an HLO module.

    Args:
        source: a path of raw files and programs or several, a record or several, an
            HloModuleProto, or a `reader.Program`.
        candidates: configurations instead of its own, as in `hlo.candidates`.

    Returns:
        The ranked graphs, and the errors of files and modules that cannot be ranked.

    Raises:
        ValueError: no graph can be ranked; says why.
    """
    outcome = outcomes.Outcome()
    if isinstance(source, reader.Program) or hasattr(source, 'SerializeToString'):
        program, whole = reader.read_program(source), candidates is not None
        kernels = sources_lib.kernels_of(
            program, predictor.collection.task, outcome, whole
        )
        modules = [(program.source, tuning) for tuning in kernels]
        ranked = list(rank_modules(modules, predictor, outcome, candidates))
    else:
        records = (tile_records.TileRecord, layout_records.LayoutRecord)
        alone = isinstance(source, (str, os.PathLike, *records))
        if not alone and not isinstance(source, Iterable):
            raise ValueError(
                'to rank are paths of raw files, records or a program, not '
                f'{type(source).__name__}'
            )
        items = [source] if alone else list(source)
        if items and all(isinstance(item, (str, os.PathLike)) for item in items):
            paths = reader.find_sources([os.fspath(item) for item in items])
            ranked = list(rank_files(paths, predictor, outcome, candidates=candidates))
        else:
            ranked = [_rank_record(predictor, item, candidates) for item in items]
    if not ranked:
        raise ValueError(outcome.why_nothing())
    return ranked, outcome


def rank_files(
    paths: Sequence[str],
    predictor: prediction.Predictor,
    outcome: outcomes.Outcome,
    module: str | None = None,
    candidates: sources_lib.Candidates = None,
    sources: Mapping[str, sources_lib.Source] | None = None,
    options: reader.Options = reader.Options(),
) -> Iterator[choices.RankedModule]:
    """Ranks the configurations of every module of raw files.

    All runs without error mark are ranked, measured or not.

    Args:
        paths: files of the collection that the run is of, and programs as of
            `reader.read_program`, which are cut into kernels.
        outcome: files and modules that cannot be ranked are added.
        module: only this one, by its name or graph id.
        candidates: configurations instead of the files' runs, as in
            `hlo.candidates`; programs are then ranked whole.
        sources: those of `paths` that `sources.read_sources` has read.
        options: for reading programs.

    Yields:
        Modules in the order of the files.

    Raises:
        ValueError: there is no such module, or a candidate is not as it should be.
    """
    kind, whole = predictor.collection.task, candidates is not None
    modules = sources_lib.modules(
        paths, kind, module, outcome, whole, sources or {}, options
    )
    yield from rank_modules(modules, predictor, outcome, candidates)


def rank_modules(
    modules: Iterable[sources_lib.Module],
    predictor: prediction.Predictor,
    outcome: outcomes.Outcome,
    candidates: sources_lib.Candidates = None,
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
    release = xla.release()
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
        return config_text.tile_json(tuning.runs[run])
    default = None
    if configs.default is not None:
        default = tuning.runs[int(configs.run_index[configs.default])]
    ids = record.node_config_ids.tolist()
    return config_text.layout_json(tuning.runs[run], ids, default)


def _row_as_json(record: _Record, row: int) -> text.JsonObject:
    """Returns a configuration of a record, by its row, as a JSON object."""
    if isinstance(record, tile_records.TileRecord):
        return config_text.tile_row_json(record.config_feat[row], record.pad)
    ids = record.node_config_ids.tolist()
    return config_text.layout_row_json(record.node_config_feat[row], ids)


def _rank_record(
    predictor: prediction.Predictor, record: _Record, candidates: sources_lib.Candidates
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
        configs: for a tile float32 [c, 24], or candidates as in `hlo.candidates`;
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
