"""The models of a report: runs on the same data of other seeds or folds are one."""

import collections
from collections.abc import Sequence
import os
from typing import NamedTuple

import numpy as np

from baselines.core import text
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.runs import differences
from baselines.runs import run_files

ALL = 'all'  # the name of all groups together


class MeasuredRun(NamedTuple):
    """A run, measured."""

    name: str  # no other run of the page has it
    model: str  # the name of the model, which runs of other seeds and folds share
    run: run_files.RunFile  # as read from disk
    # the object of `evaluation.report.summarise`, with the data and split
    summary: text.JsonObject
    # the graphs of the split, scored and measured
    results: Sequence[report.GraphResult]


class Loss(NamedTuple):
    """A kind of loss, by which curves can be compared."""

    name: str  # without folders of this machine
    step: str  # unit of the axis below: 'epoch' or 'tree'


def find_loss(run: MeasuredRun) -> Loss:
    """Returns the loss that a run's curves are of: of its graph model, or its trees."""
    if not run.run.has_model:
        return Loss('squared error', 'tree')
    losses = differences.collect_settings(run.run)['losses']
    return Loss(text.hide_folders(str(losses)), 'epoch')


class MeanMeasure(NamedTuple):
    """A measure of a model."""

    mean: float | None  # over graphs, and over runs
    # lower end: of the 95 % interval for one run; for several, the mean less their
    # standard deviation; None without an interval
    low: float | None
    high: float | None  # the upper end, or the mean plus the deviation
    runs: int  # number of runs

    def format(self, show: str) -> str:
        """Returns '0.12 (0.10 to 0.15)', or of several runs '0.12 ± 0.02'."""
        mean = text.format_value(self.mean, show)
        if self.mean is None or self.low is None or self.high is None:
            return mean
        if self.runs > 1:
            return f'{mean} ± {format(self.high - self.mean, show)}'
        return f'{mean} ({format(self.low, show)} to {format(self.high, show)})'


class ReportedModel(NamedTuple):
    """Runs of the same settings, on the same data, with different seeds or folds."""

    name: str  # no other model of the page has it
    runs: Sequence[MeasuredRun]  # in the order of their names

    def average_measure(self, key: str, group: str = ALL) -> MeanMeasure:
        """Returns a measure of all graphs, or of a group of them."""
        # A fold may lack a group: only runs that have it count.
        measures = [find_measures(run, group).get(key) or {} for run in self.runs]
        defined = [one for one in measures if one.get('mean') is not None]
        if not defined:
            return MeanMeasure(None, None, None, len(self.runs))
        means = [one['mean'] for one in defined]
        mean = float(np.mean(means))
        if len(defined) > 1:
            deviation = float(np.std(means, ddof=1))
            return MeanMeasure(mean, mean - deviation, mean + deviation, len(defined))
        return MeanMeasure(mean, defined[0]['low'], defined[0]['high'], len(self.runs))


def find_measures(run: MeasuredRun, group: str) -> text.JsonObject:
    """Returns the measures of a group of graphs of a run; {} without that group."""
    if group == ALL:
        return run.summary['overall']
    return run.summary['groups'].get(group, {})


def group_runs(runs: Sequence[MeasuredRun]) -> list[ReportedModel]:
    """Groups runs by model and data, the best model first.

    The best model has the lowest mean top-5 error of tiles, or the highest mean of
    Kendall's tau of layouts.  Names, which come from run files, are made printable and
    lose the folders of this machine.
    """
    groups: dict[tuple[str, str], list[MeasuredRun]] = {}
    for run in sorted(runs, key=lambda run: run.name):
        shown = run._replace(name=text.hide_folders(run.name))
        key = run.model, os.path.dirname(run.summary['data'])
        groups.setdefault(key, []).append(shown)
    counts = collections.Counter(name for name, _ in groups)
    models: list[ReportedModel] = []
    for (name, data), members in groups.items():
        if counts[name] > 1:
            number = 1 + sum(model.runs[0].model == name for model in models)
            name = f'{name} on data {number} ({text.hide_folders(data)})'
        models.append(ReportedModel(text.hide_folders(name), members))
    task = runs[0].summary['task']
    measure, _ = report.ORDERED_BY[task]
    sign = metrics.find_measure(task, measure).sign

    def get_place(model: ReportedModel) -> float:
        mean = model.average_measure(measure).mean
        return np.inf if mean is None else -sign * mean

    return sorted(models, key=get_place)
