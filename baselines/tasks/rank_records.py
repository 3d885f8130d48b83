"""Rankings of what is in memory, for a program that asks again and again."""

import dataclasses
import functools
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from baselines.data.layout import records as layout_records
from baselines.data.tile import records as tile_records
from baselines.extraction import outcomes
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.hlo import tile as hlo_tile
from baselines.hlo import words
from baselines.ranking import choices
from baselines.tasks import prediction
from baselines.tasks import rank as rank_lib

_RECORDS = {
    reading.TILE: tile_records.TileRecord,
    reading.LAYOUT: layout_records.LayoutRecord,
}


def rank(
    predictor: prediction.Predictor,
    what: Any,
    candidates: Optional[Sequence[Mapping[str, Any]]] = None,
) -> Tuple[List[choices.Ranked], outcomes.Outcome]:
    """Ranks the configurations of raw files, records or an HLO module.

    Args:
        predictor: the run.
        what: a path of raw files or several, a record or several, or an
            HloModuleProto.
        candidates: configurations in place of those that come with it, as in
            `hlo.candidates`.

    Raises:
        ValueError: there is nothing to rank; says why.
    """
    outcome = outcomes.Outcome()
    if hasattr(what, 'computations'):
        found = _rank_module(predictor, what, candidates, outcome)
    else:
        alone = isinstance(what, (str, os.PathLike, *_RECORDS.values()))
        items = [what] if alone else list(what)
        if items and all(isinstance(item, (str, os.PathLike)) for item in items):
            paths = reading.find_files([os.fspath(item) for item in items])
            found = list(
                rank_lib.rank_files(paths, predictor, outcome, candidates=candidates)
            )
        else:
            found = [_rank_record(predictor, item, candidates) for item in items]
    if not found:
        raise ValueError(outcome.nothing())
    return found, outcome


def with_configs(record: Any, configs: Any) -> Any:
    """Returns a record with other configurations, not measured.

    Args:
        record: a `TileRecord` or `LayoutRecord`.
        configs: of a tile float32 [c, 24], or candidates as in `hlo.candidates`;
            of layouts [c, k, 18].

    Raises:
        ValueError: there is none, or they do not have that shape.
    """
    tile = isinstance(record, tile_records.TileRecord)
    if tile and len(configs) and isinstance(configs[0], Mapping):
        rows = hlo_tile.columns_of(configs, record.pad)
    else:
        rows = np.asarray(configs, np.float32)
    rank = 2 if tile else 3
    if rows.ndim != rank or not len(rows):
        raise ValueError(
            f'configs should have shape {"[c, 24]" if tile else "[c, k, 18]"}, not '
            f'{list(rows.shape)}'
        )
    runtimes = np.zeros(len(rows), np.int64)
    if tile:
        return dataclasses.replace(
            record,
            config_feat=rows,
            config_runtime=runtimes,
            config_runtime_normalizers=np.ones_like(runtimes),
        )
    if rows.shape[1] != len(record.node_config_ids):
        raise ValueError(
            f'configs are of {rows.shape[1]} nodes, but {record.graph_id} has '
            f'{len(record.node_config_ids)} configurable ones'
        )
    return dataclasses.replace(record, node_config_feat=rows, config_runtime=runtimes)


def _rank_module(
    predictor: prediction.Predictor,
    module: Any,
    candidates: Optional[Sequence[Mapping[str, Any]]],
    outcome: outcomes.Outcome,
) -> List[choices.Ranked]:
    if candidates is None:
        raise ValueError('a module has no configurations: give candidates')
    messages = protos.protos()
    # TensorFlow's own message of that name is another class.
    ours = messages.HloModuleProto.FromString(module.SerializeToString())
    modules = [(ours.name, messages.ModuleTuningData(module=ours))]
    return list(rank_lib.rank_modules(modules, predictor, outcome, candidates))


def _rank_record(
    predictor: prediction.Predictor,
    record: Any,
    candidates: Optional[Sequence[Mapping[str, Any]]],
) -> choices.Ranked:
    kind = predictor.collection.task
    if not isinstance(record, _RECORDS[kind]):
        raise ValueError(
            f'the run ranks {_RECORDS[kind].__name__}s and raw files, not '
            f'{type(record).__name__}'
        )
    if candidates is not None:
        record = with_configs(record, candidates)
    in_json, in_words = {
        reading.TILE: (_tile_json, words.tile_words),
        reading.LAYOUT: (_layout_json, words.layout_words),
    }[kind]
    in_json, runs = functools.partial(in_json, record), np.arange(record.num_configs)
    about = rank_lib.about_of('', record, runs, None, in_json, in_words)
    return choices.Ranked.from_scores(predictor.score_record(record), **about)


def _tile_json(record: tile_records.TileRecord, number: int) -> Dict[str, Any]:
    return words.tile_row_json(record.config_feat[number], record.pad)


def _layout_json(record: layout_records.LayoutRecord, number: int) -> Dict[str, Any]:
    return words.layout_row_json(
        record.node_config_feat[number], record.node_config_ids.tolist()
    )
