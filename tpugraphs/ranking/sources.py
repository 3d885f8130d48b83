"""Ranks what arguments name: the modules of raw files, and the kernels of programs.

Raw files have candidates; programs are cut into kernels, which get candidates here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
import contextlib
import difflib
import io
import os
import sys
from typing import Any

import tqdm

from baselines import command_line
from baselines.core import files
from baselines.core import phases
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.data import hardware
from baselines.data import raw as raw_lib
from baselines.evaluation import choices
from baselines.evaluation import choices_output
from baselines.hlo import candidates as candidates_lib
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.runs import finding
from baselines.runs import listing
from baselines.scoring import prediction
from tpugraphs.extract import outcomes
from tpugraphs.programs import reader
from tpugraphs.ranking import measured_choices
from tpugraphs.ranking import ranking


def rank_sources(args: argparse.Namespace) -> int:
    """Prints a run's ranking of the configurations in raw files, and writes it.

    Args:
        args: the parsed options of `tpugraphs rank`.

    Returns:
        1 if a file or module was wrong, else 0.

    Raises:
        ValueError: the run is unusable, or nothing could be ranked.
        OSError: --output cannot be written.
    """
    kind = choices_output.writer_of(args.output) if args.output else None
    paths = reader.find_sources(args.modules)
    if kind:
        inputs = [*paths, args.candidates or '']
        files.check_file_writable(args.output, 'output', [kind.beginning], inputs)
    candidates = candidates_lib.read(args.candidates) if args.candidates else None
    options = reader.Options(args.batch_size, args.seconds)
    # Before a model, which takes seconds.
    sources = read_sources(paths, options)
    if args.measure is not None:
        measured_choices.check(args.measure, paths, sources)
        if candidates is not None:
            raise ValueError('--measure times tiles of kernels; leave out --candidates')
    predictor = _load_predictor(args, paths, candidates, sources)
    if args.measure is not None and predictor.collection.task == reading.LAYOUT:
        raise ValueError(f'--measure times tiles, and {predictor.name} ranks layouts')
    outcome, summary = outcomes.Outcome(), choices.Summary()
    most_rows = 10 if args.top is None else args.top  # of a module's table
    most_rows, interrupted = max(most_rows, args.measure or 0), False
    json_output = io.StringIO()  # printed at the end, if nothing is wrong
    writers: list[choices_output.Writer] = []
    if args.json:
        most_rows = 0
        writers.append(choices_output.Json(json_output, predictor.name, args.top))
    with contextlib.ExitStack() as stack:
        if kind:
            written = files.write_atomically(args.output, encoding='utf-8', newline='')
            writers.append(kind(stack.enter_context(written), predictor.name))
        modules = rank_files(
            paths, predictor, outcome, args.module, candidates, sources, options
        )
        if args.measure is not None:
            modules = measured_choices.add_times(modules, args.measure)
        try:
            for ranked in modules:
                summary.add(ranked)
                for writer in writers:
                    writer.add(ranked)
                if most_rows:
                    # A progress bar may be on the same terminal.
                    table = choices_output.module_table(ranked, most_rows)
                    tqdm.tqdm.write(f'{table}\n')
        except KeyboardInterrupt:
            # What was measured is printed.
            if args.measure is None or not summary.modules:
                raise
            interrupted = True
        if not summary.modules:
            *others, last = outcome.failed or [outcome.why_nothing()]
            _print_errors(others)
            raise ValueError(last)
        for writer in writers:
            writer.finish(summary.to_json())
    _print_errors(outcome.failed)
    if args.json:
        print(json_output.getvalue(), end='')
    else:
        print(choices_output.summary_table(summary.to_json()))
    remarks = choices_output.remarks(outcome.skipped, outcome.unknown_opcodes)
    if args.output:
        remarks.append(f'written: {files.expand(args.output)}')
    for line in remarks:
        print(line, file=sys.stderr if args.json else sys.stdout)
    if interrupted:
        raise KeyboardInterrupt
    return 1 if outcome.failed else 0


def rank(
    predictor: prediction.Predictor, source: Any, candidates: ranking.Candidates = None
) -> tuple[list[choices.RankedModule], outcomes.Outcome]:
    """Ranks the configurations of raw files, records or an HLO module.

    Args:
        source: a path of raw files and programs or several, a record or several, an
            HloModuleProto, or a `reader.Program`.
        candidates: configurations instead of its own, as in `hlo.candidates`.

    Returns:
        The ranked graphs, and the errors of files and modules that cannot be ranked.

    Raises:
        ValueError: no graph can be ranked; says why.
    """
    outcome = outcomes.Outcome()
    if isinstance(source, reader.Program) or hasattr(source, 'SerializeToString'):
        program, whole = reader.read_program(source), candidates is not None
        task = predictor.collection.task
        kernels = ranking.kernels_of(program, task, outcome, whole)
        modules = ((program.source, tuning) for tuning in kernels)
        ranked = [*ranking.rank_modules(modules, predictor, outcome, candidates)]
    else:
        alone = isinstance(source, (str, os.PathLike, *ranking.RECORDS))
        if not alone and not isinstance(source, Iterable):
            raise ValueError(
                'to rank are paths of raw files, records or a program, not '
                f'{type(source).__name__}'
            )
        items = [source] if alone else list(source)
        if items and all(isinstance(item, (str, os.PathLike)) for item in items):
            paths = reader.find_sources([os.fspath(item) for item in items])
            ranked = [*rank_files(paths, predictor, outcome, candidates=candidates)]
        else:
            ranked = [ranking.rank_record(predictor, r, candidates) for r in items]
    if not ranked:
        raise ValueError(outcome.why_nothing())
    return ranked, outcome


def rank_files(
    paths: Sequence[str],
    predictor: prediction.Predictor,
    outcome: outcomes.Outcome,
    module: str | None = None,
    candidates: ranking.Candidates = None,
    sources: Mapping[str, reader.Source] | None = None,
    options: reader.Options = reader.Options(),
) -> Iterator[choices.RankedModule]:
    """Ranks the configurations of every module of raw files.

    All runs without error mark are ranked, measured or not.

    Args:
        paths: files of the collection that the run is of, and programs as of
            `reader.read_program`, which are cut into kernels.
        outcome: files and modules that cannot be ranked are added.
        module: only this one, by its name or graph id.
        candidates: configurations instead of the files' runs, as in
            `hlo.candidates`; programs are then ranked whole.
        sources: those of `paths` that `read_sources` has read.
        options: options of reading programs.

    Yields:
        Modules in the order of the files.

    Raises:
        ValueError: there is no such module, or a candidate is not as it should be.
    """
    kind, whole = predictor.collection.task, candidates is not None
    modules = _modules(paths, kind, module, outcome, whole, sources or {}, options)
    return ranking.rank_modules(modules, predictor, outcome, candidates)


def _load_predictor(
    args: argparse.Namespace,
    paths: Sequence[str],
    candidates: ranking.Candidates,
    sources: dict[str, reader.Source],
) -> prediction.Predictor:
    """Loads the run of --dir, or one that suits the files; notes which one it is."""
    name, task = command_line.run_of(args) if args.dirs else '', ''
    # These names are of runs of both tasks: the files tell which one is meant.
    if os.path.basename(name) in ('', finding.LATEST, finding.ESTIMATE):
        task = task_of(paths, candidates)
    if not name:
        name = default_run(sources, task)
    if name == finding.PRETRAINED:
        text.note(finding.about_pretrained())
    elif not args.dirs:
        text.note(f'{name}: formulas of a TPU v3; --dir names a run of yours')
    options = settings_lib.from_options(prediction.Options, args, task=task, once=True)
    predictor = prediction.load(name, options)
    if os.path.basename(name) == finding.LATEST and predictor.run:
        text.note(f'{finding.LATEST} is {listing.in_words(predictor.run)}')
    if predictor.run and (other := hardware.difference(name, predictor.run.info)):
        print(f'warning: {other}', file=sys.stderr)
    return predictor


def _print_errors(messages: Sequence[str]) -> None:
    """Prints errors of files and modules to stderr."""
    for message in messages:
        print(f'error: {message}', file=sys.stderr)


def task_of(paths: Sequence[str], candidates: ranking.Candidates = None) -> str:
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


def default_run(sources: Mapping[str, reader.Source], task: str) -> str:
    """Returns the run for those who name none: pretrained, or the estimate.

    The run that ships was trained on tiles of a CPU; formulas of a TPU know more about
    layouts, and about modules that were compiled for a TPU.

    Args:
        sources: from `read_sources`; the first one decides.
    """
    source = next(iter(sources.values()))
    if isinstance(source, reader.Program):
        modules = [source.module]
    else:
        modules = [tuning.module for tuning in source.modules[:1]]
    is_of_tpu = task == reading.LAYOUT or any(map(ranking.is_of_tpu, modules))
    return finding.ESTIMATE if is_of_tpu else finding.PRETRAINED


def read_sources(
    paths: Sequence[str], options: reader.Options = reader.Options()
) -> dict[str, reader.Source]:
    """Reads what shows that there is something to load a model for.

    These are all programs, and, unless a program comes before it, the first file of
    tuning data that can be read; `rank_files` reads the others one by one.

    Returns:
        Path -> program or file.

    Raises:
        ValueError: nothing can be read.
    """
    sources: dict[str, reader.Source] = {}
    failed: list[str] = []
    for path in paths:
        try:
            if not (sources and reader.tuning_kind(path)):
                sources[path] = reader.read_source(path, options)
        except (ValueError, OSError) as error:
            failed.append(text.one_line(error, path))
    if paths and len(failed) == len(paths):
        others = f' (and {text.count(len(failed) - 1, "other")})'
        raise ValueError(failed[0] + (others if len(failed) > 1 else ''))
    return sources


def _modules(
    paths: Sequence[str],
    kind: str,
    chosen: str | None,
    outcome: outcomes.Outcome,
    whole: bool,
    sources: Mapping[str, reader.Source],
    options: reader.Options,
) -> Iterator[ranking.Module]:
    """Yields modules of files and programs: all, or the one called `chosen`.

    Args:
        kind: kind of the files that the model ranks.
        outcome: files that cannot be read are added.
        whole: configurations are given: programs are not cut into kernels, and
            files of both kinds are taken.
    """
    names, exists = [], False
    for number, path in enumerate(paths, start=1):
        try:
            source = sources.get(path) or reader.read_source(path, options)
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


def _modules_of(
    source: reader.Source, kind: str, outcome: outcomes.Outcome, whole: bool
) -> Sequence[protos.ModuleTuningData]:
    """Returns the ModuleTuningData of a file or program of one kind."""
    if isinstance(source, reader.Program):
        return ranking.kernels_of(source, kind, outcome, whole)
    if source.kind != kind and not whole:
        raise ValueError(
            f'is a {source.kind} file, and the model ranks {kind} files; give a '
            f'model that was trained on {source.kind}s'
        )
    return source.modules
