"""The jobs of `tpugraphs sweep`: search, and show the trials."""

import dataclasses
import json
import os
from typing import Any, Dict, List, Sequence

from baselines import config as config_lib
from tpugraphs.sweep import processes
from tpugraphs.sweep import results
from tpugraphs.sweep import space as space_lib
from tpugraphs.sweep import storage as storage_lib
from tpugraphs.sweep import study as study_lib
from tpugraphs.sweep import worker

# What may differ between machines that share a sweep.
_PLACES = ('data_root', 'cache_dir', 'out_dir', 'results_csv', 'memory_budget')


def _option(default: Any, about: str) -> Any:
    return dataclasses.field(default=default, metadata={'help': about})


@dataclasses.dataclass(frozen=True)
class Options:
    """How to search; what has a help text is an option of the command."""

    space: str = _option('', 'what is searched, a TOML file')
    storage: str = _option(
        '',
        'the URL of a database such as sqlite:///sweep.db, or a journal file '
        '(default: sweep.db in --out_dir)',
    )
    study: str = _option('', "its name there (default: the collection's)")
    trials: int = _option(40, 'trials that the sweep is to have, of all who join')
    seeds: int = _option(1, 'trainings of each trial with different seeds, averaged')
    folds: int = _option(
        0, 'folds of cross-validation, averaged; 0: the splits as they are'
    )
    workers: int = _option(1, 'processes on this machine; they divide its cores')
    minutes: float = _option(0.0, 'most minutes of a trial (default: any)')
    memory_gb: float = _option(0.0, 'most memory of a trial (default: any)')
    pruning: bool = True  # whether bad trials are ended early


def sweep(base: Any, options: Options) -> int:
    """Runs a sweep, or joins one; prints its trials and the command to train next.

    Args:
        base: a `TileConfig` or `LayoutConfig`; holds where nothing is drawn.
        options: how to search.

    Returns:
        The exit code.

    Raises:
        ValueError: the options, the space or the storage cannot be used, or no
            trial can be trained.
        OSError: the runs cannot be written.
    """
    _check(options)
    collection = base.collection.name
    space_file = options.space or space_lib.shipped(collection)
    definition = study_lib.Definition(
        collection,
        dict(space_lib.read(space_file, type(base)).source),
        _shared_settings(base),
        options.seeds,
        options.folds,
        options.pruning,
    )
    storage = options.storage or storage_lib.default_storage(base.out_dir)
    found = study_lib.Sweep(storage, options.study or collection, definition)
    counts = found.counts()
    if counts.ended:
        print(
            f'{found.name}: {counts.ended} of {options.trials} trials are there; '
            'going on'
        )
    elif not sum(counts):
        found.study.enqueue_trial(found.space.defaults(base))
    most_workers = max(1, options.trials - counts.ended)
    orders = [
        worker.Order(
            storage=storage,
            study=found.name,
            trials=options.trials,
            base=config_lib.to_json(base),
            # Workers draw different settings, also when the sweep goes on.
            sampler_seed=(base.seed + 1000 * sum(counts) + number) % 2**32,
            minutes=options.minutes,
            memory_gb=options.memory_gb,
            cores=cores,
        )
        for number, cores in enumerate(shared_cores(min(options.workers, most_workers)))
    ]
    code = run_workers(orders)
    failure = found.common_failure()
    if failure:
        raise ValueError(
            f'all of the first trials failed: {failure}; begin again with another '
            '--study or --out_dir'
        )
    print('\n'.join(results.table(found)))
    results.write_best(found, base.out_dir)
    if found.best():
        print(f'next: {results.training_command(found, base)}')
    return code


def show(storage: str, study: str, as_json: bool) -> None:
    """Prints the trials of a sweep.

    Raises:
        ValueError: there is no such sweep.
    """
    found = study_lib.Sweep(storage, study)
    if as_json:
        print(json.dumps(results.summary(found), indent=1))
    else:
        print('\n'.join(results.table(found)))


def shared_cores(workers: int) -> List[List[int]]:
    """Divides the cores of this machine; with too few, several workers share one."""
    if not hasattr(os, 'sched_getaffinity'):
        return [[] for _ in range(workers)]
    cores = sorted(os.sched_getaffinity(0))
    return [cores[i::workers] or [cores[i % len(cores)]] for i in range(workers)]


def run_workers(orders: Sequence[worker.Order]) -> int:
    """Starts a worker for each order and waits until all have ended.

    Ctrl-C lets each put its trial back in the queue.

    Returns:
        The highest exit code; of a worker that was killed, the signal's number.
    """
    workers = [processes.start(worker.run, order) for order in orders]
    try:
        for process in workers:
            process.join()
    finally:
        for process in workers:
            process.terminate()
        for process in workers:
            process.join()
    codes = [process.exitcode or 0 for process in workers]
    for number, code in enumerate(codes, 1):
        if code < 0:
            print(f'note: worker {number} {processes.ending(code)}')
    return max(map(abs, codes))


def _check(options: Options) -> None:
    least = {'trials': 1, 'seeds': 1, 'workers': 1, 'minutes': 0, 'memory_gb': 0}
    for name, value in least.items():
        if not getattr(options, name) >= value:
            raise ValueError(
                f'--{name} should be at least {value}, not {getattr(options, name)}'
            )
    if options.folds < 0 or options.folds == 1:
        raise ValueError(f'--folds should be 2 or more, or 0, not {options.folds}')


def _shared_settings(base: Any) -> Dict[str, Any]:
    """Returns the settings that differ from the defaults, but for places."""
    return {
        field.name: getattr(base, field.name)
        for field in dataclasses.fields(base)
        if field.name not in _PLACES and getattr(base, field.name) != field.default
    }
