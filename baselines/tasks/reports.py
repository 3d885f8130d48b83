"""What `tpugraphs evaluate`, `ensemble` and `rank` print and write of finished runs."""

import contextlib
import io
import sys
from typing import Any, Dict, Optional, Sequence

import tqdm

from baselines import files
from baselines import text
from baselines.extraction import outcomes
from baselines.hlo import candidates as candidates_lib
from baselines.hlo import reading
from baselines.ranking import choices
from baselines.ranking import choices_files
from baselines.ranking import choices_text
from baselines.ranking import comparison
from baselines.ranking import ensembles
from baselines.ranking import paired
from baselines.ranking import report
from baselines.tasks import compare
from baselines.tasks import ensemble
from baselines.tasks import predict
from baselines.tasks import prediction
from baselines.tasks import rank
from baselines.training import runs


def evaluate_runs(
    model_dirs: Sequence[str],
    data: prediction.DataOptions,
    models_file: str,
    split: str,
    *,
    as_json: bool = False,
    output: Optional[str] = None,
) -> None:
    """Prints the measurements of runs: a table of each, and one of all.

    The arguments are the command's options; `as_json` prints JSON in place of
    tables, `output` is a file for it.

    Raises:
        ValueError: a run or the data are unusable, or no runtime is known.
        OSError: `output` cannot be written.
    """
    summaries: Dict[str, Any] = {}
    predictors = predict.load_predictors(model_dirs, data, models_file)
    labels = predict.labels_of(predictors)
    for model_dir, predictor in predictors.items():
        summary = predict.measure(predictor, split)
        summary.update(labels[model_dir]._asdict())
        if not as_json:
            _print_summary(summary, model_dir)
        summaries[model_dir] = summary
    if len(summaries) > 1 and not as_json:
        print(f'\n{comparison.format_runs(summaries)}')
    _write_json(summary if len(summaries) == 1 else summaries, as_json, output)


def compare_runs(
    ours: str,
    theirs: str,
    data: prediction.DataOptions,
    models_file: str,
    split: str,
    *,
    as_json: bool = False,
    output: Optional[str] = None,
) -> None:
    """Prints whether one model is better than another.

    The arguments are the command's options, see `evaluate_runs`.

    Raises:
        ValueError: what `compare.compare` refuses.
        OSError: `output` cannot be written.
    """
    found = compare.compare(ours, theirs, data, models_file, split)
    if not as_json:
        print(paired.format_test(found))
    _write_json(found, as_json, output)


def _write_json(found: Dict[str, Any], as_json: bool, output: Optional[str]) -> None:
    described = report.to_json(found)
    if as_json:
        print(described)
    if output:
        with files.write_atomically(output) as stream:
            stream.write(described + '\n')


def average_runs(
    model_dirs: Sequence[str],
    data: prediction.DataOptions,
    models_file: str,
    split: str,
    output: str,
    *,
    by: str,
    weights: Optional[Sequence[float]] = None,
    per_program: bool = False,
    json_file: Optional[str] = None,
) -> None:
    """Writes the ranking of several runs together, and prints what they gain.

    The arguments are the command's options; `per_program` is --evaluate.

    Raises:
        ValueError: a run, a weight or the data are unusable, or no runtime is
            known and measurements are asked for.
        OSError: a file cannot be written.
    """
    runs.check_file_writable(output, 'output')
    if json_file:
        runs.check_file_writable(json_file, 'json')
    predictors = ensemble.load(model_dirs, data, models_file)
    ensembles.check_weights(weights, len(predictors))
    scored = ensemble.score(
        predictors, split, must_measure=per_program or bool(json_file)
    )
    averaged = ensemble.average(scored, weights, by)
    rows = ensemble.write(scored, averaged, output)
    print(f'{files.expand(output)}: {rows} rows')
    if not scored.store.has_runtimes:
        return
    found = ensemble.measure(scored, averaged, by)
    if per_program:
        together = f'{len(scored.predictors)} runs', found['ensemble']
        for name, summary in [*found['members'].items(), together]:
            print()
            _print_summary(summary, name)
    print(f'\n{comparison.format_ensemble(found)}')
    if json_file:
        with files.write_atomically(json_file) as stream:
            stream.write(report.to_json(found) + '\n')


def _print_summary(summary: Dict[str, Any], name: str) -> None:
    print(f'{summary["name"]} on {summary["split"]}, {name}')
    print(report.format_table(summary))


def rank_modules(
    inputs: Sequence[str],
    model_dir: str,
    data: prediction.DataOptions,
    models_file: str = '',
    *,
    module: Optional[str] = None,
    top: Optional[int] = None,
    output: Optional[str] = None,
    as_json: bool = False,
    candidates_file: Optional[str] = None,
) -> int:
    """Prints how a run ranks the configurations in raw files, and writes it.

    The arguments are the command's options; `as_json` prints JSON in place of
    tables.  `top` is 10 for tables and all for JSON by default.

    Returns:
        1 if a file or module was wrong, else 0.

    Raises:
        ValueError: the run is unusable, or nothing could be ranked.
        OSError: `output` cannot be written.
    """
    if output:
        choices_files.check_suffix(output)
    paths = reading.find_files(inputs)
    candidates = candidates_lib.read(candidates_file) if candidates_file else None
    predictor = predict.load_predictor(model_dir, data, models_file)
    predictor.scores_once = True
    model_dir = predictor.run.model_dir
    content = io.StringIO()
    printed = choices_files.writer_to(content, model_dir, '.json', top)
    shown = 10 if top is None else top
    outcome, summary = outcomes.Outcome(), choices.Summary()
    with contextlib.ExitStack() as stack:
        written = output and stack.enter_context(
            choices_files.writer(output, model_dir)
        )
        for ranked in rank.rank_files(paths, predictor, outcome, module, candidates):
            summary.add(ranked)
            if written:
                written.add(ranked)
            if as_json:
                printed.add(ranked)
            elif shown:
                # A progress bar may be there, on the same terminal.
                tqdm.tqdm.write(choices_text.module_table(ranked, shown) + '\n')
        if not summary.modules:
            nothing = f'nothing to rank: {text.reasons(outcome.skipped)}'
            *others, last = outcome.failed or [nothing]
            _print_errors(others)
            raise ValueError(last)
        if written:
            written.finish(summary.to_json())
    _print_errors(outcome.failed)
    lines = choices_text.remarks(outcome.skipped, outcome.unknown_opcodes)
    lines += [f'written: {files.expand(output)}'] if output else []
    if as_json:
        printed.finish(summary.to_json())
        print(content.getvalue(), end='')
    else:
        print(choices_text.summary_table(summary.to_json()))
    for line in lines:
        print(line, file=sys.stderr if as_json else sys.stdout)
    return 1 if outcome.failed else 0


def _print_errors(messages: Sequence[str]) -> None:
    for message in messages:
        print(f'error: {message}', file=sys.stderr)
