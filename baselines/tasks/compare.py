"""Is one run, or one model over several seeds, better than another?"""

from typing import Any, Dict

from baselines import registry
from baselines.finished import finding
from baselines.ranking import paired
from baselines.ranking import report
from baselines.tasks import ensemble
from baselines.tasks import predict
from baselines.tasks import prediction


def compare(
    ours: str,
    theirs: str,
    data: prediction.DataOptions,
    models_file: registry.Own = '',
    split: str = 'valid',
) -> Dict[str, Any]:
    """Tests by program whether one model is better than another.

    Args:
        ours: a name of the one's run, or a pattern of several that differ in their
            seeds.
        theirs: of the other's.
        data: where graphs come from.
        models_file: a models.py beside ours.
        split: whose graphs.

    Returns:
        A dict: `task`, `collection`, `split`, `data`; `graphs` and `programs`, how
        many; `a` and `b`, each with the `names` and `dirs` of its runs; `measures`,
        from `paired.paired_test`.

    Raises:
        ValueError: the two share a run; they are of different collections or would
            score different graphs; a run or the data are unusable, or no runtime
            is known.
    """
    sides = [finding.find_all([name]) for name in (ours, theirs)]
    shared = [model_dir for model_dir in sides[0] if model_dir in sides[1]]
    if shared:
        raise ValueError(
            f'--compare: {shared[0]} is on both sides; name two different models'
        )
    predictors = ensemble.load([*sides[0], *sides[1]], data, models_file)
    labels = predict.labels_of(predictors)
    scored = ensemble.score(predictors, split, must_measure=True)
    results = ensemble.results_of(scored, scored.scores)
    first, second = results[: len(sides[0])], results[len(sides[0]) :]
    task = scored.first.collection.task
    programs = {report.TASKS[task].group_of(name) for name in scored.store.graph_ids}
    return {
        'task': task,
        'collection': scored.first.collection.name,
        'split': split,
        'data': scored.store.source,
        'graphs': scored.store.num_graphs,
        'programs': len(programs),
        **{
            name: {'names': [labels[d].name for d in side], 'dirs': list(side)}
            for name, side in zip('ab', sides)
        },
        'measures': paired.paired_test(task, first, second),
    }
