"""Who has a say in the scores of a run: its graph model, its trees, or both."""

from typing import Dict, Sequence, Tuple

import numpy as np

from baselines.ranking import ensembles
from baselines.ranking import metrics
from baselines.training import runs
from baselines.training import trees as trees_lib

Members = Tuple[str, ...]

# The first of equals is taken.
CHOICES: Sequence[Members] = (('model',), ('trees',), ('model', 'trees'))


def members(run: runs.Run) -> Members:
    """Returns who scores in a run; without a choice, all that were trained."""
    if run.args['model'] == trees_lib.NAME:
        return ('trees',)
    default = CHOICES[-1 if run.args.get('trees') is True else 0]
    stored = run.info.get('members')
    return next((each for each in CHOICES if [*each] == stored), default)


def taus(
    scores: Dict[str, Sequence[np.ndarray]], labels: Sequence[np.ndarray]
) -> Dict[Members, float]:
    """Measures each choice on configurations that no member has learned from.

    Args:
        scores: of 'model' and of 'trees', by list.
        labels: runtimes, by list.

    Returns:
        Kendall's tau of each choice, the mean over lists by their lengths; a list
        that cannot be ranked counts 0.
    """
    found = {}
    for choice in CHOICES:
        each = zip(*(scores[name] for name in choice))
        means = [ensembles.average(some, by='standard') for some in each]
        tau = [metrics.kendall_tau(*pair) for pair in zip(means, labels)]
        sizes = [len(some) for some in labels]
        found[choice] = float(np.average(np.nan_to_num(tau), weights=sizes))
    return found


def best(measured: Dict[Members, float], learned: bool, error: float) -> Members:
    """Chooses who has a say.

    Trees that are no better than a graph model that has learned nothing have none.
    One that has learned was taken at its best epoch on these configurations, so by
    itself it has to be better by more than chance.

    Args:
        measured: of each choice, from `taus`.
        learned: whether the graph model has.
        error: the standard error of tau by chance.
    """
    model, trees, _ = CHOICES
    if not learned and measured[trees] <= measured[model]:
        return model
    figures = {**measured, model: measured[model] - error * learned}
    return max(figures, key=lambda each: figures[each])
