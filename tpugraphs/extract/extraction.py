"""Runs `tpugraphs extract`: writes npz files of raw files, and a summary."""

from collections.abc import Iterable, Sequence
import contextlib
import dataclasses
import functools
import os
import re
import sys

from baselines.core import files
from baselines.core import phases
from baselines.core import text
from baselines.data import collections
from baselines.data import raw as raw_lib
from baselines.data import shares as shares_lib
from baselines.hlo import outcomes
from baselines.hlo import reading
from tpugraphs import beam
from tpugraphs.extract import extractor
from tpugraphs.extract import splitting

# Files from which Beam is used: its workers take a few seconds to start.
_MANY_FILES = 64
# Hidden names of files that are being written.
_LEFTOVERS = re.compile(r'\..+\.npz\.\w{8}')


def extract(inputs: list[str], options: extractor.ExtractionOptions) -> int:
    """Extracts raw files, and prints a summary.

    Args:
        inputs: files, folders and globs, as in `reading.find_files`.

    Returns:
        1 if a file or module was wrong, else 0.

    Raises:
        ValueError: an input names nothing, nothing can be written, or the modules
            cannot be split in `output`.
    """
    shares = shares_lib.parse_shares(options.split) if options.split else None
    paths = reading.find_files(inputs)
    output = files.expand(options.output)
    if os.path.exists(output) and not os.path.isdir(output):
        raise ValueError(f'{output}: the last argument must be a folder, not a file')
    options = dataclasses.replace(
        options, output=output, kind=options.kind or _detect_kind(paths)
    )
    if shares:
        _check_split(paths, options, shares)
    total = outcomes.Outcome()
    extracted: Iterable[outcomes.Outcome]
    # Results are the same either way; Beam uses all cores.
    if options.runner or len(paths) > _MANY_FILES:
        work = functools.partial(_extract_file, options=dataclasses.asdict(options))
        results = beam.map_items(
            work, paths, output, options.runner, options.beam_options
        )
        extracted = (outcomes.Outcome(**outcome) for outcome in results)
    else:
        shown = phases.each(paths, 'extracting', len(paths), 'file')
        extracted = (extractor.extract_file(path, options) for path in shown)
    for outcome in extracted:
        total.add(outcome)
        if outcome.fatal:
            break
    for part in ('', *collections.SPLITS):  # of workers that were killed
        files.remove_leftovers(os.path.join(output, part), _LEFTOVERS)
    for message in sorted(total.failed):
        print(f'error: {message}', file=sys.stderr)
    if total.fatal:
        raise ValueError(total.fatal)
    print(outcomes.format_summary(total))
    if shares and os.path.isdir(output):
        print(splitting.move_files(output, shares, options.by, total.by_file))
    return 1 if total.failed else 0


def _check_split(
    paths: list[str], options: extractor.ExtractionOptions, shares: Sequence[float]
) -> None:
    """Raises ValueError, before a file is written, where modules cannot be split.

    There are too few of them, or the output folder has files of other modules, which
    would be mixed with them.
    """
    there = splitting.list_extracted(options.output)
    if len(paths) > _MANY_FILES and not there:
        return  # reading them twice would take long
    modules: dict[str, list[str]] = {}
    for path in paths:
        with contextlib.suppress(ValueError, OSError):  # extraction reports it
            tunings = reading.read_tuning(path, options.kind).modules
            modules[path] = [raw_lib.name_graph(tuning) for tuning in tunings]
    if modules:
        splitting.check_groups(shares, options.by, modules)
    mine = {name for names in modules.values() for name in names}
    others = [path for name, path in there.items() if name not in mine]
    if others:
        raise ValueError(
            f'--split: {options.output} has {len(others)} npz files of other modules, '
            f'such as {others[0]}: name an empty folder, or give their raw files, too'
        )


def _extract_file(path: str, options: text.JsonObject) -> text.JsonObject:
    """Extracts one file on a worker; options and outcome travel as JSON objects."""
    outcome = extractor.extract_file(path, extractor.ExtractionOptions(**options))
    return dataclasses.asdict(outcome)


def _detect_kind(paths: list[str]) -> str | None:
    """Returns the kind of the first readable file: 'tile' or 'layout'; else None.

    A folder with both kinds could be read as neither, so files of the other kind are
    errors.
    """
    for path in paths:
        try:
            return reading.read_tuning(path).kind
        except (ValueError, OSError):
            continue
    return None
