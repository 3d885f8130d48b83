"""Programs in, faster configurations out: a model proposes, the clock disposes."""

import dataclasses
import json
import os
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import tqdm

from baselines import files
from baselines import text
from baselines.extraction import outcomes
from baselines.hlo import protos
from baselines.measuring import layouts
from baselines.measuring import programs as programs_lib
from baselines.measuring import session as session_lib
from baselines.measuring import tiles
from baselines.measuring import tuning
from baselines.tasks import prediction
from baselines.tasks import rank

_ITEMS = {'tile': tiles.items_of, 'layout': layouts.items_of}


@dataclasses.dataclass(frozen=True)
class Options:
    """How to tune.

    Attributes:
        model_dir: of the model that proposes; '' for random search.
        task: 'tile' or 'layout'.
        measure: configurations to measure of each kernel.
        candidates: configurations to choose from.
        minutes: of wall time; no kernel is begun after.
        online: whether to learn, in rounds, from what was measured.
        output: folder of the HloModuleProtos.
        seed: of candidates and inputs.
        limits: of the worker.
        kernels: the graph ids to tune; None for all.
    """

    output: str
    model_dir: str = ''
    task: str = 'tile'
    measure: int = 10
    candidates: int = 1000
    minutes: float = float('inf')
    online: bool = False
    seed: int = 0
    limits: session_lib.Limits = session_lib.Limits()
    kernels: Optional[Sequence[str]] = None


def tune(program: programs_lib.Program, options: Options) -> List[tuning.Tuned]:
    """Tunes the kernels of a program, or its layouts.

    Raises:
        ValueError: there is nothing to tune, or the model cannot be used.
        OSError: the output cannot be written.
    """
    began = time.monotonic()
    os.makedirs(options.output, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix='tpugraphs_tune_') as scratch:
        journal = os.path.join(scratch, 'journal.jsonl')
        with session_lib.Session(journal, options.limits) as session:
            items = _items(program, options, session)
            batches = [
                item.batch(np.random.default_rng(options.seed), options.candidates)
                for item in items
            ]
            scores = _scores(items, batches, options, scratch)
            results = []
            bar = tqdm.tqdm(total=len(items), unit='kernel', disable=None)
            for item, batch in zip(items, batches):
                if time.monotonic() - began > options.minutes * 60:
                    break
                try:
                    found = _tune(item, batch, scores.get(item.name), options, session)
                except session_lib.WorkerError as error:
                    tqdm.tqdm.write(f'{item.name}: skipped: {error}')
                    continue
                finally:
                    bar.update()
                results.append(tuning.write_modules(found, batch, options.output))
                tqdm.tqdm.write(f'{item.name} ({item.origin}): {found.line()}')
            bar.close()
    if not results:
        raise ValueError('no kernel could be measured')
    return results


def _tune(item, batch, scores, options, session) -> tuning.Tuned:
    if scores is None:
        rng = np.random.default_rng(options.seed + 1)
        scores = rng.random(len(batch.modules))
    learner = _Learner(scores, _features(batch)) if options.online else None

    def choose(known: Dict[int, float]) -> Sequence[int]:
        return np.argsort(learner(known) if learner else scores, kind='stable')

    return tuning.tune(
        item,
        batch,
        choose,
        session,
        options.measure,
        options.seed,
        rounds=3 if options.online else 1,
        clock='wall' if options.limits.platform == 'gpu' else 'cpu',
    )


def _items(program, options, session) -> List[Any]:
    module, skipped = program.module, {}
    if options.task == 'tile':
        try:
            content = session.optimise(module.SerializeToString())
        except session_lib.WorkerError as error:
            raise ValueError(f'XLA cannot compile {program.name}: {error}') from error
        module = protos.protos().HloModuleProto.FromString(content)
    items = _ITEMS[options.task](module, program.name, set(), skipped)
    if options.kernels is not None:
        items = [item for item in items if item.name in options.kernels]
    if not items:
        why = ', '.join(f'{n} {reason}' for reason, n in skipped.items())
        raise ValueError(f'{program.name}: nothing to tune ({why or "no kernels"})')
    return items


