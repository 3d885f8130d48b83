"""Applies a function to many items, and scores splits, with Apache Beam.

    results = map_items(work, items, folder, runner='DirectRunner')

Workers share nothing with this process but a folder that all of them see.  A worker
leaves each result there as soon as it has it.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
import contextlib
import dataclasses
import functools
import json
import logging
import os
import pathlib
import shlex
import shutil
import tempfile
from typing import Any
import uuid

import numpy as np

from baselines.core import arrays
from baselines.core import files
from baselines.core import text
from baselines.data.packed import splits
from baselines.scoring import prediction
from baselines.scoring import scorer as scorer_lib

# By default Beam's own local runner works in one process.
_LOCAL = 'DirectRunner'
_LOCAL_OPTIONS = (
    '--direct_running_mode=multi_processing --direct_num_workers=0 '
    '--default_sdk_harness_log_level=ERROR'
)


def check_arguments(args: argparse.Namespace) -> None:
    """Raises ValueError for options of a runner without one."""
    if args.beam_options and not args.runner:
        raise ValueError('--beam_options is for a Beam runner: add --runner')


def make_scoring(args: argparse.Namespace) -> Callable[..., Iterator[np.ndarray]]:
    """Returns `score_split` with the options of a command; raises ValueError."""
    check_arguments(args)
    chosen = {'runner': args.runner, 'beam_options': args.beam_options}
    return functools.partial(score_split, **chosen)


def map_items(
    work: Callable[[Any], Any],
    items: Sequence[Any],
    folder: str,
    runner: str = '',
    beam_options: str = '',
) -> list[Any]:
    """Applies a function to every item, on the workers of a Beam runner.

    Args:
        work: a function of a module that the workers can import, from JSON to JSON.
        items: values that JSON can hold.
        folder: for the results, in which a new folder is made, and removed in the end;
            every worker sees it at this path.
        runner: name of a Beam runner; '' is Beam's local one, on all cores.
        beam_options: its command-line options, in one string.

    Returns:
        The results, in the order of the items.

    Raises:
        ValueError: there is no such runner, it cannot start, or the work broke.
    """
    runner = runner or _LOCAL
    is_local = runner == _LOCAL and not beam_options
    arguments = shlex.split(_LOCAL_OPTIONS if is_local else beam_options)
    folder = os.path.join(files.expand(folder), f'.results_{uuid.uuid4().hex}')
    do = functools.partial(_run_job, work=work, folder=folder)
    os.makedirs(folder)
    try:
        # Beam takes a second to import; only those who need it should wait.
        import apache_beam as beam
        from apache_beam.options import pipeline_options

        with _hide_logs(is_local):
            options = pipeline_options.PipelineOptions(arguments)
            with beam.Pipeline(runner=runner, options=options) as pipeline:
                jobs = pipeline | 'Items' >> beam.Create(list(enumerate(items)))
                # Without the reshuffle, one worker may get all items in one bundle.
                _ = jobs | 'Distribute' >> beam.Reshuffle() | 'Work' >> beam.Map(do)
        paths = [pathlib.Path(folder, f'{n}.json') for n in range(len(items))]
        return [json.loads(path.read_bytes()) for path in paths]
    except (Exception, SystemExit) as error:  # argparse exits for a wrong option
        reason = text.one_line(error)[:400]
        raise ValueError(f'the Beam pipeline failed ({runner}): {reason}') from error
    finally:  # also after Ctrl-C
        shutil.rmtree(folder, ignore_errors=True)


def _run_job(job: tuple[int, Any], work: Callable[[Any], Any], folder: str) -> None:
    """Applies `work` to an item, and writes the result."""
    number, item = job
    with files.write_atomically(os.path.join(folder, f'{number}.json')) as stream:
        json.dump(work(item), stream)


@contextlib.contextmanager
def _hide_logs(is_local: bool) -> Iterator[None]:
    """Hides the logs of Beam and its worker processes from the terminal.

    Local workers inherit file descriptor 2 and report their start there; it
    goes to a temporary file.
    """
    logging.disable(logging.WARNING)
    terminal = os.dup(2)
    try:
        with tempfile.TemporaryFile() as kept:
            if is_local:
                os.dup2(kept.fileno(), 2)
            yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
        logging.disable(logging.NOTSET)


def score_split(
    predictor: prediction.Predictor,
    store: splits.PackedSplit,
    runner: str,
    beam_options: str,
) -> Iterator[np.ndarray]:
    """Yields float32 [configurations] of each graph, scored by workers.

    Args:
        store: the split that the predictor has opened last.
        runner: see `map_items`, also for `beam_options`.

    Raises:
        ValueError: the runner cannot be used, or a worker could not score.
    """
    if predictor.run is None:
        raise ValueError('--runner is for runs: the estimate needs no workers')
    options = predictor.options
    paths: dict[str, Any] = {
        name: files.expand(getattr(options, name))
        for name in ('data_root', 'cache_dir', 'models_file')
        if getattr(options, name)
    }
    options = dataclasses.replace(options, **paths)
    opened = predictor.name, options, predictor.split, store.fingerprint
    work = functools.partial(score_part, opened=opened)
    # Runs of graphs; all of a run together have about `configs_at_once` configurations.
    parts = arrays.group_pieces(store.config_counts, predictor.task.configs_at_once)
    items = [[int(part[0]), int(part[-1]) + 1] for part in parts]
    results = map_items(work, items, options.cache_dir, runner, beam_options)
    return (np.array(s, np.float32) for part in results for s in part)


def score_part(part: list[int], opened: tuple[Any, ...]) -> list[list[float]]:
    """Scores the graphs from one number up to another, on a worker.

    Args:
        opened: the arguments of `_open_run`.

    Returns:
        A list of scores for each graph; scores are float32 values.

    Raises:
        ValueError: the worker sees other data, or a score is not finite.
    """
    scorer, store, graphs = _open_run(*opened)
    scored = scorer.scores(store, graphs, np.arange(*part))
    return [one.tolist() for one in scored]


@functools.lru_cache(maxsize=1)
def _open_run(
    model_dir: str, options: prediction.Options, split: str, fingerprint: str
) -> tuple[scorer_lib.Scorer, splits.PackedSplit, Any]:
    """Returns a run's scorer, a split and its graphs, kept from part to part."""
    predictor = prediction.load(model_dir, options)
    scorer, store = predictor.scorer, predictor.open_split(split)
    # A path may mean other files on another machine.
    if store.fingerprint != fingerprint:
        raise ValueError(f'{store.source}: a worker sees other data here')
    store = scorer.check(store)
    return scorer, store, scorer.graphs(store)
