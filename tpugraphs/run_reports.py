"""Evaluates, compares, averages and ranks with finished runs, for commands.

The functions take the parsed options of their commands.
"""

import argparse
import contextlib
import io
import os
import sys
from typing import Any, Dict, List, Sequence

import tqdm

from baselines import command_line
from baselines.core import files
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.evaluation import choices
from baselines.evaluation import choices_output
from baselines.evaluation import comparison
from baselines.evaluation import ensembles
from baselines.evaluation import report
from baselines.evaluation import tables
from baselines.hlo import candidates as candidates_lib
from baselines.runs import differences
from baselines.runs import finding
from baselines.runs import listing
from baselines.scoring import ensemble
from baselines.scoring import graph_source
from baselines.scoring import loading
from tpugraphs import rank_sources
from tpugraphs import ranking
from tpugraphs.distribute import beam
from tpugraphs.extract import outcomes
from tpugraphs.programs import reader


def evaluate_runs(args: argparse.Namespace) -> None:
    """Prints the measurements of runs: a table for every run, and one of all.

    Raises:
        ValueError: a run or the data are unusable, or the data have no runtimes.
        OSError: --output cannot be written.
    """
    _check_output(args)
    summaries: Dict[str, Any] = {}
    names, options = command_line.runs_of(args), beam.data_options(args)
    predictors = loading.load_predictors(names, options)
    labels = loading.labels_of(predictors)
    for model_dir in differences.in_order(labels):
        summary, _ = predictors[model_dir].measure(args.split, args.protocol)
        summary.update(labels[model_dir]._asdict())
        if not args.json:
            _print_summary(summary, model_dir)
        summaries[model_dir] = summary
    if len(summaries) > 1 and not args.json:
        print(f'\n{comparison.format_runs(summaries)}')
    content = summary if len(summaries) == 1 else summaries
    _write(content, comparison.runs_tables(summaries), args)


def compare_runs(args: argparse.Namespace) -> None:
    """Prints whether one model is better than another, tested by program.

    A model is a run, or several that differ in their seeds.  The JSON is an object:
    `task`, `collection`, `split`, `data`; the numbers of `graphs` and `programs`;
    `a` and `b`, with the `names` and `dirs` of their runs; `measures`, from
    `comparison.paired_test`.

    Raises:
        ValueError: the models share a run; one has runs of different settings; they
            are of different collections or would score different graphs; a run or
            the data are unusable, or the data have no runtimes.
        OSError: --output cannot be written.
    """
    _check_output(args)
    if args.dirs:
        raise ValueError('--compare names the runs itself: leave --dir out')
    if args.runs:
        raise ValueError(
            f'--compare takes two names, and {len(args.compare) + len(args.runs)} were '
            'given: if the shell has expanded a pattern, quote it, as in '
            "--compare 'FOLDER/model_*' OTHER"
        )
    if args.protocol == report.PUBLISHED:
        raise ValueError('--compare is on all configurations: leave --protocol out')
    with finding.as_flag('--compare'):
        sides = [
            finding.find_all([finding.in_folder(args.out_dir, name)])
            for name in args.compare
        ]
    shared = [model_dir for model_dir in sides[0] if model_dir in sides[1]]
    if shared:
        raise ValueError(
            f'--compare: {shared[0]} is on both sides; name two different models'
        )
    options = beam.data_options(args)
    with finding.as_flag('--compare'):
        predictors = ensemble.load([*sides[0], *sides[1]], options)
    labels = loading.labels_of(predictors)
    for name, side in zip(args.compare, sides):
        models = sorted({labels[model_dir].group for model_dir in side})
        if len(models) > 1:
            raise ValueError(
                f'--compare: {name!r} names runs of different settings: '
                f'{", ".join(models)}; name those of one'
            )
    with finding.as_flag('--compare'):
        scored = ensemble.score(predictors, args.split, must_measure=True)
    results = scored.results(scored.scores)
    first, second = results[: len(sides[0])], results[len(sides[0]) :]
    task = scored.first.collection.task
    group_of = report.GROUPINGS[task].group_of
    programs = set(map(group_of, scored.store.graph_ids))
    test = {
        'task': task,
        **scored.first.describe(scored.store),
        'graphs': scored.store.num_graphs,
        'programs': len(programs),
        **{
            name: {'names': [labels[d].name for d in side], 'dirs': list(side)}
            for name, side in zip('ab', sides)
        },
        'measures': comparison.paired_test(task, first, second),
    }
    if not args.json:
        print(comparison.format_test(test))
    _write(test, [comparison.rows_of_test(test)], args)


def _check_output(args: argparse.Namespace) -> None:
    """Raises ValueError or OSError where --output cannot be written."""
    if args.output:
        tables.check_ending(args.output)
        files.check_file_writable(args.output, 'output')


