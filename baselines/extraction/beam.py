"""Many raw files at once, with Apache Beam."""

import contextlib
import dataclasses
import glob
import json
import logging
import os
import shlex
import sys
import tempfile
import threading
from typing import Any, Dict, Iterator, List, Optional
import uuid

import tqdm

from baselines import files
from baselines.extraction import extractor
from baselines.extraction import outcomes

# Beam's own local runner works in one process unless it is told otherwise.
_LOCAL = 'DirectRunner'
_LOCAL_OPTIONS = (
    '--direct_running_mode=multi_processing --direct_num_workers=0 '
    '--default_sdk_harness_log_level=ERROR'
)


def extract_files(
    paths: List[str],
    options: extractor.Options,
    runner: Optional[str] = None,
    beam_options: str = '',
) -> List[outcomes.Outcome]:
    """Extracts raw files with a Beam pipeline.

    The workers read `paths` and write `options.output`, so both must be on a
    file system that they see.

    Args:
        paths: raw files, absolute.
        options: how to extract.
        runner: name of an installed Beam runner; None is Beam's local one, on
            all cores.
        beam_options: command-line options for it, in one string.

    Returns:
        An outcome for each file, in no particular order.

    Raises:
        ValueError: no such runner, or the pipeline broke.
    """
    local = runner in (None, _LOCAL) and not beam_options
    arguments = shlex.split(_LOCAL_OPTIONS if local else beam_options)
    os.makedirs(options.output, exist_ok=True)
    collected = os.path.join(options.output, f'.outcomes_{uuid.uuid4().hex}.json')
    try:
        with _quiet(local) as terminal, _progress(options.output, terminal):
            _run_pipeline(paths, options, collected, runner or _LOCAL, arguments)
        with open(collected, encoding='utf-8') as stream:
            found = json.load(stream)
    except (RuntimeError, ValueError, OSError) as error:
        first = str(error).strip().partition('\n')[0]
        raise ValueError(
            f'the Beam pipeline did not end well ({runner or _LOCAL}): {first}'
        ) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(collected)
    return [outcomes.Outcome(**outcome) for outcome in found]


def _run_pipeline(
    paths: List[str],
    options: extractor.Options,
    collected: str,
    runner: str,
    arguments: List[str],
) -> None:
    """Extracts `paths`; their outcomes go into the file `collected`."""
    # Beam takes a second to import; only those who need it should wait.
    # pylint: disable=import-outside-toplevel
    import apache_beam as beam
    from apache_beam.options import pipeline_options

    pipeline = beam.Pipeline(
        runner=runner, options=pipeline_options.PipelineOptions(arguments)
    )
    _ = (
        pipeline
        | 'Files' >> beam.Create(paths)
        | 'Spread' >> beam.Reshuffle()
        | 'Extract' >> beam.Map(_extract, dataclasses.asdict(options))
        | 'Collect' >> beam.combiners.ToList()
        | 'Report' >> beam.Map(_write_outcomes, collected)
    )
    pipeline.run().wait_until_finish()


def _extract(path: str, options: Dict[str, Any]) -> Dict[str, Any]:
    """Extracts one file, on a worker."""
    return dataclasses.asdict(
        extractor.extract_file(path, extractor.Options(**options))
    )


def _write_outcomes(found: List[Dict[str, Any]], path: str) -> None:
    with files.write_atomically(path) as stream:
        json.dump(found, stream)


@contextlib.contextmanager
def _quiet(local: bool) -> Iterator[Any]:
    """Keeps the chatter of Beam and its worker processes from the terminal.

    Local workers inherit file descriptor 2 and report their start there; it
    goes to a temporary file.

    Yields:
        A stream to the real stderr.
    """
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)
    if not local:
        try:
            yield sys.stderr
        finally:
            logging.getLogger().setLevel(level)
        return
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as kept, open(terminal, 'w') as stream:
        os.dup2(kept.fileno(), 2)
        try:
            yield stream
        finally:
            os.dup2(terminal, 2)
            logging.getLogger().setLevel(level)


@contextlib.contextmanager
def _progress(output: str, terminal: Any) -> Iterator[None]:
    """Shows how many npz files there are more than at the start.

    Only files tell the progress of workers on other machines.
    """
    start = _count(output)
    done = threading.Event()
    bar = tqdm.tqdm(desc='extract', unit=' modules', file=terminal, disable=None)

    def watch() -> None:
        while not done.wait(1.0):
            bar.update(_count(output) - start - bar.n)

    watcher = threading.Thread(target=watch, daemon=True)
    if not bar.disable:
        watcher.start()
    try:
        yield
    finally:
        done.set()
        if not bar.disable:
            watcher.join()
            bar.update(_count(output) - start - bar.n)
        bar.close()


def _count(output: str) -> int:
    return len(glob.glob(os.path.join(glob.escape(output), '*.npz')))
