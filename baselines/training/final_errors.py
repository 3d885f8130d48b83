"""Measures a finished training on validation, and ranks the test split."""

from collections.abc import Mapping, Sequence
import dataclasses

import numpy as np

from baselines.core import arrays
from baselines.core import phases
from baselines.core import registry
from baselines.core import text
from baselines.data import collections
from baselines.data.packed import splits
from baselines.evaluation import ensembles
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.evaluation import submission
from baselines.scoring import scorer as scorer_lib
from baselines.training import task_data

_Errors = dict[str, text.JsonObject]  # name of a collection -> its errors
_Members = tuple[np.ndarray, ...]  # the scores of a graph by each member

# Fields of the run file of a model that cannot be measured.
UNMEASURED: text.JsonObject = {
    'final_error': {},
    'val_score': None,
    'member_weights': None,
    'test_predictions': {},
}


class MeasuringError(ValueError):
    """Raised where the model of a finished training cannot score a graph."""


def measure_run(data: task_data.TaskData, scorer: scorer_lib.Scorer) -> text.JsonObject:
    """Measures validation and ranks test; prints both.

    Args:
        scorer: of the trained models.

    Returns:
        Fields of the run file.

    Raises:
        MeasuringError: a graph cannot be scored; names it, and the line of the user's
            code.
    """
    settings, stores, score = data.settings, data.stores, None
    collection = settings.collection
    errors: dict[str, _Errors] = {'val': {}, 'test': {}}
    if stores['valid'].has_runtimes:
        members = _score_split(data, scorer, 'valid', 'measuring validation')
        formula = list(data.task.estimates(stores['valid'])) if data.has_prior else None
        if scorer.graph_model is not None and scorer.trees is not None:
            scorer = choose_weights(scorer, stores['valid'], members, formula)
        if formula is None or not scorer.is_formula_alone:
            scored = list(map(scorer.mean, members))
        else:
            scored = formula
        results = report.join_results(stores['valid'], scored)
        errors['val'] = _measure_collections(collection, stores['valid'], results)
        score = _measure_validation(data, scored)
        if scorer.trees is not None and score:  # an epoch's is without them
            print(f'val {score["measure"]} of all models: {score["value"]:.3f}')
        _note_random(results)
        if data.task.has_default:
            print(text.wrap_line(f'val: {report.format_gain(results)}', indent=2))
    test = stores['test']
    members = _score_split(data, scorer, 'test', 'ranking test')
    means = map(scorer.mean, members)
    scored = list(scorer_lib.note_ties(settings.model, test, means))
    if settings.test_mode == 'metrics':
        results = report.join_results(test, scored)
        errors['test'] = _measure_collections(collection, test, results)
    # By collection and split; None for a collection of a split not measured.
    names = dict.fromkeys([collection.name, *(p.name for p in collection.parts)])
    by_name = {n: {s: found.get(n) for s, found in errors.items()} for n in names}
    _print_errors(collection, by_name)
    return {
        'final_error': by_name.pop(collection.name),
        **({'final_error_by_collection': by_name} if by_name else {}),
        'val_score': score,
        'member_weights': scorer.weights,
        'test_predictions': _rank_graphs(collection, test, scored),
    }


def _score_split(
    data: task_data.TaskData, scorer: scorer_lib.Scorer, split: str, title: str
) -> list[_Members]:
    """Scores a split by each member; raises MeasuringError."""
    store, graphs, scored = data.stores[split], data.graphs[split], []
    try:
        members = scorer.members(store, graphs)
        for of_graph in phases.each(members, title, len(store), store.noun):
            scored.append(of_graph)
    except Exception as error:
        raise _explain_error(error, data, scorer, split, len(scored)) from error
    return scored


def _explain_error(
    error: Exception,
    data: task_data.TaskData,
    scorer: scorer_lib.Scorer,
    split: str,
    first: int,
) -> MeasuringError:
    """Finds the graph that cannot be scored, and the line of the user's code.

    Args:
        error: raised when the split was scored.
        first: number of graphs that were scored before.
    """
    if scorer.keras_model is not None:
        import tensorflow as tf

        code = registry.find_file(type(scorer.keras_model))
        store, graphs = data.stores[split], data.graphs[split]
        tf.config.run_functions_eagerly(True)  # compiled code knows no lines
        try:
            for number in range(first, len(store)):
                try:
                    list(scorer.members(store, graphs, np.array([number])))
                except Exception as alone:
                    cause = registry.describe_error(alone, code)
                    return MeasuringError(f'scoring {store.graph_ids[number]}: {cause}')
        finally:
            tf.config.run_functions_eagerly(False)
    return MeasuringError(text.one_line(error))