def _write(
    content: Dict[str, Any],
    rows_of_tables: Sequence[tables.Table],
    args: argparse.Namespace,
) -> None:
    """Prints JSON for --json, and writes --output in the format of its ending."""
    if args.json:
        print(text.to_json(content))
    if args.output:
        tables.write(args.output, rows_of_tables, content)


def average_runs(args: argparse.Namespace) -> None:
    """Writes the ranking of several runs together, and prints its gain over them.

    Raises:
        ValueError: a run, a weight or the data are unusable, or measurements are asked
            for and the data have no runtimes.
        OSError: a file cannot be written.
    """
    files.check_file_writable(args.output, 'output')
    predictors = ensemble.load(command_line.runs_of(args), beam.data_options(args))
    ensembles.check_weights(args.weights, len(predictors))
    must_measure = args.evaluate or args.json
    scored = ensemble.score(predictors, args.split, must_measure)
    averaged = [
        ensembles.average(members, args.weights, args.by)
        for members in zip(*scored.scores)
    ]
    with contextlib.redirect_stdout(sys.stderr if args.json else sys.stdout):
        scored.first.write(args.output, scored.store, averaged)
    if not scored.store.has_runtimes:
        return
    summary = scored.measure(averaged, args.by)
    if args.evaluate and not args.json:
        together = f'{len(scored.predictors)} runs', summary['ensemble']
        for name, member in [*summary['members'].items(), together]:
            print()
            _print_summary(member, name)
    shown = lambda: f'\n{comparison.format_ensemble(summary)}'
    command_line.show(args, summary, shown)


def _print_summary(summary: Dict[str, Any], name: str) -> None:
    """Prints the table of a run's measurements."""
    print(f'{summary["name"]} on {report.data_title(summary)}: {name}')
    print(report.format_table(summary))


def rank_modules(args: argparse.Namespace) -> int:
    """Prints a run's ranking of the configurations in raw files, and writes it.

    Returns:
        1 if a file or module was wrong, else 0.

    Raises:
        ValueError: the run is unusable, or nothing could be ranked.
        OSError: --output cannot be written.
    """
    kind = choices_output.writer_of(args.output) if args.output else None
    paths = reader.find_sources(args.modules)
    candidates = candidates_lib.read(args.candidates) if args.candidates else None
    name, task = command_line.run_of(args) if args.dirs else '', ''
    if os.path.basename(name) in ('', finding.LATEST, finding.ESTIMATE):
        task = rank_sources.task_of(paths, candidates)
    sources = rank_sources.read_programs(paths)  # before a model, which takes seconds
    if not name:
        name = rank_sources.default_run(paths, sources, task)
    if name == finding.PRETRAINED:
        text.note(finding.about_pretrained())
    elif not args.dirs:
        text.note(f'{name}: formulas of a TPU v3; --dir names a run of yours')
    options = settings_lib.from_options(
        graph_source.SourceOptions, args, task=task, once=True
    )
    predictor = loading.load_predictor(name, options)
    model_dir = predictor.name
    if os.path.basename(name) == finding.LATEST and predictor.run:
        text.note(f'{finding.LATEST} is {listing.in_words(predictor.run)}')
    content = io.StringIO()
    writers: List[choices_output.Writer] = []
    shown = 10 if args.top is None else args.top
    if args.json:
        shown = 0
        writers = [choices_output.Json(content, model_dir, args.top)]
    outcome, summary = outcomes.Outcome(), choices.Summary()
    with contextlib.ExitStack() as stack:
        if kind:
            written = files.write_atomically(args.output, encoding='utf-8', newline='')
            stream = stack.enter_context(written)
            writers.append(kind(stream, model_dir))
        for ranked in ranking.rank_files(
            paths, predictor, outcome, args.module, candidates, sources
        ):
            summary.add(ranked)
            for writer in writers:
                writer.add(ranked)
            if shown:
                # A progress bar may be on the same terminal.
                tqdm.tqdm.write(choices_output.module_table(ranked, shown) + '\n')
        if not summary.modules:
            *others, last = outcome.failed or [outcome.nothing()]
            _print_errors(others)
            raise ValueError(last)
        for writer in writers:
            writer.finish(summary.to_json())
    _print_errors(outcome.failed)
    lines = choices_output.remarks(outcome.skipped, outcome.unknown_opcodes)
    lines += [f'written: {files.expand(args.output)}'] if args.output else []
    if args.json:
        print(content.getvalue(), end='')
    else:
        print(choices_output.summary_table(summary.to_json()))
    for line in lines:
        print(line, file=sys.stderr if args.json else sys.stdout)
    return 1 if outcome.failed else 0


def _print_errors(messages: Sequence[str]) -> None:
    """Prints errors of files and modules to stderr."""
    for message in messages:
        print(f'error: {message}', file=sys.stderr)
