"""The scores of a split from the workers of a Beam runner.

Each part of the split is scored by some worker, which reads the run and the data
itself.  Its scores go into a folder of the --cache_dir, which is named after what is
scored: what broke off goes on from there.
"""

import dataclasses
import functools
import hashlib
import json
import os
import shutil
from typing import Any, List, NamedTuple
import uuid

import numpy as np

from baselines import bulk
from baselines import files
from baselines.data.packed import splits
from baselines.hlo import arrays
from baselines.runs import saved


class _Work(NamedTuple):
    """What a worker has to know to score a part of a split.

    Attributes:
        kind: the `Predictor` of the task.
        model_dir: of the run.
        models_file: a models.py beside ours; '' for none.
        data: where graphs come from, as the worker finds them.
        split: which of them.
        fingerprint: of the split.
    """

    kind: type
    model_dir: str
    models_file: str
    data: Any
    split: str
    fingerprint: str


def scores(predictor: Any, store: splits.PackedSplit) -> List[np.ndarray]:
    """Returns float32 [configurations] of each graph of a split.

    Args:
        predictor: a `Predictor` whose options name a runner; `store` is what it has
            opened last.
        store: the split.

    Raises:
        ValueError: the runner cannot be used, or a worker could not score.
    """
    options = predictor.options
    if not isinstance(predictor.models_file, str):
        raise ValueError('workers need the name of a models_file, not classes')
    data = dataclasses.replace(
        options,
        data_root=files.expand(options.data_root) if options.data_root else '',
        cache_dir=files.expand(options.cache_dir),
        runner='',
        beam_options='',
    )
    what = _Work(
        type(predictor),
        predictor.run.model_dir,
        predictor.models_file and files.expand(predictor.models_file),
        data,
        predictor.split,
        store.fingerprint,
    )
    folder = os.path.join(data.cache_dir, f'scores_{_key(predictor, what)}')
    parts = arrays.groups(store.config_counts, predictor.configs_at_once)
    items = [[int(part[0]), int(part[-1]) + 1] for part in parts]
    work = functools.partial(score_part, what=what, folder=folder)
    title = f'ranking {os.path.basename(store.source)}'
    names = bulk.each(
        work, items, folder, options.runner, options.beam_options, title, keep=True
    )
    found: List[np.ndarray] = []
    for name, (first, end) in zip(names, items):
        content = np.load(os.path.join(folder, name), allow_pickle=False)
        found += np.split(content, np.cumsum(store.config_counts[first : end - 1]))
    shutil.rmtree(folder, ignore_errors=True)
    return found


def score_part(part: List[int], what: _Work, folder: str) -> str:
    """Scores the graphs from one number up to another, on a worker.

    Returns:
        The name of the file with the scores, end to end.

    Raises:
        ValueError: the worker sees other data, or a score is not finite.
    """
    predictor, store, graphs = _opened(what)
    with predictor.checked(store):
        found = list(predictor.scores(graphs, np.arange(*part)))
    name = f'{part[0]:07d}.npy'
    with files.write_atomically(os.path.join(folder, name), 'wb') as stream:
        np.save(stream, np.concatenate(found))
    return name


@functools.lru_cache(maxsize=1)
def _opened(what: _Work) -> Any:
    """What a worker keeps from part to part: the run, the split, its graphs."""
    predictor = what.kind(saved.load(what.model_dir), what.data, what.models_file)
    store = predictor.open_split(what.split)
    if store.fingerprint != what.fingerprint:
        raise ValueError(f'{store.source}: a worker sees other data here')
    return predictor, store, predictor.scaled(store)


def _key(predictor: Any, what: _Work) -> str:
    digest = predictor.run.info.get('digest')
    # Without a digest, or with a user's code, what is there may be of another model.
    known = digest if digest and not what.models_file else uuid.uuid4().hex
    described = {**what._asdict(), 'data': dataclasses.asdict(what.data)}
    del described['kind']  # the run's task
    text = json.dumps([known, described, predictor.configs_at_once], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
