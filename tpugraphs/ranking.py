"""Candidate configurations in, ranked lists out: of raw files, or of what is in memory.

outcome = outcomes.Outcome()
predictor = jobs.load_predictor('latest', prediction.DataOptions())
for ranked in rank_files(['kernels.pb'], predictor, outcome):
    print(ranked.module, ranked.config(0))
"""

import collections
import contextlib
import dataclasses
import difflib
import os
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np

from baselines import phases
from baselines import text
from baselines.data import raw as raw_lib
from baselines.data.layout import records as layout_records
from baselines.data.layout import store as layout_store
from baselines.data.tile import records as tile_records
from baselines.data.tile import store as tile_store
from baselines.evaluation import choices
from baselines.hlo import candidates as candidates_lib
from baselines.hlo import config_text
from baselines.hlo import graph
from baselines.hlo import layout as hlo_layout
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.hlo import schema
from baselines.hlo import tile as hlo_tile
from baselines.runs import prediction
from tpugraphs.extract import outcomes
from tpugraphs.measure import proposals
from tpugraphs.programs import reader

# Kernels are scored together, for every group costs a second of compiling.
# Features of so many nodes take 600 MB, of configurations 100 MB.
_GROUP_ROWS = 1 << 20
# Configurations of a kernel that comes without any, and the seed they are drawn with.
_CANDIDATES = 200
_SEED = 0

_Record = Union[tile_records.TileRecord, layout_records.LayoutRecord]
# A file and one of its modules.
_Module = Tuple[str, Any]
# A kernel, and what `Ranked.from_scores` wants to know of it.
_Kernel = Tuple[_Record, Dict[str, Any]]


def rank(
    predictor: prediction.Predictor,
    what: Any,
    candidates: Optional[Sequence[Mapping[str, Any]]] = None,
) -> Tuple[List[choices.Ranked], outcomes.Outcome]:
    """Ranks the configurations of raw files, records or an HLO module.

    Args:
        predictor: the run.
        what: a path of raw files and programs or several, a record or several, an
            HloModuleProto, or what `read_program` returns.
        candidates: configurations in place of those that come with it, as in
            `hlo.candidates`.

    Raises:
        ValueError: there is nothing to rank; says why.
    """
    outcome = outcomes.Outcome()
    if isinstance(what, reader.Program) or hasattr(what, 'SerializeToString'):
        program = reader.read_program(what)
        found = _rank_program(predictor, program, candidates, outcome)
    else:
        alone = isinstance(what, (str, os.PathLike, *prediction.RECORDS.values()))
        if not alone and not isinstance(what, Iterable):
            raise ValueError(
                'to rank are paths of raw files, records or a program, not '
                f'{type(what).__name__}'
            )
        items = [what] if alone else list(what)
        if items and all(isinstance(item, (str, os.PathLike)) for item in items):
            paths = reader.find_sources([os.fspath(item) for item in items])
            found = list(rank_files(paths, predictor, outcome, candidates=candidates))
        else:
            found = [_rank_record(predictor, item, candidates) for item in items]
    if not found:
        raise ValueError(outcome.nothing())
    return found, outcome


def task_of(paths: Sequence[str], candidates: Optional[Sequence[Any]] = None) -> str:
    """Tells which runs rank raw files: those of 'tile' or 'layout'.

    Args:
        paths: the files; the first whole one decides.
        candidates: configurations in place of the files' runs, which decide first.

    Returns:
        '' where none tells.
    """
    if candidates:
        layouts = isinstance(candidates[0], Mapping) and 'layouts' in candidates[0]
        return reading.LAYOUT if layouts else reading.TILE
    for path in paths:
        with contextlib.suppress(ValueError, OSError):  # told of when it is ranked
            if reader.is_tuning_data(path):
                return reading.read_tuning(path).kind
    return ''


