"""Evaluates, compares and averages finished runs, for commands.

The functions take the parsed options of their commands.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import contextlib
import sys

from baselines.core import files
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.data import collections
from baselines.evaluation import comparison
from baselines.evaluation import ensembles
from baselines.evaluation import report
from baselines.evaluation import submission
from baselines.evaluation import tables
from baselines.runs import differences
from baselines.runs import finding
from baselines.scoring import ensemble
from baselines.scoring import measuring
from baselines.scoring import prediction


def evaluate_runs(args: argparse.Namespace, names: Sequence[str]) -> None:
    """Prints the measurements of runs, or of a file of scores: tables, and one of all.

    Args:
        names: names of the runs; there may be none with --predictions.

    Raises:
        ValueError: a run, the file or the data are unusable, or the data have no
            runtimes.
        OSError: --output cannot be written.
    """
    _check_output(args)
    summaries: text.JsonObject = {}
    options = settings_lib.make_from_options(prediction.Options, args)
    predictors = prediction.find_all(names, options)
    if args.predictions:
        name = args.collection or collections.NAMES[0]
        collection = collections.find_collection(name)
        predictors[args.predictions] = prediction.Predictor(
            collection, options, name=args.predictions
        )
    labels = ensemble.label_predictors(predictors)
    # The JSON has programs, whose intervals take as long as all else.
    is_full = args.by_program or args.json or tables.is_json(args.output or '.csv')
    measurer = measuring.Measurer(args.split, args.protocol, is_full)
    # Errors in data are raised before a model is read, and TensorFlow imported.
    opened = {name: measurer.open(p) for name, p in predictors.items()}
    for predictor in predictors.values():
        predictor.read()
    for model_dir in differences.sort_labels(labels):
        given = args.predictions if model_dir == args.predictions else ''
        predictor = predictors[model_dir]
        summary, _ = measurer.measure(predictor, opened[model_dir], given)
        summary.update(labels[model_dir]._asdict())
        summaries[model_dir] = summary
    if not args.json:
        shown = summaries if args.by_program or len(summaries) == 1 else {}
        if len(summaries) > 1:
            print(comparison.format_runs(summaries) + '\n' * bool(shown))
        for model_dir, summary in shown.items():
            _print_summary(summary, model_dir, args.by_program)
    content = summary if len(summaries) == 1 else summaries
    _write_results(content, comparison.make_run_tables(summaries), args)


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
    sides = _find_compared_runs(args)
    options = settings_lib.make_from_options(prediction.Options, args)
    with finding.as_flag('--compare'):
        # All of them together: they have to score the same graphs.
        predictors = ensemble.load([*sides[0], *sides[1]], options, fewest=2)
    labels = ensemble.label_predictors(predictors)
    for name, side in zip(args.compare, sides):
        models = sorted({labels[model_dir].group for model_dir in side})
        if len(models) > 1:
            raise ValueError(
                f'--compare: {name!r} must be of one model, not {", ".join(models)}'
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
        **scored.describe(),
        'graphs': len(scored.store),
        'programs': len(programs),
        **{
            name: {'names': [labels[d].name for d in side], 'dirs': list(side)}
            for name, side in zip('ab', sides)
        },
        'measures': comparison.paired_test(task, first, second),
    }
    if not args.json:
        print(comparison.format_test(test))
    _write_results(test, [comparison.make_test_rows(test)], args)


def _find_compared_runs(args: argparse.Namespace) -> list[list[str]]:
    """Returns the model directories of the two models of --compare.

    Raises:
        ValueError: an option does not go with --compare, there are no such runs, or
            one of them belongs to both models.
    """
    if args.dirs or args.predictions:
        raise ValueError('--compare names runs: leave --dir and --predictions out')
    if args.runs:
        raise ValueError(
            f'--compare must have two names, not {len(args.compare) + len(args.runs)}; '
            'the name of a model, or a shared --run_id, names all its seeds'
        )
    if args.protocol == report.PUBLISHED:
        raise ValueError('--compare is on all configurations: leave --protocol out')
    with finding.as_flag('--compare'):
        sides = [
            finding.find_all([finding.prefix_folder(args.out_dir, name)])
            for name in args.compare
        ]
    shared = [model_dir for model_dir in sides[0] if model_dir in sides[1]]
    if shared:
        raise ValueError(f'--compare: {shared[0]} is on both sides; name two models')
    return sides


def _check_output(args: argparse.Namespace) -> None:
    """Raises ValueError or OSError where --output cannot be written."""
    if args.output:
        tables.check_ending(args.output)
        files.check_file_writable(args.output, 'output', tables.BEGINNINGS)


def _write_results(
    content: text.JsonObject,
    rows_of_tables: Sequence[tables.Table],
    args: argparse.Namespace,
) -> None:
    """Prints JSON for --json, and writes --output in the format of its ending."""
    if args.json:
        print(text.to_json(content))
    if args.output:
        tables.write_tables(args.output, rows_of_tables, content)


def average_runs(args: argparse.Namespace, names: Sequence[str]) -> None:
    """Writes the ranking of several runs together, and prints its gain over them.

    Args:
        names: names of the runs, at least two.

    Raises:
        ValueError: a run, a weight or the data are unusable, or measurements are asked
            for and the data have no runtimes.
        OSError: a file cannot be written.
    """
    files.check_file_writable(args.output, 'output', [submission.HEADER])
    options = settings_lib.make_from_options(prediction.Options, args)
    predictors = ensemble.load(names, options, fewest=2)
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
    if args.json:
        print(text.to_json(summary))
    else:
        print(f'\n{comparison.format_ensemble(summary)}')


def _print_summary(
    summary: text.JsonObject, name: str, by_program: bool = True
) -> None:
    """Prints the table of a run's measurements."""
    print(f'{summary["name"]} on {report.data_title(summary)}: {name}')
    print(report.format_table(summary, by_program))
