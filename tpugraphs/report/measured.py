"""The models of a report: runs that differ in seed or fold alone are one model."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from baselines import text
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.runs import run_files

# The measure by which the models of a report are ordered, and its name, by task.
_ORDERED_BY = {
    'tile': ('top_5_error', 'top-5 error'),
    'layout': ('kendall_tau', "Kendall's tau"),
}
ALL = 'all'  # the name of all groups together


class Run(NamedTuple):
    """A run, measured.

    Attributes:
        name: its own among the runs of the page.
        model: the name that it shares with its repetitions.
        run: as read from disk.
        summary: from `evaluation.report.summarise`, and what was measured.
        results: each graph of the split, scored and measured.
    """

    name: str
    model: str
    run: run_files.Run
    summary: Dict[str, Any]
    results: Sequence[report.GraphResult]


class Estimate(NamedTuple):
    """A measure of a model.

    Attributes:
        mean: over graphs, and over runs.
        low: of one run the lower end of its 95 % interval, of several the mean less
            their standard deviation; None where that is not known.
        high: the same upwards.
        runs: how many there are.
    """

    mean: Optional[float]
    low: Optional[float]
    high: Optional[float]
    runs: int

    def format(self, show: str) -> str:
        """Returns '0.12 (0.10 to 0.15)', or of several runs '0.12 ± 0.02'."""
        mean = text.cell(self.mean, show)
        if self.mean is None or self.low is None or self.high is None:
            return mean
        if self.runs > 1:
            return f'{mean} ± {format(self.high - self.mean, show)}'
        return f'{mean} ({format(self.low, show)} to {format(self.high, show)})'


class Model(NamedTuple):
    """Runs of the same settings with different seeds or folds.

    Attributes:
        name: what tells it from the other models of the page.
        runs: in the order of their names.
    """

    name: str
    runs: Sequence[Run]

    def estimate(self, key: str, group: str = ALL) -> Estimate:
        """Returns a measure of all graphs, or of a group of them."""
        measures = [self.group(run, group).get(key) or {} for run in self.runs]
        defined = [one for one in measures if one.get('mean') is not None]
        if not defined:
            return Estimate(None, None, None, len(self.runs))
        means = [one['mean'] for one in defined]
        mean = float(np.mean(means))
        if len(defined) > 1:
            deviation = float(np.std(means, ddof=1))
            return Estimate(mean, mean - deviation, mean + deviation, len(defined))
        return Estimate(mean, defined[0]['low'], defined[0]['high'], len(self.runs))

    @staticmethod
    def group(run: Run, name: str) -> Dict[str, Any]:
        """Returns the measures of a group of graphs of a run; {} if it has none."""
        if name == ALL:
            return run.summary['overall']
        return run.summary['groups'].get(name, {})


def group_runs(runs: Sequence[Run]) -> List[Model]:
    """Groups runs by model, the best model first.

    That is the one with the lowest mean top-5 error of tiles, or the highest mean of
    Kendall's tau of layouts.  Names are of run files: they are made printable, and
    name no folders of this machine.
    """
    by_name: Dict[str, List[Run]] = {}
    for run in sorted(runs, key=lambda run: run.name):
        shown = run._replace(name=text.without_folders(run.name))
        by_name.setdefault(run.model, []).append(shown)
    models = [
        Model(text.without_folders(name), members) for name, members in by_name.items()
    ]
    task = runs[0].summary['task']
    key, _ = _ORDERED_BY[task]
    [sign] = [
        -1 if m.more_is_better else 1 for m in metrics.MEASURES[task] if m.key == key
    ]

    def place(model: Model) -> float:
        mean = model.estimate(key).mean
        return np.inf if mean is None else sign * mean

    return sorted(models, key=place)


def order(models: Sequence[Model]) -> str:
    """Returns the name of the measure by which `group_runs` orders models."""
    return _ORDERED_BY[models[0].runs[0].summary['task']][1]
