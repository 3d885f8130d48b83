"""The jobs of `tpugraphs sweep`: search, and show what was found."""

from concurrent import futures
import dataclasses
import json
import os
import signal
import subprocess
import threading
from typing import Any, Dict, List, Sequence

from baselines import config as config_lib
from baselines.sweeps import results
from baselines.sweeps import space as space_lib
from baselines.sweeps import study as study_lib
from baselines.sweeps import worker

# How often a worker is started again that was killed.
_MOST_STARTS = 4
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
        'a journal file, or the URL of a database such as sqlite:///sweep.db '
        '(default: sweep.journal in --out_dir)',
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
    """Searches, or joins those who do; prints what was found.

    Args:
        base: a `TileConfig` or `LayoutConfig`; holds where nothing is drawn.
        options: how.

    Returns:
        The exit code.

    Raises:
        ValueError: the options, the space or the storage cannot be used.
        OSError: the runs cannot be written.
    """
    _check(options)
    collection = base.collection.name
    space_file = options.space or space_lib.shipped(collection)
    space = space_lib.read(space_file, type(base))
    storage = options.storage or study_lib.default_storage(base.out_dir)
    study = study_lib.Study(
        storage,
        options.study or collection,
        study_lib.Definition(
            collection,
            space.source,
            _told(base),
            options.seeds,
            options.folds,
            options.pruning,
        ),
    )
    study.try_first(space.defaults(base))
    done = len(study.of_state('COMPLETE', 'PRUNED', 'FAIL'))
    if done:
        print(f'{study.name}: {done} of {options.trials} trials are there; going on')
    orders = [
        worker.Order(
            storage=storage,
            name=study.name,
            trials=options.trials,
            base=config_lib.to_json(base),
            seed=base.seed,
            minutes=options.minutes,
            memory_gb=options.memory_gb,
            cores=cores,
        )
        for cores in shared_cores(options.workers)
    ]
    code = run_workers(orders)
    print('\n'.join(results.table(study)))
    results.write_best(study, base.out_dir)
    if study.best():
        script = {'tile': 'tiles_train.py', 'layout': 'layout_train.py'}
        path = results.best_file(base.out_dir)
        print(f'train: python {script[base.collection.task]} --recipe={path}')
    return code


def show(storage: str, study: str, as_json: bool) -> None:
    """Prints what a sweep has found so far.

    Raises:
        ValueError: there is no such sweep.
    """
    found = study_lib.Study(storage, study)
    if as_json:
        print(json.dumps(results.summary(found), indent=1))
    else:
        print('\n'.join(results.table(found)))


def shared_cores(workers: int) -> List[List[int]]:
    """Divides the cores of this machine; with too few, several share one."""
    if not hasattr(os, 'sched_getaffinity'):
        return [[] for _ in range(workers)]
    cores = sorted(os.sched_getaffinity(0))
    return [cores[i::workers] or [cores[i % len(cores)]] for i in range(workers)]


def _check(options: Options) -> None:
    least = {'trials': 1, 'seeds': 1, 'workers': 1, 'minutes': 0, 'memory_gb': 0}
    for name, value in least.items():
        if getattr(options, name) < value:
            raise ValueError(
                f'--{name} should be at least {value}, not {getattr(options, name)}'
            )
    if options.folds < 0 or options.folds == 1:
        raise ValueError(f'--folds should be 2 or more, or 0, not {options.folds}')
    if options.trials < options.folds:
        raise ValueError(
            f'--trials={options.trials} are fewer than --folds={options.folds}: a '
            'trial is trained once on every fold, so ask for at least as many trials'
        )


def _told(base: Any) -> Dict[str, Any]:
    """The settings that differ from the defaults, but for places."""
    return {
        field.name: getattr(base, field.name)
        for field in dataclasses.fields(base)
        if field.name not in _PLACES and getattr(base, field.name) != field.default
    }


def run_workers(orders: Sequence[worker.Order]) -> int:
    """Waits until all workers have ended, starting those again that were killed."""
    running: Dict[int, subprocess.Popen] = {}
    ending = threading.Event()

    def keep(place: int) -> int:
        for _ in range(_MOST_STARTS):
            running[place] = worker.start(orders[place])
            code = running[place].wait()
            if code >= 0 or ending.is_set():
                break
            name = signal.Signals(-code).name
            print(f'note: worker {place + 1} was ended by {name}')
        return abs(code)

    with futures.ThreadPoolExecutor(len(orders)) as pool:
        try:
            return max(pool.map(keep, range(len(orders))))
        finally:
            ending.set()
            for process in running.values():
                process.send_signal(signal.SIGINT)  # gives its trial back
