"""Raw files with candidate configurations in, ranked lists out.

outcome = outcomes.Outcome()
predictor = predict.load_predictor('latest', prediction.DataOptions())
for ranked in rank_files(['kernels.pb'], predictor, outcome):
    print(ranked.module, ranked.config(0))
"""

import dataclasses
import difflib
import os
import tempfile
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from baselines import text
from baselines.data import raw as raw_lib
from baselines.data.layout import store as layout_store
from baselines.data.tile import memory_store
from baselines.data.tile import records
from baselines.extraction import outcomes
from baselines.hlo import candidates as candidates_lib
from baselines.hlo import graph
from baselines.hlo import layout as hlo_layout
from baselines.hlo import reading
from baselines.hlo import schema
from baselines.hlo import tile as hlo_tile
from baselines.hlo import words
from baselines.ranking import choices
from baselines.tasks import prediction
from baselines.tasks import task

# Kernels are scored together, for every group costs a second of compiling.
# Features of so many nodes take 600 MB, of configurations 100 MB.
_GROUP_ROWS = 1 << 20


# A file and one of its modules.
_Module = Tuple[str, Any]


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
        paths: the files, of the collection that the run is of.
        predictor: the run.
        outcome: is told what cannot be ranked.
        module: only this one, by its name or graph id.
        candidates: configurations in place of the files' runs, as in
            `hlo.candidates`; files may then be HloModuleProtos, too.

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
    rank = {reading.TILE: _rank_tiles, reading.LAYOUT: _rank_layouts}[kind]
    yield from rank(modules, predictor, outcome)


def _rank_tiles(
    modules: Iterable[_Module],
    predictor: prediction.Predictor,
    outcome: outcomes.Outcome,
) -> Iterator[choices.Ranked]:
    group: List[Tuple[records.TileRecord, Dict[str, Any]]] = []
    rows = 0
    for path, tuning in modules:
        with outcome.noting(path, tuning.module.name):
            record, about = _tile_module(path, tuning, predictor, outcome)
            group.append((record, about))
            rows += record.num_nodes + record.num_configs
        if rows >= _GROUP_ROWS:
            yield from _scored_tiles(group, predictor)
            group, rows = [], 0
    if group:
        yield from _scored_tiles(group, predictor)


def _tile_module(
    path: str, tuning: Any, predictor: prediction.Predictor, outcome: outcomes.Outcome
) -> Tuple[records.TileRecord, Dict[str, Any]]:
    """Returns a kernel, and what `Ranked.from_scores` wants to know of it."""
    reason = hlo_tile.why_unusable(tuning, measured=False)
    if reason:
        raise outcomes.Skip(reason)
    nodes, named = _graph(tuning, predictor, outcome)
    configs = hlo_tile.extract_configs(tuning, predictor.variant.pad, measured=False)
    record = raw_lib.record_of(raw_lib.graph_id(tuning), nodes, configs, named)
    return record, _about(
        path,
        record,
        configs,
        lambda run: words.tile_json(tuning.runs[run]),
        words.tile_words,
    )


def _scored_tiles(group, predictor) -> Iterator[choices.Ranked]:
    sources = list(dict.fromkeys(about['source'] for _, about in group))
    source = sources[0]
    if len(sources) > 1:
        source += f' and {len(sources) - 1} more'
    store = memory_store.tile_store(source, [record for record, _ in group])
    for scores, (_, about) in zip(predictor.score(store), group):
        yield choices.Ranked.from_scores(scores, **about)


def _rank_layouts(
    modules: Iterable[_Module],
    predictor: prediction.Predictor,
    outcome: outcomes.Outcome,
) -> Iterator[choices.Ranked]:
    for path, tuning in modules:
        # Configurations are packed in a file, and mapped as they are scored.
        with tempfile.TemporaryDirectory(prefix='tpugraphs_rank_') as folder:
            found = None
            with outcome.noting(path, tuning.module.name):
                found = _layout_module(folder, path, tuning, predictor, outcome)
            if found:
                store, about = found
                [scores] = predictor.score(store)
                yield choices.Ranked.from_scores(scores, **about)


