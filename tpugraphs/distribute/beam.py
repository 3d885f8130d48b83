"""Applies a function to many items, and scores splits, with Apache Beam.

    results = map_items(work, items, folder, runner='DirectRunner')

Workers share nothing with this process but a folder that all of them see.  A worker
leaves each result there as soon as it has it; the same call goes on from there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
import contextlib
import dataclasses
import functools
import glob
import hashlib
import json
import logging
import os
import shlex
import shutil
import sys
import tempfile
import threading
from typing import Any, NamedTuple, TextIO, TypeVar
import uuid

import numpy as np
import tqdm

from baselines.core import arrays
from baselines.core import files
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.data.packed import splits
from baselines.runs import finding
from baselines.runs import run_files
from baselines.scoring import graph_source
from baselines.scoring import loading
from baselines.scoring import scorers

# What `map_items` passes to a worker, and takes back: values that JSON can hold.
_Item = TypeVar('_Item')
_Result = TypeVar('_Result')

# By default Beam's own local runner works in one process.
_LOCAL = 'DirectRunner'
_LOCAL_OPTIONS = (
    '--direct_running_mode=multi_processing --direct_num_workers=0 '
    '--default_sdk_harness_log_level=ERROR'
)


def data_options(args: argparse.Namespace) -> graph_source.SourceOptions:
    """Returns the options of a command for scoring graphs, with its workers.

    Raises:
        ValueError: there are options for a runner, and no runner.
    """
    check_arguments(args)
    workers = BeamWorkers(args.runner, args.beam_options) if args.runner else None
    return settings_lib.from_options(graph_source.SourceOptions, args, workers=workers)


def check_arguments(args: argparse.Namespace) -> None:
    """Raises ValueError for options of a runner without one."""
    if args.beam_options and not args.runner:
        raise ValueError('--beam_options is for a Beam runner: add --runner')


def map_items(
    work: Callable[[_Item], _Result],
    items: Sequence[_Item],
    folder: str,
    runner: str = '',
    beam_options: str = '',
    title: str = '',
    keep: bool = False,
) -> list[_Result]:
    """Applies a function to every item, on the workers of a Beam runner.

    Args:
        work: a function of a module that the workers can import, from JSON to JSON.
        items: values that JSON can hold.
        folder: for the results, removed in the end; every worker sees it at this
            path.  Results that are there are taken.
        runner: name of a Beam runner; '' is Beam's local one, on all cores.
        beam_options: its command-line options, in one string.
        keep: leave the folder after a failure, for the next call.

    Returns:
        The results, in the order of the items.

    Raises:
        ValueError: there is no such runner, it cannot start, or the work broke.
    """
    runner = runner or _LOCAL
    folder = files.expand(folder)
    os.makedirs(folder, exist_ok=True)
    jobs = list(enumerate(items))
    is_done = False
    try:
        is_local = runner == _LOCAL and not beam_options
        options = shlex.split(_LOCAL_OPTIONS if is_local else beam_options)
        # The bar writes to the real stderr, which workers do not have.
        with _quiet(is_local) as stream, _progress(folder, len(jobs), title, stream):
            _run(work, jobs, folder, runner, options)
        results = [_read_result(folder, number) for number, _ in jobs]
        is_done = True
        return results
    except (Exception, SystemExit) as error:  # argparse exits for a wrong option
        first = text.one_line(error)
        raise ValueError(
            f'the Beam pipeline did not end well ({runner}): {first[:400]}'
        ) from error
    finally:  # also after Ctrl-C
        if is_done or not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _run(
    work: Callable[[_Item], _Result],
    jobs: list[tuple[int, _Item]],
    folder: str,
    runner: str,
    arguments: list[str],
) -> None:
    """Runs a pipeline of `work`, and waits until it has ended."""
    # Beam takes a second to import; only those who need it should wait.
    import apache_beam as beam
    from apache_beam.options import pipeline_options

    options = pipeline_options.PipelineOptions(arguments)
    with beam.Pipeline(runner=runner, options=options) as pipeline:
        _ = (
            pipeline
            | 'Items' >> beam.Create(jobs)
            | 'Distribute' >> beam.Reshuffle()
            | 'Work' >> beam.Map(_do, work, folder)
        )


def _do(job: tuple[int, _Item], work: Callable[[_Item], _Result], folder: str) -> None:
    """Applies `work` to an item, and writes the result, unless it exists."""
    number, item = job
    path = _result_path(folder, number)
    if not os.path.exists(path):
        with files.write_atomically(path) as stream:
            json.dump(work(item), stream)


def _read_result(folder: str, number: int) -> Any:
    """Reads the result of an item."""
    with open(_result_path(folder, number), encoding='utf-8') as stream:
        return json.load(stream)


def _result_path(folder: str, number: int) -> str:
    """Returns the path of the result of an item."""
    return os.path.join(folder, f'{number:07d}.json')


@contextlib.contextmanager
def _quiet(is_local: bool) -> Iterator[TextIO]:
    """Keeps what Beam and its worker processes log from the terminal.

    Local workers inherit file descriptor 2 and report their start there; it
    goes to a temporary file.

    Yields:
        A stream to the real stderr.
    """
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        if not is_local:
            yield sys.stderr
            return
        with tempfile.TemporaryFile() as kept, open(os.dup(2), 'w') as terminal:
            os.dup2(kept.fileno(), 2)
            try:
                yield terminal
            finally:
                os.dup2(terminal.fileno(), 2)
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _progress(folder: str, total: int, title: str, terminal: TextIO) -> Iterator[None]:
    """Shows a progress bar that counts result files, also those of other machines."""
    done = threading.Event()
    bar = tqdm.tqdm(total=total, desc=title, file=terminal, disable=None, leave=False)

    def watch() -> None:
        while not done.wait(1.0):
            bar.update(len(glob.glob(f'{glob.escape(folder)}/*.json')) - bar.n)

    watcher = threading.Thread(target=watch, daemon=True)
    if not bar.disable:
        watcher.start()
    try:
        yield
    finally:
        done.set()
        if not bar.disable:
            watcher.join()
        bar.close()


class _Work(NamedTuple):
    """The arguments of a worker that scores parts of a split."""

    model_dir: str  # of the run
    # options for the source of the graphs, with absolute paths
    data: graph_source.SourceOptions
    split: str  # name of the split
    fingerprint: str  # of the split


class BeamWorkers:
    """Scores splits with the workers of an Apache Beam runner.

    Args:
        options: its command-line options, in one string.
    """

    def __init__(self, runner: str, options: str):
        self._runner, self._options = runner, options

    def scores(
        self,
        run: run_files.RunFile,
        source: graph_source.Source,
        store: splits.PackedSplit,
    ) -> list[np.ndarray]:
        """Returns float32 [configurations] of each graph of a split.

        Args:
            source: of the split, which it has opened last.

        Raises:
            ValueError: the runner cannot be used, or a worker could not score.
        """
        work = _work(run, source, store)
        at_once = source.task.configs_at_once
        folder = os.path.join(work.data.cache_dir, f'scores_{_key(run, work, at_once)}')
        # Graphs that follow one another, with about so many configurations together.
        parts = arrays.groups(store.config_counts, at_once)
        items = [[int(part[0]), int(part[-1]) + 1] for part in parts]
        score = functools.partial(score_part, work=work)
        title = f'ranking {os.path.basename(store.source)}'
        scores_of_parts = map_items(
            score, items, folder, self._runner, self._options, title, keep=True
        )
        return [np.array(s, np.float32) for part in scores_of_parts for s in part]


def _work(
    run: run_files.RunFile, source: graph_source.Source, store: splits.PackedSplit
) -> _Work:
    """Describes the scoring of a split to workers, which import models by name."""
    options, models_file = source.options, source.options.models_file
    if not isinstance(models_file, str):
        raise ValueError('workers need the name of a models_file, not classes')
    data = dataclasses.replace(
        options,
        data_root=files.expand(options.data_root) if options.data_root else '',
        cache_dir=files.expand(options.cache_dir),
        models_file=models_file and files.expand(models_file),
        workers=None,
    )
    return _Work(run.model_dir, data, source.split, store.fingerprint)


def score_part(part: list[int], work: _Work) -> list[list[float]]:
    """Scores the graphs from one number up to another, on a worker.

    Returns:
        A list of scores for each graph; scores are float32 values.

    Raises:
        ValueError: the worker sees other data, or a score is not finite.
    """
    models, store, graphs = _opened(work)
    scores = models.scores(store, graphs, np.arange(*part))
    return [one.tolist() for one in scores]


@functools.lru_cache(maxsize=1)
def _opened(work: _Work) -> tuple[scorers.Models, splits.PackedSplit, Any]:
    """Returns a run's models, a split and its graphs, kept from part to part."""
    run = finding.load(work.model_dir)
    source = graph_source.RunSource(run, work.data)
    scorer = loading.run_scorer(run, source)
    store = source.open(work.split)
    # A path may mean other files on another machine.
    if store.fingerprint != work.fingerprint:
        raise ValueError(f'{store.source}: a worker sees other data here')
    store = scorer.check(store)
    return scorer.models, store, scorer.graphs(store)


def _key(run: run_files.RunFile, work: _Work, at_once: int) -> str:
    """Returns a key of the scores, equal in a call that goes on with this one."""
    digest = run.info.get('digest')
    # Without a digest, or with a user's code, what is there may be of another model.
    identity = digest if digest and not work.data.models_file else uuid.uuid4().hex
    described = {**work._asdict(), 'data': dataclasses.asdict(work.data)}
    parts = [identity, described, at_once]
    content = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]
