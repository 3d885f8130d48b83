"""Programs in, faster configurations out: a model proposes, the clock disposes."""

import collections
import dataclasses
import json
import os
import tempfile
import time
from typing import Any, Callable, Collection, List, Mapping, Optional, Sequence

import numpy as np
import tqdm

from baselines import files
from baselines import text
from tpugraphs.extract import outcomes
from tpugraphs.measure import collection
from tpugraphs.measure import memory as memory_lib
from tpugraphs.measure import programs as programs_lib
from tpugraphs.measure import search
from tpugraphs.measure import session as session_lib
from tpugraphs.measure import tuning

_ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class Options:
    """How to tune."""

    output: str  # folder of the HloModuleProtos
    model_dir: str = ''  # of the model that proposes; '' for random search
    task: str = 'tile'  # 'tile' or 'layout'
    measure: int = 10  # configurations to measure of each kernel
    candidates: int = 1000  # configurations to choose from
    minutes: float = float('inf')  # of wall time; no kernel is begun after
    # whether to learn, in rounds, from what was measured; None: with a model
    online: Optional[bool] = None
    seed: int = 0  # of candidates and inputs
    records: str = ''  # file or folder of tuning records; '' for none
    fresh: bool = False  # whether to use none of those that are there
    limits: session_lib.Limits = session_lib.Limits()  # of the worker


def tune(program: programs_lib.Program, options: Options) -> List[tuning.Tuned]:
    """Tunes the kernels of a program, or its layouts.

    Raises:
        ValueError: there is nothing to tune, or the model cannot be used.
        OSError: the output cannot be written.
    """
    began = time.monotonic()
    os.makedirs(options.output, exist_ok=True)
    score = _scorer(options) if options.model_dir else None
    results = []
    with tempfile.TemporaryDirectory(prefix='tpugraphs_tune_') as scratch:
        journal = os.path.join(scratch, 'journal.jsonl')
        with session_lib.Session(journal, options.limits) as session:
            memory = memory_lib.Memory(options.records, session.device, options.fresh)
            items = _items(program, options, session)
            for item in tqdm.tqdm(items, unit='kernel', disable=None):
                if time.monotonic() - began > options.minutes * 60:
                    break
                try:
                    found = _tune(item, score, options, session, memory)
                except session_lib.WorkerError as error:
                    tqdm.tqdm.write(f'{item.name}: skipped: {error}')
                    continue
                results.append(found)
                tqdm.tqdm.write(f'{item.name} ({item.origin}): {found.line()}')
    if not results:
        raise ValueError('no kernel could be measured')
    return results


def _tune(
    item: Any,
    score: Optional[Callable[[Any], np.ndarray]],
    options: Options,
    session: session_lib.Session,
    memory: memory_lib.Memory,
) -> tuning.Tuned:
    rng = np.random.default_rng(options.seed)
    recorded = memory.configurations(item)
    batch = item.batch(rng, options.candidates, score, recorded)
    online = score is not None if options.online is None else options.online
    scores = np.random.default_rng(options.seed + 1).random(len(batch.described))
    if score is not None:
        scores = score(item.tuning(batch.described))
    surrogate = search.Surrogate(batch.columns, scores if score is not None else None)

    def first(
        known: Mapping[int, float], excluded: Collection[int], count: int
    ) -> Sequence[int]:
        order = np.argsort(scores, kind='stable').tolist()
        return [i for i in order if i not in known and i not in excluded][:count]

    found = tuning.tune(
        item,
        batch,
        surrogate.propose if online else first,
        session,
        options.measure,
        options.seed,
        rounds=_ROUNDS if online else 1,
        memory=memory,
    )
    return tuning.write_modules(found, batch, options.output)


def _items(
    program: programs_lib.Program, options: Options, session: session_lib.Session
) -> List[Any]:
    skipped: collections.Counter[str] = collections.Counter()
    try:
        items = collection.items_of(program, options.task, session, set(), skipped)
    except session_lib.WorkerError as error:
        raise ValueError(f'XLA cannot compile {program.name}: {error}') from error
    if not items:
        why = ', '.join(f'{n} {reason}' for reason, n in skipped.items())
        raise ValueError(f'{program.name}: nothing to tune ({why or "no kernels"})')
    return items


def _scorer(options: Options) -> Callable[[Any], np.ndarray]:
    """Returns what gives a model's scores of the runs of a ModuleTuningData.

    Raises:
        ValueError: the model cannot be used, or is of the other task.
    """
    # Not before it is needed: they import TF-GNN, which takes long.
    from baselines.runs import finding
    from baselines.runs import loading
    from baselines.runs import prediction
    from tpugraphs import ranking

    path = finding.find_one(options.model_dir, options.task)
    predictor = loading.load_predictor(path, prediction.DataOptions(), '')
    task = predictor.collection.task
    if task != options.task:
        raise ValueError(
            f'{path}: a model of {task}s; give one of {options.task}s, or --task={task}'
        )

    def score(module: Any) -> np.ndarray:
        outcome = outcomes.Outcome()
        named = [(module.module.name, module)]
        ranked = list(ranking.rank_modules(named, predictor, outcome))
        for problem in (*outcome.failed, *outcome.skipped):
            raise ValueError(problem)
        scores = np.zeros(len(module.runs))
        scores[ranked[0].run_index] = ranked[0].scores
        return scores

    return score


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


def report(source: str, options: Options, path: str) -> int:
    """Tunes a program, prints a table and writes JSON; returns an exit code."""
    results = tune(programs_lib.load(source), options)
    for line in table(results):
        print(line)
    if path:
        content = {'kernels': [dataclasses.asdict(result) for result in results]}
        with files.write_atomically(path, encoding='utf-8') as stream:
            json.dump(content, stream, indent=1)
        print(f'written: {files.expand(path)}')
    return 0