def _layout_module(
    folder: str,
    path: str,
    tuning: Any,
    predictor: prediction.Predictor,
    outcome: outcomes.Outcome,
) -> Tuple[layout_store.LayoutStore, Dict[str, Any]]:
    """Returns a program, and what `Ranked.from_scores` wants to know of it."""
    nodes, named = _graph(tuning, predictor, outcome)
    configs = hlo_layout.extract_configs(tuning, len(nodes.node_opcode), False)
    if len(configs.run_index) < 2:
        raise outcomes.Skip('only one run without error mark')
    record = raw_lib.record_of(raw_lib.graph_id(tuning), nodes, configs, named)
    ids, default = configs.node_config_ids.tolist(), None
    if configs.default is not None:
        default = tuning.runs[int(configs.run_index[configs.default])]
    about = _about(
        path,
        record,
        configs,
        lambda run: words.layout_json(tuning.runs[run], ids, default),
        words.layout_words,
    )
    # A file does not mix measured configurations with others; scores do not
    # depend on it.
    record = dataclasses.replace(
        record, config_runtime=np.zeros_like(record.config_runtime)
    )
    return layout_store.pack_alone(record, folder, os.path.basename(path)), about


def _graph(
    tuning: Any, predictor: prediction.Predictor, outcome: outcomes.Outcome
) -> Tuple[graph.Graph, bool]:
    """Returns a graph as the model knows graphs, and if its columns have names.

    Opcodes that the model has no row for get the number of unknown ones.
    """
    variant = predictor.variant
    named = variant.feature_names is not None
    nodes = graph.extract_graph(tuning.module, variant.pad, named)
    if not len(nodes.node_opcode):
        raise outcomes.Skip('no instructions')
    new = nodes.node_opcode >= predictor.num_ops
    instructions = graph.list_instructions(tuning.module)
    for row in np.flatnonzero(new | (nodes.node_opcode == schema.UNKNOWN_OPCODE)):
        name = instructions[row].opcode
        outcome.unknown_opcodes[name] = outcome.unknown_opcodes.get(name, 0) + 1
    return dataclasses.replace(
        nodes, node_opcode=np.where(new, schema.UNKNOWN_OPCODE, nodes.node_opcode)
    ), named


def _about(path: str, record, configs, in_json, in_words) -> Dict[str, Any]:
    return dict(
        module=record.graph_id,
        source=path,
        nodes=record.num_nodes,
        words=lambda run: in_words(in_json(run)),
        as_json=in_json,
        run_index=configs.run_index,
        runtimes=configs.config_runtime,
        default=configs.default,
    )


def _modules(
    paths: Sequence[str],
    kind: str,
    wanted: Optional[str],
    outcome: outcomes.Outcome,
    bare: bool,
) -> Iterator[_Module]:
    """Yields the modules of files, or the wanted one; names wrong files.

    Raises:
        ValueError: no module is the wanted one.
    """
    found, names = False, []
    for number, path in enumerate(paths, start=1):
        try:
            if bare:
                raw = reading.read_modules(path, kind)
            else:
                raw = reading.read_tuning(path)
            _check_kind(raw, kind)
        except (ValueError, OSError) as error:
            outcome.failed.append(text.one_line(error, path))
            continue
        title = f'reading {os.path.basename(path)} ({number}/{len(paths)})'
        for tuning in task.with_bar(raw.modules, len(raw.modules), title, 'module'):
            name = tuning.module.name
            if (
                wanted in (None, name, raw_lib.safe_name(name))
                or raw_lib.graph_id(tuning) == wanted
            ):
                found = True
                yield path, tuning
            else:
                names.append(name)
    if wanted is not None and not found and names:
        near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.3)
        raise ValueError(
            f'--module: none of {len(names)} modules is called {wanted!r}; '
            f'there is {(near or names)[0]!r}'
        )


def _check_kind(raw: reading.RawFile, kind: str) -> None:
    if raw.kind != kind:
        raise ValueError(
            f'{raw.path}: is a {raw.kind} file, and the model ranks {kind} '
            f'files; give a model that was trained on {raw.kind}s'
        )
