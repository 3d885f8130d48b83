"""Chooses the weights of graph model and trees in their mean, on validation graphs."""

from collections.abc import Sequence
import dataclasses

import numpy as np

from baselines.data.packed import splits
from baselines.evaluation import ensembles
from baselines.evaluation import metrics
from baselines.scoring import scorer as scorer_lib


def chosen(
    scorer: scorer_lib.Scorer,
    store: splits.PackedSplit,
    scored: Sequence[tuple[np.ndarray, ...]],
    formula: Sequence[np.ndarray] | None = None,
) -> scorer_lib.Scorer:
    """Returns a scorer with weights chosen on a validation split; prints them.

    Args:
        scored: scores of each graph by each member.
        formula: scores of each graph by the formula that the members begin with,
            if they do; it scores alone where they rank no better.
    """
    task = scorer.task
    if scorer.graph_model is None or scorer.trees is None:
        return scorer
    # Judged by the same measure as the best epoch.
    quality = metrics.measure_of(task.name, task.judged_by).of_graph
    graphs = [
        ensembles.ScoredGraph(
            task.program_of(name), members, task.labels(store, number)
        )
        for number, (name, members) in enumerate(zip(store.graph_ids, scored))
        if len(members) > 1
    ]
    weights = ensembles.chosen_weights(graphs, quality)
    scorer = dataclasses.replace(scorer, weights=weights)
    if formula is not None:
        # A model that starts from the formula must beat it on validation graphs.
        learned = list(map(scorer.mean, scored))
        runtimes = [task.labels(store, n) for n in range(len(scored))]
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