def choose_weights(
    scorer: scorer_lib.Scorer,
    store: splits.PackedSplit,
    scored: Sequence[_Members],
    formula: Sequence[np.ndarray] | None = None,
) -> scorer_lib.Scorer:
    """Chooses the weights of graph model and trees in their mean; prints them.

    Args:
        scorer: with both.
        store: the validation split.
        scored: scores of each graph by each member.
        formula: scores of each graph by the formula that the members begin with,
            if they do; it scores alone where they rank no better.

    Returns:
        The scorer with these weights.
    """
    task = scorer.task
    # Judged by the same measure as the best epoch.
    quality = metrics.find_measure(task.name, task.judged_by).of_graph
    runtimes = [store.labels(graph) for graph in range(len(scored))]
    graphs = [
        ensembles.ScoredGraph(program, members, times)
        for program, members, times in zip(store.programs, scored, runtimes)
        if len(members) > 1
    ]
    weights = ensembles.choose_weights(graphs, quality)
    scorer = dataclasses.replace(scorer, weights=weights)
    if formula is not None:
        # A model that starts from the formula must beat it on validation graphs.
        learned = list(map(scorer.mean, scored))
        if not ensembles.is_better(learned, formula, runtimes, quality):
            print(
                'note: nothing learned ranks validation better than the formula of '
                '--estimate,\nwhich scores alone'
            )
            return dataclasses.replace(scorer, weights=[0.0, 0.0])
    if min(weights) < 1:
        print(
            f'note: validation is ranked better with weights of {weights[0]:g} for '
            f'the graph model and {weights[1]:g} for the trees'
        )
    return scorer


def _measure_collections(
    collection: collections.Collection,
    store: splits.PackedSplit,
    results: list[report.GraphResult],
) -> _Errors:
    """Measures the scored graphs of a split: all together, and each collection."""
    chosen = {collection.name: results}
    for number, part in enumerate(collection.parts):
        numbers = np.flatnonzero(store.collection_of == number)
        chosen[part.name] = [results[number] for number in numbers]
    task = collection.task
    return {name: report.measure_errors(task, part) for name, part in chosen.items()}


def _print_errors(
    collection: collections.Collection, by_name: Mapping[str, text.JsonObject]
) -> None:
    """Prints a line for each split that was measured, and for each collection."""
    for name, by_split in by_name.items():
        where = '' if name == collection.name else f'{name} '
        for split, errors in by_split.items():
            if errors:
                about = report.format_final_error(collection.task, errors)
                print(f'{where}{split} {about}')


def _measure_validation(
    data: task_data.TaskData, scored: Sequence[np.ndarray]
) -> text.JsonObject | None:
    """Measures all models of a run as each epoch is measured; None: not measured.

    Args:
        scored: float [configurations] for each validation graph.
    """
    store = data.stores['valid']
    pairs = [
        (scored[graph][configs], store.labels(graph)[configs])
        for graph, configs in enumerate(data.validated)
    ]
    measured = data.measure_validation(pairs) if pairs else None
    if measured is None or measured.score is None:
        return None
    return {'measure': measured.measure, 'value': measured.score}


def _note_random(results: Sequence[report.GraphResult]) -> None:
    """Prints a note where a model ranks validation graphs no better than at random."""
    taus = [metrics.kendall_tau(result.scores, result.runtimes) for result in results]
    mean = float(np.nan_to_num(taus).mean())
    # Scores that are all equal have a note of their own.
    depends = not all(arrays.are_scores_equal(result.scores) for result in results)
    if mean <= 0 and depends:
        print(
            "note: on validation it ranks no better than random choice (Kendall's tau "
            f'{mean:.3f}):\ntry a lower --lr, more epochs or more data'
        )


def _rank_graphs(
    collection: collections.Collection,
    store: splits.PackedSplit,
    scored: Sequence[np.ndarray],
) -> dict[str, list[int]]:
    """Ranks the graphs of a split: ID, in its own collection -> best first."""
    names = [part.name for part in collection.parts]
    rows = [
        submission.make_row(names[part], graph_id, arrays.order_by_score(scores))
        for part, graph_id, scores in zip(store.collection_of, store.graph_ids, scored)
    ]
    return {row.id: list(row.configs) for row in rows}
