"""From scores and runtimes to a summary, a table and JSON.

One summary serves both tasks; `_TASKS` says which measures each reports.
"""

import collections
import functools
import json
import math
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

import numpy as np

from baselines import text
from baselines.data import families
from baselines.ranking import metrics

_CONFIDENCE = 0.95


class GraphResult(NamedTuple):
    """One graph, scored and measured.

    Attributes:
        graph_id: stem of its file.
        scores: [c], lower = predicted faster.
        runtimes: [c], positive; tile runtimes divided by their normalizers.
    """

    graph_id: str
    scores: np.ndarray
    runtimes: np.ndarray


class Measure(NamedTuple):
    """A figure per graph, and what random scores would get on that graph."""

    key: str
    title: str
    of_graph: Callable[[np.ndarray, np.ndarray], float]
    of_random: Callable[[np.ndarray], float]
    show: str  # format of a value in the table
    more_is_better: bool = False


class _Task(NamedTuple):
    graph: str  # what a graph is called
    group: str  # what a row of the table is
    group_of: Callable[[str], str]
    measures: Sequence[Measure]
    legend: str


def _opa(scores: np.ndarray, runtimes: np.ndarray) -> float:
    return metrics.ordered_pair_accuracy([(scores, runtimes)])


def _tau(scores: np.ndarray, runtimes: np.ndarray) -> float:
    tau = metrics.kendall_tau(scores, runtimes)
    if math.isnan(tau) and runtimes.min() < runtimes.max():
        # A model that gives all configurations one score knows as much as
        # chance does.  Leaving it out of the mean would reward it.
        return 0.0
    return tau


def _top_k_error(k: int) -> Measure:
    return Measure(
        f'top_{k}_error',
        f'top-{k}',
        functools.partial(metrics.top_k_error, k=k),
        functools.partial(metrics.random_top_k_error, k=k),
        '.3f',
    )


def _slowdown(k: int) -> Measure:
    return Measure(
        f'slowdown_{k}',
        f'slowd@{k}',
        functools.partial(metrics.slowdown, k=k),
        lambda runtimes: 1.0 + metrics.random_top_k_error(runtimes, k),
        '.3f',
    )


_OPA = Measure('opa', 'OPA', _opa, lambda runtimes: 0.5, '.3f', True)
_TAU = Measure('kendall_tau', 'tau', _tau, lambda runtimes: 0.0, '.3f', True)
_KAGGLE = Measure(
    'kaggle_score',
    'Kaggle',
    lambda scores, runtimes: metrics.kaggle_tile_score([(scores, runtimes)]),
    lambda runtimes: 1.0 - metrics.random_top_k_error(runtimes, 5),
    '.3f',
    True,
)

_TASKS = {
    'tile': _Task(
        'kernels',
        'program',
        families.program_of_kernel,
        [*map(_top_k_error, (1, 5, 10)), _OPA, _TAU, _KAGGLE],
        'top-k: (best of the k ranked first - best) / best.  Kaggle: 1 - top-5.',
    ),
    'layout': _Task(
        'graphs',
        'graph',
        lambda graph_id: graph_id,
        [_TAU, *map(_slowdown, (1, 10, 100)), _OPA],
        'slowd@k: best of the k ranked first / best.',
    ),
}


def summarise_tile(results: Sequence[GraphResult]) -> Dict[str, Any]:
    """Summarises a scored tile split: top-1/5/10 error, OPA, tau, Kaggle score.

    A program is the graph id without its last `_<hash>`.

    Args:
        results: one per kernel.

    Returns:
        A dict:
          task: 'tile'.
          confidence: of the intervals, 0.95.
          overall: a group over all kernels.
          groups: {program: group}, sorted by name.
        A group is a dict with the integers `graphs` and `configurations`,
        `opa_pooled` (all pairs of the group in one pot, as published), and per
        measure (top_1_error, top_5_error, top_10_error, opa, kendall_tau,
        kaggle_score) a dict:
          mean: over the graphs where the measure is defined.
          low, high: bootstrap interval of that mean; None for a single graph.
          random: the same mean, expected for random scores.
          graphs: how many graphs the mean is of.
        OPA and tau are not defined for a kernel whose runtimes are all equal;
        tau of constant scores counts 0.  Whatever is not defined is None.

    Raises:
        ValueError: no result, a graph twice, or what `metrics` refuses, with
            the graph's id.
    """
    return _summarise('tile', results)


def summarise_layout(results: Sequence[GraphResult]) -> Dict[str, Any]:
    """Summarises a scored layout split: tau, slowdown@1/10/100, OPA.

    As `summarise_tile`, with one group per graph and the measures kendall_tau,
    slowdown_1, slowdown_10, slowdown_100 (best of the k first / best) and opa.
    """
    return _summarise('layout', results)


def measures(task_name: str) -> Sequence[Measure]:
    """Returns what is measured of a 'tile' or 'layout' graph, in order."""
    return _TASKS[task_name].measures


def graph_noun(task_name: str) -> str:
    """Returns what graphs are called: 'kernels' or 'graphs'."""
    return _TASKS[task_name].graph


def group_of(task_name: str, graph_id: str) -> str:
    """Returns the group that a graph is counted in: a kernel's program."""
    return _TASKS[task_name].group_of(graph_id)


