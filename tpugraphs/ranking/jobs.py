"""Runs `tpugraphs rank`: prints and writes the ranking of raw files and programs."""

import argparse
from collections.abc import Sequence
import contextlib
import io
import os
import sys

import tqdm

from baselines import command_line
from baselines.core import files
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.data import hardware
from baselines.evaluation import choices
from baselines.evaluation import choices_output
from baselines.hlo import candidates as candidates_lib
from baselines.hlo import reading
from baselines.runs import finding
from baselines.runs import listing
from baselines.scoring import prediction
from tpugraphs import measure
from tpugraphs.extract import outcomes
from tpugraphs.programs import reader
from tpugraphs.programs import xla
from tpugraphs.ranking import measured_choices
from tpugraphs.ranking import ranking
from tpugraphs.ranking import sources as sources_lib


def rank_modules(args: argparse.Namespace) -> int:
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
    sources = sources_lib.read_sources(paths, options)
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
    writers: list[choices_output.Csv | choices_output.Json] = []
    if args.json:
        most_rows = 0
        writers.append(choices_output.Json(json_output, predictor.name, args.top))
    with contextlib.ExitStack() as stack:
        if kind:
            written = files.write_atomically(args.output, encoding='utf-8', newline='')
            writers.append(kind(stack.enter_context(written), predictor.name))
        modules = ranking.rank_files(
            paths, predictor, outcome, args.module, candidates, sources, options
        )
        if args.measure is not None:
            modules = measured_choices.timed(modules, args.measure)
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


def _load_predictor(
    args: argparse.Namespace,
    paths: Sequence[str],
    candidates: sources_lib.Candidates,
    sources: dict[str, sources_lib.Source],
) -> prediction.Predictor:
    """Loads the run of --dir, or one that suits the files; notes which one it is."""
    name, task = command_line.run_of(args) if args.dirs else '', ''
    # These names are of runs of both tasks: the files tell which one is meant.
    if os.path.basename(name) in ('', finding.LATEST, finding.ESTIMATE):
        task = sources_lib.task_of(paths, candidates)
    if not name:
        name = sources_lib.default_run(sources, task)
    if name == finding.PRETRAINED:
        text.note(finding.about_pretrained())
    elif not args.dirs:
        text.note(f'{name}: formulas of a TPU v3; --dir names a run of yours')
    options = settings_lib.from_options(prediction.Options, args, task=task, once=True)
    predictor = prediction.load(name, options)
    if os.path.basename(name) == finding.LATEST and predictor.run:
        text.note(f'{finding.LATEST} is {listing.in_words(predictor.run)}')
    if predictor.run and (other := _other_hardware(name, predictor.run.info)):
        print(f'warning: {other}', file=sys.stderr)
    return predictor


def _other_hardware(name: str, info: text.JsonObject) -> str:
    """Says how this machine is not that of a run's measurements; '' where it is.

    Args:
        info: of the run file; runs of published data name no processor.
    """
    trained = str(info.get('measured_on') or '')
    here = measure.processor()
    if trained not in ('', hardware.GPU, here):
        return f'{name} is for {text.printable(trained)}, and this is {here}'
    releases, installed = info.get('xla_releases') or [], xla.release()
    if releases and installed not in releases:
        numbers = ' and '.join(map(hardware.release_name, releases))
        here = hardware.release_name(installed)
        return f'{name} is for jaxlib {numbers}, and {here} is installed'
    return ''


def _print_errors(messages: Sequence[str]) -> None:
    """Prints errors of files and modules to stderr."""
    for message in messages:
        print(f'error: {message}', file=sys.stderr)
