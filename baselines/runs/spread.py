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
from typing import Any, List, NamedTuple, Tuple
import uuid

import numpy as np

from baselines import bulk
from baselines import files
from baselines.data.packed import splits
from baselines.hlo import arrays
from baselines.runs import prediction
from baselines.runs import run_predictor
from baselines.runs import saved
from baselines.runs import tasks


class _Work(NamedTuple):
    """What a worker has to know to score a part of a split.

    Attributes:
        model_dir: of the run.
        models_file: a models.py beside ours; '' for none.
        data: where graphs come from, as the worker finds them.
        split: which of them.
        fingerprint: of the split.
    """

    model_dir: str
    models_file: str
    data: prediction.DataOptions
    split: str
    fingerprint: str


class BeamWorkers:
    """Scores splits with the workers of an Apache Beam runner.

    Args:
        runner: its name.
        options: its command-line options, in one string.
    """

    def __init__(self, runner: str, options: str):
        self._runner, self._options = runner, options

    def scores(
        self, predictor: run_predictor.RunPredictor, store: splits.PackedSplit
    ) -> List[np.ndarray]:
        """Returns float32 [configurations] of each graph of a split.

        Args:
            predictor: the run, and what it has opened last: `store`.
            store: the split.

        Raises:
            ValueError: the runner cannot be used, or a worker could not score.
        """
        what = _work(predictor, store)
        folder = os.path.join(what.data.cache_dir, f'scores_{_key(predictor, what)}')
        parts = arrays.groups(store.config_counts, predictor.task.configs_at_once)
        items = [[int(part[0]), int(part[-1]) + 1] for part in parts]
        work = functools.partial(score_part, what=what, folder=folder)
        title = f'ranking {os.path.basename(store.source)}'
        names = bulk.each(
            work, items, folder, self._runner, self._options, title, keep=True
        )
        scores: List[np.ndarray] = []
        for name, (first, end) in zip(names, items):
            content = np.load(os.path.join(folder, name), allow_pickle=False)
            scores += np.split(content, np.cumsum(store.config_counts[first : end - 1]))
        shutil.rmtree(folder, ignore_errors=True)
        return scores


def _work(predictor: run_predictor.RunPredictor, store: splits.PackedSplit) -> _Work:
    """Describes the scoring of a split to workers.

    Raises:
        ValueError: they could not import the models.
    """
    options, models_file = predictor.options, predictor.models_file
    if not isinstance(models_file, str):
        raise ValueError('workers need the name of a models_file, not classes')
    data = dataclasses.replace(
        options,
        data_root=files.expand(options.data_root) if options.data_root else '',
        cache_dir=files.expand(options.cache_dir),
        runner='',
        beam_options='',
    )
    return _Work(
        predictor.run.model_dir,
        models_file and files.expand(models_file),
        data,
        predictor.split,
        store.fingerprint,
    )


def score_part(part: List[int], what: _Work, folder: str) -> str:
    """Scores the graphs from one number up to another, on a worker.

    Returns:
        The name of the file with the scores, end to end.

    Raises:
        ValueError: the worker sees other data, or a score is not finite.
    """
    predictor, store, graphs = _opened(what)
    with tasks.verifying(store):
        found = list(predictor.scorer.scores(store, graphs, np.arange(*part)))
    name = f'{part[0]:07d}.npy'
    with files.write_atomically(os.path.join(folder, name), 'wb') as stream:
        np.save(stream, np.concatenate(found))
    return name


@functools.lru_cache(maxsize=1)
def _opened(what: _Work) -> Tuple[run_predictor.RunPredictor, splits.PackedSplit, Any]:
    """What a worker keeps from part to part: the run, the split, its graphs."""
    run = saved.Run.load(what.model_dir)
    predictor = run_predictor.RunPredictor(run, what.data, what.models_file)
    store = predictor.open_split(what.split)
    if store.fingerprint != what.fingerprint:
        raise ValueError(f'{store.source}: a worker sees other data here')
    return predictor, store, predictor.graphs(store)


def _key(predictor: run_predictor.RunPredictor, what: _Work) -> str:
    digest = predictor.run.info.get('digest')
    # Without a digest, or with a user's code, what is there may be of another model.
    known = digest if digest and not what.models_file else uuid.uuid4().hex
    described = {**what._asdict(), 'data': dataclasses.asdict(what.data)}
    text = json.dumps(
        [known, described, predictor.task.configs_at_once], sort_keys=True
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]