def per_graph(task_name: str, results: Sequence[GraphResult]) -> Dict[str, np.ndarray]:
    """Measures graphs one by one.

    Returns:
        float64 [graphs] by measure, NaN where it is not defined.

    Raises:
        ValueError: what `metrics` refuses.
    """
    task = _TASKS[task_name]
    rows = [_measured(task, result) for result in results]
    return {
        measure.key: np.array([row[measure.key][0] for row in rows], np.float64)
        for measure in task.measures
    }


def _summarise(task_name: str, results: Sequence[GraphResult]) -> Dict[str, Any]:
    if not results:
        raise ValueError('nothing to summarise: no graph was scored')
    task = _TASKS[task_name]
    rows: Dict[str, List[Dict[str, Any]]] = collections.defaultdict(list)
    seen = set()
    for result in results:
        if result.graph_id in seen:
            raise ValueError(f'{result.graph_id} was scored twice')
        seen.add(result.graph_id)
        try:
            row = _measured(task, result)
        except ValueError as error:
            raise ValueError(f'{result.graph_id}: {error}') from None
        rows[task.group_of(result.graph_id)].append(row)
    return {
        'task': task_name,
        'confidence': _CONFIDENCE,
        'overall': _group(task, [row for some in rows.values() for row in some]),
        'groups': {name: _group(task, rows[name]) for name in sorted(rows)},
    }


def _measured(task: _Task, result: GraphResult) -> Dict[str, Any]:
    """All measures of one graph: {key: (of the model, of random scores)}."""
    scores, runtimes = np.asarray(result.scores), np.asarray(result.runtimes)
    row: Dict[str, Any] = {
        'pairs': metrics.ordered_pairs(scores, runtimes),
        'configurations': len(runtimes),
    }
    for measure in task.measures:
        value = measure.of_graph(scores, runtimes)
        row[measure.key] = value, measure.of_random(runtimes)
    return row


def _group(task: _Task, rows: List[Dict[str, Any]]) -> Dict[str, Any]:
    correct, total = np.sum([row['pairs'] for row in rows], axis=0)
    group: Dict[str, Any] = {
        'graphs': len(rows),
        'configurations': sum(row['configurations'] for row in rows),
        'opa_pooled': float(correct / total) if total else None,
    }
    for measure in task.measures:
        pairs = np.array([row[measure.key] for row in rows])
        pairs = pairs[~np.isnan(pairs[:, 0])]
        group[measure.key] = _mean_of(pairs)
    return group


def _mean_of(pairs: np.ndarray) -> Dict[str, Any]:
    """Summary of float64 [n, 2], (model, random) per graph."""
    if not len(pairs):
        return dict(mean=None, low=None, high=None, random=None, graphs=0)
    mean, random = pairs.mean(axis=0)
    low, high = metrics.bootstrap_interval(pairs[:, 0], _CONFIDENCE)
    known = not math.isnan(low)
    return {
        'mean': float(mean),
        'low': low if known else None,
        'high': high if known else None,
        'random': float(random),
        'graphs': len(pairs),
    }


def to_json(summary: Dict[str, Any]) -> str:
    """Returns a summary as JSON text; what is not defined is null, never NaN."""
    return json.dumps(summary, indent=2, allow_nan=False)


def format_table(summary: Dict[str, Any]) -> str:
    """Lays a summary out as plain text of at most 100 columns.

    A row per program (layout: per graph), sorted by name; then all graphs
    together, the bootstrap interval of that mean, and random choice.

    Args:
        summary: from `summarise_tile` or `summarise_layout`.

    Returns:
        Lines without a newline at the end.
    """
    task, overall = _TASKS[summary['task']], summary['overall']

    def cells(group: Dict[str, Any], field: str = 'mean') -> List[str]:
        return [text.cell(group[m.key][field], m.show) for m in task.measures]

    head = [task.group, task.graph, 'configs', *(m.title for m in task.measures)]
    body = [
        [name, *_counts(group), *cells(group)]
        for name, group in summary['groups'].items()
    ]
    percent = f'{summary["confidence"]:.0%}'
    foot = [
        ['all', *_counts(overall), *cells(overall)],
        [f'  {percent} interval, from', '', '', *cells(overall, 'low')],
        [f'  {percent} interval, to', '', '', *cells(overall, 'high')],
        ['random choice', '', '', *cells(overall, 'random')],
    ]
    lines = text.table([head, *body, *foot], rules=(1, 1 + len(body)), width=text.WIDTH)
    return '\n'.join(lines + _remarks(task, overall))


def _remarks(task: _Task, overall: Dict[str, Any]) -> List[str]:
    pooled = text.cell(overall['opa_pooled'], '.3f')
    remarks = [
        task.legend,
        f'OPA is the mean over {task.graph}; all pairs pooled: {pooled}.',
    ]
    left_out = overall['graphs'] - overall['kendall_tau']['graphs']
    if left_out:
        remarks.append(
            f'OPA and tau leave out {left_out} of {overall["graphs"]} '
            f'{task.graph}, whose runtimes are all equal.'
        )
    return ['', *remarks]


def _counts(group: Dict[str, Any]) -> List[str]:
    return [f'{group["graphs"]:,}', f'{group["configurations"]:,}']