def rank_files(
    paths: Sequence[str],
    predictor: prediction.Predictor,
    outcome: outcomes.Outcome,
    module: Optional[str] = None,
    candidates: Optional[Sequence[Any]] = None,
) -> Iterator[choices.Ranked]:
    """Ranks the configurations of every module of raw files.

    Ranked are all runs without error mark, measured or not.

    Args:
        paths: files of the collection that the run is of, and programs as of
            `reader.read_program`, which are cut into kernels.
        predictor: the run.
        outcome: is told what cannot be ranked.
        module: only this one, by its name or graph id.
        candidates: configurations in place of the files' runs, as in
            `hlo.candidates`; programs are then ranked whole.

    Yields:
        Modules in the order of the files.

    Raises:
        ValueError: there is no such module, or a candidate is not as it should be.
    """
    kind = predictor.collection.task
    modules = _modules(paths, kind, module, outcome, candidates is not None)
    yield from rank_modules(modules, predictor, outcome, candidates)


def rank_modules(
    modules: Iterable[_Module],
    predictor: prediction.Predictor,
    outcome: outcomes.Outcome,
    candidates: Optional[Sequence[Any]] = None,
) -> Iterator[choices.Ranked]:
    """The same for modules in memory: pairs (where it is from, ModuleTuningData)."""
    kind = predictor.collection.task
    if candidates is not None:
        modules = (
            (path, candidates_lib.tuning_data(tuning, candidates, kind))
            for path, tuning in modules
        )
    ranker = _Ranker(predictor, outcome)
    yield from {reading.TILE: ranker.tiles, reading.LAYOUT: ranker.layouts}[kind](
        modules
    )


class _Ranker:
    """Ranks modules with a run, and tells an outcome what cannot be ranked."""

    def __init__(self, predictor: prediction.Predictor, outcome: outcomes.Outcome):
        self._predictor, self._outcome = predictor, outcome
        self._named = predictor.variant.feature_names is not None

    def tiles(self, modules: Iterable[_Module]) -> Iterator[choices.Ranked]:
        group: List[_Kernel] = []
        rows = 0
        for path, tuning in modules:
            with self._outcome.noting(path, tuning.module.name):
                record, about = self._kernel(path, tuning)
                group.append((record, about))
                rows += record.num_nodes + record.num_configs
            if rows >= _GROUP_ROWS:
                yield from self._scored(group)
                group, rows = [], 0
        if group:
            yield from self._scored(group)

    def _kernel(self, path: str, tuning: Any) -> _Kernel:
        reason = hlo_tile.why_unusable(tuning, measured=False)
        if reason:
            raise outcomes.Skip(reason)
        nodes, pad = self._graph(tuning), self._predictor.variant.pad
        configs = hlo_tile.extract_configs(tuning, pad, measured=False)
        record = raw_lib.record_of(
            raw_lib.graph_id(tuning), nodes, configs, self._named
        )

        def in_json(run: int) -> Dict[str, Any]:
            return config_text.tile_json(tuning.runs[run])

        runs = configs.run_index, configs.default
        return record, _about(path, record, *runs, in_json)

    def _scored(self, group: List[_Kernel]) -> Iterator[choices.Ranked]:
        sources = list(dict.fromkeys(about['source'] for _, about in group))
        kernels = [record for record, _ in group]
        store = tile_store.TileStore.of_records(text.listed(sources, 1), kernels)
        for scores, (_, about) in zip(self._predictor.score(store), group):
            yield choices.Ranked.from_scores(scores, **about)

    def layouts(self, modules: Iterable[_Module]) -> Iterator[choices.Ranked]:
        for path, tuning in modules:
            found = None
            with self._outcome.noting(path, tuning.module.name):
                record, about = self._program(path, tuning)
                name = os.path.basename(path)
                found = layout_store.LayoutStore.of_records(name, [record])
            if found:
                [scores] = self._predictor.score(found)
                yield choices.Ranked.from_scores(scores, **about)

    def _program(self, path: str, tuning: Any) -> Tuple[Any, Dict[str, Any]]:
        """The same for layouts."""
        nodes = self._graph(tuning)
        configs = hlo_layout.extract_configs(tuning, len(nodes.node_opcode), False)
        if len(configs.run_index) < 2:
            raise outcomes.Skip('only one run without error mark')
        record = raw_lib.record_of(
            raw_lib.graph_id(tuning), nodes, configs, self._named
        )
        ids, default = configs.node_config_ids.tolist(), None
        if configs.default is not None:
            default = tuning.runs[int(configs.run_index[configs.default])]

        def in_json(run: int) -> Dict[str, Any]:
            return config_text.layout_json(tuning.runs[run], ids, default)

        runs = configs.run_index, configs.default
        about = _about(path, record, *runs, in_json)
        # A file does not mix measured configurations with others; scores do not
        # depend on it.
        unmeasured = np.zeros_like(record.config_runtime)
        return dataclasses.replace(record, config_runtime=unmeasured), about

    def _graph(self, tuning: Any) -> graph.Graph:
        """Returns a graph as the model knows graphs.

        Opcodes that the model has no row for get the number of unknown ones.
        """
        pad, counts = self._predictor.variant.pad, self._outcome.unknown_opcodes
        nodes = graph.extract_graph(tuning.module, pad, self._named)
        if not len(nodes.node_opcode):
            raise outcomes.Skip('no instructions')
        new = nodes.node_opcode >= self._predictor.num_ops
        instructions = graph.list_instructions(tuning.module)
        for row in np.flatnonzero(new | (nodes.node_opcode == schema.UNKNOWN_OPCODE)):
            name = instructions[row].opcode
            counts[name] = counts.get(name, 0) + 1
        known = np.where(new, schema.UNKNOWN_OPCODE, nodes.node_opcode)
        return dataclasses.replace(nodes, node_opcode=known)


