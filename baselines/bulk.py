"""The same work on many items at once, with Apache Beam.

    results = each(work, items, folder, runner='DirectRunner')

Whatever runner there is, workers share nothing with this process but a folder that
all of them see.  A worker leaves each result there as soon as it has it, so what is
done twice, because a worker was lost, is done only once more.
"""

import contextlib
import glob
import json
import logging
import os
import shlex
import shutil
import sys
import tempfile
import threading
from typing import Any, Callable, Iterator, List, Sequence, Tuple

import tqdm

from baselines import files
from baselines import text

# Beam's own local runner works in one process unless it is told otherwise.
LOCAL = 'DirectRunner'
_LOCAL_OPTIONS = (
    '--direct_running_mode=multi_processing --direct_num_workers=0 '
    '--default_sdk_harness_log_level=ERROR'
)
# Beam knows it by its full name alone, and gives each worker 128 items at a time.
_DASK = 'DaskRunner'
_DASK_CLASS = 'apache_beam.runners.dask.dask_runner.DaskRunner'
_DASK_PARTS = 256


def each(
    work: Callable[[Any], Any],
    items: Sequence[Any],
    folder: str,
    runner: str = '',
    beam_options: str = '',
    title: str = '',
    keep: bool = False,
) -> List[Any]:
    """Applies `work` to every item, on the workers of a Beam runner.

    Args:
        work: a function of a module that the workers can import; JSON in and out.
        items: what JSON can hold.
        folder: for the results; every worker sees it at this path.  Results that are
            there are taken.
        runner: name of a Beam runner; '' is Beam's local one, on all cores.
        beam_options: its command-line options, in one string.
        title: of the progress bar.
        keep: leave the folder to the caller; otherwise it is removed.

    Returns:
        The results, in the order of the items.

    Raises:
        ValueError: there is no such runner, it cannot start, or the work broke.
    """
    runner = runner or LOCAL
    folder = files.expand(folder)
    os.makedirs(folder, exist_ok=True)
    jobs = list(enumerate(items))
    try:
        local = runner == LOCAL and not beam_options
        with _quiet(local) as terminal, _progress(folder, len(jobs), title, terminal):
            _run(work, jobs, folder, runner, _options(runner, beam_options, len(jobs)))
        return [_read(_path(folder, number)) for number, _ in jobs]
    except (Exception, SystemExit) as error:  # argparse exits for a wrong option
        first = text.one_line(error)
        raise ValueError(
            f'the Beam pipeline did not end well ({runner}): {first[:400]}'
        ) from error
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _options(runner: str, beam_options: str, count: int) -> List[str]:
    words = shlex.split(beam_options)
    if runner == LOCAL and not words:
        return shlex.split(_LOCAL_OPTIONS)
    if runner == _DASK and not any('partition' in word for word in words):
        words.append(f'--dask_npartitions={min(count, _DASK_PARTS)}')
    return words


def _run(
    work: Callable[[Any], Any],
    jobs: List[Tuple[int, Any]],
    folder: str,
    runner: str,
    arguments: List[str],
) -> None:
    # Beam takes a second to import; only those who need it should wait.
    import apache_beam as beam
    from apache_beam.options import pipeline_options

    pipeline = beam.Pipeline(
        runner=_DASK_CLASS if runner == _DASK else runner,
        options=pipeline_options.PipelineOptions(arguments),
    )
    _ = (
        pipeline
        | 'Items' >> beam.Create(jobs)
        | 'Spread' >> beam.Reshuffle()
        | 'Work' >> beam.Map(_do, work, folder)
    )
    result = pipeline.run()
    try:
        result.wait_until_finish()
    finally:
        if hasattr(result, 'client'):  # Dask's, which would go on looking for it
            result.client.close()


def _do(job: Tuple[int, Any], work: Callable[[Any], Any], folder: str) -> None:
    """Does one item, on a worker, unless that was done before."""
    number, item = job
    path = _path(folder, number)
    if not os.path.exists(path):
        with files.write_atomically(path) as stream:
            json.dump(work(item), stream)


def _read(path: str) -> Any:
    with open(path, encoding='utf-8') as stream:
        return json.load(stream)


def _path(folder: str, number: int) -> str:
    return os.path.join(folder, f'{number:07d}.json')


@contextlib.contextmanager
def _quiet(local: bool) -> Iterator[Any]:
    """Keeps the chatter of Beam and its worker processes from the terminal.

    Local workers inherit file descriptor 2 and report their start there; it
    goes to a temporary file.

    Yields:
        A stream to the real stderr.
    """
    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        if not local:
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
def _progress(folder: str, total: int, title: str, terminal: Any) -> Iterator[None]:
    """Shows how many results there are.

    Only files tell the progress of workers on other machines.
    """
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
