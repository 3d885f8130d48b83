"""Ranks what arguments name: raw files with candidates, or records.

`RawFiles` reads the files; another distribution may pass a class derived from it, which
reads programs in other forms and makes candidates for them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import difflib
import io
import os
import sys
from typing import Any

import tqdm

from baselines.core import extensions
from baselines.core import files
from baselines.core import phases
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.data import raw as raw_lib
from baselines.evaluation import choices
from baselines.hlo import candidates as candidates_lib
from baselines.hlo import forms
from baselines.hlo import outcomes
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.runs import finding
from baselines.scoring import prediction
from tpugraphs.ranking import ranking

Ranked = Iterator[choices.RankedModule]


class RawFiles:
    """Reads raw files for `tpugraphs rank`."""

    def find(self, patterns: list[str]) -> list[str]:
        """Returns the paths that arguments name; raises ValueError for none."""
        return reading.find_files(patterns, 'rank')

    def read(self, path: str) -> reading.Source:
        """Reads a path; raises ValueError or OSError if it is unusable."""
        return reading.read_source(path, 'rank')

    def read_message(self, message: Any) -> reading.Program:
        """Reads a protobuf message with an HLO module; raises ValueError."""
        data = message.SerializeToString()
        form = forms.detect_form(data)
        if form not in forms.PROTOS:
            raise ValueError(f'to rank is an HloModuleProto or a record, not {form}')
        name = type(message).__name__
        return reading.read_message(data, form, 'program', name)

    def modules(
        self, source: reading.Source, kind: str, outcome: outcomes.Outcome
    ) -> Sequence[protos.ModuleTuningData]:
        """Returns the modules of a source, with their candidates.

        Args:
            kind: 'tile' or 'layout', the kind that the model ranks.
            outcome: what is left out is added.

        Raises:
            ValueError: it is of the other kind, or has no candidates.
        """
        if isinstance(source, reading.Program):
            subject = (
                f'is {source.form} without candidates: give --candidates; ranking it'
            )
            command = f'rank {source.source}'
            raise ValueError(extensions.refer_to_lab(subject, command))
        if source.kind != kind:
            raise ValueError(
                f'is a {source.kind} file, and the model ranks {kind} files; give a '
                f'model that was trained on {source.kind}s'
            )
        return source.modules

    def load_default(
        self,
        source: reading.Source,
        task: str,
        out_dir: str,
        options: prediction.Options,
    ) -> prediction.Predictor:
        """Loads the latest run of a task that can be used, else the estimate.

        Args:
            source: the first one that can be read.
            task: 'tile', 'layout', or '' for both.
            out_dir: the folder of the runs; '' for those where trainings write.
        """
        for run in reversed(finding.list_readable_runs(out_dir, task)):
            try:
                predictor = prediction.load(run.model_dir, options)
            except (ValueError, OSError) as error:
                text.note(f'left out: {text.one_line(error, run.model_dir)}')
                continue
            from baselines.runs import listing

            text.note(f'ranked by the {finding.LATEST} run, {listing.describe(run)}')
            return predictor
        text.note(
            f'{finding.ESTIMATE}: formulas of a TPU v3, since there is no run of '
            f'{task or "tile"}s; --dir names one'
        )
        return prediction.load(finding.ESTIMATE, options)


def rank_sources(
    args: argparse.Namespace,
    name: str,
    raw_files: RawFiles = RawFiles(),
    add_times: Callable[[prediction.Predictor, Ranked], Ranked] = lambda _, ranked: (
        ranked
    ),
) -> int:
    """Prints a run's ranking of the configurations in raw files, and writes it.

    Args:
        args: the parsed options of `tpugraphs rank`.
        name: the run of --dir; '' for one that suits the first file.
        raw_files: reads what the arguments name.
        add_times: adds measured times to what the predictor has ranked.

    Returns:
        1 if a file or module was wrong, else 0.

    Raises:
        ValueError: the run is unusable, or nothing could be ranked.
        OSError: --output cannot be written.
    """
    if args.top is not None and args.top < 0:
        raise ValueError(f'--top must be at least 0, not {args.top}')
    kind = choices.find_writer(args.output) if args.output else None
    paths = raw_files.find(args.modules)
    if kind:
        inputs = [*paths, args.candidates or '']
        files.check_file_writable(args.output, 'output', [kind.beginning], inputs)
    candidates = candidates_lib.read(args.candidates) if args.candidates else None
    sources = _read_first(paths, raw_files)  # before a model, which takes seconds
    predictor = _load_predictor(args, name, raw_files, candidates, *sources.values())
    outcome, summary = outcomes.Outcome(), choices.Summary()
    most_rows = 10 if args.top is None else args.top  # of a module's table
    json_output = io.StringIO()  # printed at the end, if nothing is wrong
    writers: list[choices.Writer] = []
    if args.json:
        most_rows = 0
        writers.append(choices.Json(json_output, predictor.name, args.top))
    with contextlib.ExitStack() as stack:
        if kind:
            written = files.write_atomically(args.output, encoding='utf-8', newline='')
            writers.append(kind(stack.enter_context(written), predictor.name))
        ranking_all = rank_files(
            paths, predictor, outcome, args.module, candidates, raw_files, sources
        )
        for ranked in add_times(predictor, ranking_all):
            summary.add(ranked)
            for writer in writers:
                writer.add(ranked)
            if most_rows:
                # A progress bar may be on the same terminal.
                table = choices.format_module(ranked, most_rows)
                tqdm.tqdm.write(f'{table}\n')
        if not summary.modules:
            *others, last = outcome.failed or [outcome.explain_nothing()]
            _print_errors(others)
            raise ValueError(last)
        for writer in writers:
            writer.finish(summary.to_json())
    _print_errors(outcome.failed)
    if args.json:
        print(json_output.getvalue(), end='')
    else:
        print(choices.format_summary(summary.to_json()))
    remarks = choices.format_remarks(outcome.skipped, outcome.unknown_opcodes)
    if args.output:
        remarks.append(f'written: {files.expand(args.output)}')
    for line in remarks:
        print(line, file=sys.stderr if args.json else sys.stdout)
    return 1 if outcome.failed else 0


def rank(
    predictor: prediction.Predictor,
    source: Any,
    candidates: ranking.Candidates = None,
    raw_files: RawFiles = RawFiles(),
) -> tuple[list[choices.RankedModule], outcomes.Outcome]:
    """Ranks the configurations of raw files, records or an HLO module.

    Args:
        source: a path of raw files or several, a record or several, or an
            HloModuleProto or a `Program`, with candidates.
        candidates: configurations instead of its own, as in `hlo.candidates`.
        raw_files: reads paths and messages.

    Returns:
        The ranked graphs, and the errors of files and modules that cannot be ranked.

    Raises:
        ValueError: no graph can be ranked; says why.
    """
    outcome = outcomes.Outcome()
    if hasattr(source, 'SerializeToString'):
        source = raw_files.read_message(source)
    if isinstance(source, reading.Program):
        kind = predictor.collection.task
        tunings = _tunings(source, kind, outcome, candidates is not None, raw_files)
        modules = ((source.source, tuning) for tuning in tunings)
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
            paths = raw_files.find([os.fspath(item) for item in items])
            ranked = [
                *rank_files(paths, predictor, outcome, None, candidates, raw_files)
            ]
        else:
            ranked = [ranking.rank_record(predictor, r, candidates) for r in items]
    if not ranked:
        raise ValueError(outcome.explain_nothing())
    return ranked, outcome


def rank_files(
    paths: Sequence[str],
    predictor: prediction.Predictor,
    outcome: outcomes.Outcome,
    module: str | None = None,
    candidates: ranking.Candidates = None,
    raw_files: RawFiles = RawFiles(),
    sources: Mapping[str, reading.Source] | None = None,
) -> Ranked:
    """Ranks the configurations of every module of raw files.

    All runs without error mark are ranked, measured or not.

    Args:
        paths: files of the collection that the run is of.
        outcome: files and modules that cannot be ranked are added.
        module: only this one, by its name or graph id.
        candidates: configurations instead of the files' runs, as in
            `hlo.candidates`; programs are then ranked whole.
        raw_files: reads the paths.
        sources: those of `paths` that were read before.

    Yields:
        Modules in the order of the files.

    Raises:
        ValueError: there is no such module, or a candidate is not as it should be.
    """
    kind, whole = predictor.collection.task, candidates is not None
    modules = _choose_modules(
        paths, kind, module, outcome, whole, raw_files, sources or {}
    )
    return ranking.rank_modules(modules, predictor, outcome, candidates)


def _load_predictor(
    args: argparse.Namespace,
    name: str,
    raw_files: RawFiles,
    candidates: ranking.Candidates,
    source: reading.Source,
) -> prediction.Predictor:
    """Loads the run of --dir, or one that suits the first source; notes which it is."""
    # These names are of runs of both tasks: the files tell which one is meant.
    of_both = os.path.basename(name) in ('', finding.LATEST, finding.ESTIMATE)
    task = _find_task(source, candidates) if of_both else ''
    options = settings_lib.make_from_options(
        prediction.Options, args, task=task, once=True
    )
    if name:
        predictor = prediction.load(name, options)
    else:
        predictor = raw_files.load_default(source, task, args.out_dir, options)
    if os.path.basename(name) == finding.LATEST and predictor.run:
        from baselines.runs import listing

        text.note(f'{finding.LATEST} is {listing.describe(predictor.run)}')
    return predictor


def _print_errors(messages: Sequence[str]) -> None:
    """Prints errors of files and modules to stderr."""
    for message in messages:
        print(f'error: {message}', file=sys.stderr)


def _find_task(source: reading.Source, candidates: ranking.Candidates) -> str:
    """Returns the task of candidates, or of a raw file; '' for a program."""
    if candidates:
        # Candidates of layouts name a list of them; those of tiles their bounds.
        layouts = isinstance(candidates[0], Mapping) and 'layouts' in candidates[0]
        return reading.LAYOUT if layouts else reading.TILE
    return source.kind if isinstance(source, reading.RawFile) else ''


def _read_first(paths: Sequence[str], raw_files: RawFiles) -> dict[str, Any]:
    """Reads the first readable path: path -> source.

    It shows that there is something to load a model for; the others are read one by
    one while they are ranked.

    Raises:
        ValueError: none can be read.
    """
    failed: list[str] = []
    for path in paths:
        try:
            return {path: raw_files.read(path)}
        except (ValueError, OSError) as error:
            failed.append(text.one_line(error, path))
    others = f' (and {text.count(len(failed) - 1, "other")})'
    raise ValueError(failed[0] + (others if len(failed) > 1 else ''))


def _choose_modules(
    paths: Sequence[str],
    kind: str,
    chosen: str | None,
    outcome: outcomes.Outcome,
    whole: bool,
    raw_files: RawFiles,
    sources: Mapping[str, reading.Source],
) -> Iterator[ranking.Module]:
    """Yields modules of files: all, or the one called `chosen`.

    Args:
        kind: kind of the files that the model ranks.
        outcome: files that cannot be read are added.
        whole: configurations are given: files of both kinds are taken, and programs.
    """
    names, exists = [], False
    for number, path in enumerate(paths, start=1):
        try:
            source = sources.get(path) or raw_files.read(path)
            tunings = _tunings(source, kind, outcome, whole, raw_files)
        except (ValueError, OSError) as error:
            outcome.failed.append(text.one_line(error, path))
            continue
        title = f'reading {os.path.basename(path)} ({number}/{len(paths)})'
        for tuning in phases.each(tunings, title, len(tunings), 'module'):
            name = tuning.module.name
            own_names = name, raw_lib.clean_name(name), raw_lib.name_graph(tuning)
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


def _tunings(
    source: reading.Source,
    kind: str,
    outcome: outcomes.Outcome,
    whole: bool,
    raw_files: RawFiles,
) -> Sequence[protos.ModuleTuningData]:
    """Returns the modules of a source: with candidates, or without any if `whole`."""
    if not whole:
        return raw_files.modules(source, kind, outcome)
    if isinstance(source, reading.Program):
        return [protos.ModuleTuningData(module=source.module)]
    return source.modules