def _about(
    source: str,
    record: _Record,
    run_index: np.ndarray,
    default: Optional[int],
    in_json: Callable[[int], Dict[str, Any]],
) -> Dict[str, Any]:
    """Returns what `Ranked.from_scores` wants to know beside scores."""
    tile = isinstance(record, tile_records.TileRecord)
    in_words = config_text.tile_text if tile else config_text.layout_text
    return dict(
        module=record.graph_id,
        source=source,
        nodes=record.num_nodes,
        words=lambda run: in_words(in_json(run)),
        as_json=in_json,
        run_index=run_index,
        runtimes=record.config_runtime,
        default=default,
    )


def _modules(
    sources: Sequence[str],
    kind: str,
    wanted: Optional[str],
    outcome: outcomes.Outcome,
    bare: bool,
) -> Iterator[_Module]:
    """Yields the modules of files and programs, or the wanted one; names wrong ones.

    Args:
        sources: as of `reader.find_sources`.
        kind: 'tile' or 'layout'.
        wanted: the name or graph id of the only one to yield; None for all.
        outcome: is told what is wrong.
        bare: whether configurations do not matter: programs are then yielded whole.

    Raises:
        ValueError: no module is the wanted one.
    """
    there, names = False, []
    for number, source in enumerate(sources, start=1):
        try:
            modules = _modules_of(source, kind, outcome, bare)
        except (ValueError, OSError) as error:
            outcome.failed.append(text.one_line(error, source))
            continue
        title = f'reading {os.path.basename(source)} ({number}/{len(sources)})'
        for tuning in phases.each(modules, title, len(modules), 'module'):
            name = tuning.module.name
            if (
                wanted in (None, name, raw_lib.safe_name(name))
                or raw_lib.graph_id(tuning) == wanted
            ):
                there = True
                yield source, tuning
            else:
                names.append(name)
    if wanted is not None and not there and names:
        near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.3)
        raise ValueError(
            f'--module: none of {len(names)} modules is called {wanted!r}; '
            f'there is {(near or names)[0]!r}'
        )


def _modules_of(
    source: str, kind: str, outcome: outcomes.Outcome, bare: bool
) -> Sequence[Any]:
    """Returns the ModuleTuningData of a file or program.

    Raises:
        ValueError: it holds none, or one of the other kind.
        OSError: it cannot be read.
    """
    if not reader.is_tuning_data(source):
        return _kernels_of(reader.read_program(source), kind, outcome, bare)
    raw = reading.read_tuning(source)
    if raw.kind != kind and not bare:
        raise ValueError(
            f'is a {raw.kind} file, and the model ranks {kind} files; give a '
            f'model that was trained on {raw.kind}s'
        )
    return raw.modules