def _scores(items, batches, options, scratch) -> Dict[str, np.ndarray]:
    """Returns the model's score of each configuration; nothing without model."""
    if not options.model_dir:
        return {}
    paths = []
    if options.task == 'tile':
        data = protos.protos().TuningData()
        for item, batch in zip(items, batches):
            data.modules.add().CopyFrom(item.tuning(batch.runs))
        paths.append(_written(data, os.path.join(scratch, 'kernels.pb')))
    else:
        for item, batch in zip(items, batches):
            path = os.path.join(scratch, f'{item.name}.pb')
            paths.append(_written(item.tuning(batch.runs), path))
    outcome, found = outcomes.Outcome(), {}
    ranked = rank.rank_files(
        paths, options.model_dir, prediction.DataOptions(), outcome
    )
    for item, module in zip(items, ranked):
        scores = np.zeros(len(module.scores))
        scores[module.run_index] = module.scores
        found[item.name] = scores
    if outcome.failed:
        raise ValueError(outcome.failed[0])
    return found


def _written(message: Any, path: str) -> str:
    with open(path, 'wb') as stream:
        stream.write(message.SerializeToString())
    return path


def _features(batch: tiles.Batch) -> np.ndarray:
    """Returns log sizes of each configuration's tiles."""
    rows = []
    for described in batch.described:
        sizes = [*described.get('output', ()), *described.get('kernel', ())]
        rows.append(np.log2(np.array(sizes, float)))
    return np.array(rows)


class _Learner:
    """Corrects scores by what was measured: ridge regression on log sizes."""

    def __init__(self, scores: np.ndarray, features: np.ndarray):
        spread = scores.std() or 1.0
        scaled = features - features.mean(0)
        self._columns = np.column_stack(
            [np.ones(len(scores)), (scores - scores.mean()) / spread, scaled, scaled**2]
        )
        # What the scores say holds until times say otherwise.
        self._prior = np.zeros(self._columns.shape[1])
        self._prior[1] = 0.3

    def __call__(self, known: Dict[int, float]) -> np.ndarray:
        """Returns expected log times.

        Args:
            known: log times over the default's, of those that were measured.
        """
        if not known:
            return self._columns @ self._prior
        x = self._columns[list(known)]
        y = np.array(list(known.values())) - x @ self._prior
        inverse = np.linalg.inv(x.T @ x + np.eye(x.shape[1]))
        return self._columns @ (self._prior + inverse @ x.T @ y)


def write_json(results: Sequence[tuning.Tuned], path: str) -> None:
    """Writes what was found; see the command's help."""
    content = {'kernels': [dataclasses.asdict(result) for result in results]}
    with files.write_atomically(path, encoding='utf-8') as stream:
        json.dump(content, stream, indent=1)


def table(results: Sequence[tuning.Tuned]) -> List[str]:
    """Returns the lines of a table of results."""
    rows = [['kernel', 'default us', 'best us', 'speed-up', '95 %', 'claimed']]
    for result in results:
        rows.append(
            [
                result.name,
                f'{result.default_ns / 1e3:,.1f}',
                f'{result.best_ns / 1e3:,.1f}',
                f'{result.speedup:.2f}',
                f'{result.low:.2f} to {result.high:.2f}',
                'yes' if result.claimed else 'default kept',
            ]
        )
    return text.table(rows, '<>', rules=[1])


def report(program: Callable[[], programs_lib.Program], options: Options, path: str):
    """Tunes, prints a table and writes the JSON; returns an exit code."""
    results = tune(program(), options)
    for line in table(results):
        print(line)
    if path:
        write_json(results, files.expand(path))
        print(f'written: {files.expand(path)}')
    return 0
