"""Finds what `rank` ranks: the modules of raw files, and the kernels of programs.

Raw files have candidates; programs are cut into kernels, which get candidates here.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
import contextlib
import difflib
import functools
import os
from typing import Any

from baselines.core import phases
from baselines.core import text
from baselines.data import raw as raw_lib
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.runs import finding
from tpugraphs import measure
from tpugraphs.extract import outcomes
from tpugraphs.kernels import proposals
from tpugraphs.kernels import removal
from tpugraphs.programs import reader

# Configurations of a kernel that comes without any, and the seed they are drawn with.
_CANDIDATES = 200
_SEED = 0

# Configurations that replace those of files, as `hlo.candidates` reads them.
Candidates = Sequence[Mapping[str, Any]] | None
# What a path holds.
Source = reader.Program | reading.RawFile
# A file or program and one of its modules, a ModuleTuningData.
Module = tuple[str, 'protos.ModuleTuningData']


def task_of(paths: Sequence[str], candidates: Candidates = None) -> str:
    """Returns the task of raw files: 'tile', 'layout', or '' if none can be read.

    Args:
        paths: the files; the first readable one decides.
        candidates: configurations instead of the files' runs, which decide first.
    """
    if candidates:
        # Candidates of layouts name a list of them; those of tiles their bounds.
        layouts = isinstance(candidates[0], Mapping) and 'layouts' in candidates[0]
        return reading.LAYOUT if layouts else reading.TILE
    for path in paths:
        with contextlib.suppress(ValueError, OSError):  # raised again when it is ranked
            if kind := reader.tuning_kind(path):
                return kind
    return ''


def default_run(sources: Mapping[str, Source], task: str) -> str:
    """Returns the run for those who name none: pretrained, or the estimate.

    The run that ships was trained on tiles of a CPU; formulas of a TPU know more about
    layouts, and about modules that were compiled for a TPU.

    Args:
        sources: from `read_sources`; the first one decides.
    """
    if task == reading.LAYOUT:
        return finding.ESTIMATE
    for source in sources.values():
        if isinstance(source, reader.Program):
            modules = [source.module]
        else:
            modules = [tuning.module for tuning in source.modules[:1]]
        if any(map(is_of_tpu, modules)):
            return finding.ESTIMATE
        break
    return finding.PRETRAINED


def is_of_tpu(module: protos.HloModuleProto) -> bool:
    """Returns whether a module was compiled for a TPU, whose layouts have tiles."""
    return any(
        instruction.shape.layout.tiles
        for computation in module.computations
        for instruction in computation.instructions
    )


def read_sources(
    paths: Sequence[str], options: reader.Options = reader.Options()
) -> dict[str, Source]:
    """Reads what shows that there is something to load a model for.

    These are all programs, and, unless a program comes before it, the first file of
    tuning data that can be read; `rank_files` reads the others one by one.

    Returns:
        Path -> program or file.

    Raises:
        ValueError: nothing can be read.
    """
    sources: dict[str, Source] = {}
    failed: list[str] = []
    for path in paths:
        try:
            if not (sources and reader.tuning_kind(path)):
                sources[path] = _read(path, options)
        except (ValueError, OSError) as error:
            failed.append(text.one_line(error, path))
    if paths and len(failed) == len(paths):
        others = f' (and {text.count(len(failed) - 1, "other")})'
        raise ValueError(failed[0] + (others if len(failed) > 1 else ''))
    return sources


def modules(
    paths: Sequence[str],
    kind: str,
    chosen: str | None,
    outcome: outcomes.Outcome,
    whole: bool,
    sources: Mapping[str, Source],
    options: reader.Options = reader.Options(),
) -> Iterator[Module]:
    """Yields modules of files and programs: all, or the one called `chosen`.

    Args:
        kind: of the files that the model ranks.
        outcome: files that cannot be read are added.
        whole: whether configurations are given: programs are not cut into kernels, and
            files of both kinds are taken.
    """
    names, exists = [], False
    for number, path in enumerate(paths, start=1):
        try:
            source = sources.get(path) or _read(path, options)
            tunings = _modules_of(source, kind, outcome, whole)
        except (ValueError, OSError) as error:
            outcome.failed.append(text.one_line(error, path))
            continue
        title = f'reading {os.path.basename(path)} ({number}/{len(paths)})'
        for tuning in phases.each(tunings, title, len(tunings), 'module'):
            name = tuning.module.name
            own_names = name, raw_lib.safe_name(name), raw_lib.graph_id(tuning)
            if chosen is None or chosen in own_names:
                exists = True
                yield path, tuning
            # Of all modules, for the message if none has the name that is asked for.
            names.append(name)
    if chosen is not None and names and not exists:
        near = difflib.get_close_matches(chosen, names, n=1, cutoff=0.3)
        raise ValueError(
            f'--module: none of {text.count(len(names), "module")} is called '
            f'{chosen!r}; there is {(near or names)[0]!r}'
        )


def _read(path: str, options: reader.Options) -> Source:
    """Reads a file or program; raises ValueError or OSError."""
    if reader.tuning_kind(path):
        return reading.read_tuning(path)
    return reader.read_program(path, options=options)


def _modules_of(
    source: Source, kind: str, outcome: outcomes.Outcome, whole: bool
) -> Sequence[protos.ModuleTuningData]:
    """Returns the ModuleTuningData of a file or program of one kind."""
    if isinstance(source, reader.Program):
        return kernels_of(source, kind, outcome, whole)
    if source.kind != kind and not whole:
        raise ValueError(
            f'is a {source.kind} file, and the model ranks {kind} files; give a '
            f'model that was trained on {source.kind}s'
        )
    return source.modules


def kernels_of(
    program: reader.Program, kind: str, outcome: outcomes.Outcome, whole: bool
) -> list[protos.ModuleTuningData]:
    """Returns a program's kernels with candidates, or all of it without any."""
    if whole:
        return [protos.ModuleTuningData(module=program.module)]
    cut_out = removal.counts(program.module)
    if cut_out:
        text.note(f'{program.source}: cut out: {removal.described(cut_out)}')
    skipped: collections.Counter[str] = collections.Counter()
    optimiser = functools.partial(measure.optimise, seconds=program.seconds or 600)
    tunings = proposals.tunings(program, kind, _CANDIDATES, _SEED, skipped, optimiser)
    kernels = list(tunings)
    if cut_out and not kernels and not skipped:
        skipped[f'all is cut out: {removal.described(cut_out)}'] += 1
    for reason, count in skipped.items():
        where = text.count(count, 'kernel') + f' of {program.name}'
        outcome.skipped.setdefault(reason, []).append(where)
    return kernels