def _kernels_of(
    program: reader.Program, kind: str, outcome: outcomes.Outcome, bare: bool
) -> List[Any]:
    """Returns a program's kernels with candidates; or, without them, itself.

    Raises:
        ValueError: see `proposals.tunings`.
    """
    if bare:
        return [protos.protos().ModuleTuningData(module=program.module)]
    skipped: collections.Counter[str] = collections.Counter()
    made = list(proposals.tunings(program, kind, _CANDIDATES, _SEED, skipped))
    for reason, count in skipped.items():
        where = text.count(count, 'kernel') + f' of {program.name}'
        outcome.skipped.setdefault(reason, []).append(where)
    return made


def _rank_program(
    predictor: prediction.Predictor,
    program: reader.Program,
    candidates: Optional[Sequence[Mapping[str, Any]]],
    outcome: outcomes.Outcome,
) -> List[choices.Ranked]:
    kind, bare = predictor.collection.task, candidates is not None
    kernels = _kernels_of(program, kind, outcome, bare)
    modules = [(program.source, tuning) for tuning in kernels]
    return list(rank_modules(modules, predictor, outcome, candidates))


def _rank_record(
    predictor: prediction.Predictor,
    record: _Record,
    candidates: Optional[Sequence[Mapping[str, Any]]],
) -> choices.Ranked:
    if candidates is not None:
        record = with_configs(record, candidates)
    scores = predictor.score_record(record)

    def in_json(number: int) -> Dict[str, Any]:
        if isinstance(record, tile_records.TileRecord):
            return config_text.tile_row_json(record.config_feat[number], record.pad)
        ids = record.node_config_ids.tolist()
        return config_text.layout_row_json(record.node_config_feat[number], ids)

    about = _about('', record, np.arange(record.num_configs), None, in_json)
    return choices.Ranked.from_scores(scores, **about)


def with_configs(record: _Record, configs: Any) -> _Record:
    """Returns a record with other configurations, not measured.

    Args:
        record: a `TileRecord` or `LayoutRecord`.
        configs: of a tile float32 [c, 24], or candidates as in `hlo.candidates`;
            of layouts [c, k, 18].

    Raises:
        ValueError: it is no record, there is no configuration, or they do not have
            that shape.
    """
    if not isinstance(record, tuple(prediction.RECORDS.values())):
        raise ValueError(
            f'record should be a TileRecord or LayoutRecord, not '
            f'{type(record).__name__}'
        )
    tile = isinstance(record, tile_records.TileRecord)
    pad = record.pad if isinstance(record, tile_records.TileRecord) else None
    rows = _rows_of(configs, pad)
    if rows.ndim != (2 if tile else 3) or not len(rows):
        raise ValueError(
            f'configs should have shape {"[c, 24]" if tile else "[c, k, 18]"}, not '
            f'{list(rows.shape)}'
        )
    runtimes = np.zeros(len(rows), np.int64)
    if isinstance(record, tile_records.TileRecord):
        return dataclasses.replace(
            record,
            config_feat=rows,
            config_runtime=runtimes,
            config_runtime_normalizers=np.ones_like(runtimes),
        )
    return dataclasses.replace(record, node_config_feat=rows, config_runtime=runtimes)


def _rows_of(configs: Any, pad: Optional[int]) -> np.ndarray:
    """Makes an array of configurations; of dicts only where there is a `pad`."""
    is_list = isinstance(configs, (list, tuple))
    if pad is not None and is_list and configs and isinstance(configs[0], Mapping):
        return hlo_tile.columns_of(configs, pad)
    try:
        rows = np.asarray(configs)
        if rows.dtype.kind not in 'fiu':
            raise ValueError(f'they hold {rows.dtype}, expected numbers')
        return rows.astype(np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f'configs is no array of numbers: {error}') from None
