"""Several runs side by side: a line for each, spreads, and paired gains."""

from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from baselines import text
from baselines.ranking import metrics
from baselines.ranking import report

_CONFIDENCE = 0.95
_RESAMPLES = 9999


def grouped_interval(
    values: Sequence[float],
    groups: Sequence[str],
    confidence: float = 0.95,
    seed: int = 0,
) -> Tuple[float, float]:
    """Confidence interval of a mean over graphs that come in groups.

    Kernels of one program are alike, so they are not that many independent
    measurements: whole groups are drawn with replacement, and the mean over all
    graphs of those drawn has the percentiles that are returned.

    Args:
        values: [n], one figure per graph, none NaN.
        groups: the group of each graph.
        confidence: e.g. 0.95.
        seed: the same seed gives the same interval.

    Returns:
        (low, high); both NaN for a single group, which says nothing of others.
    """
    _, members = np.unique(np.asarray(groups), return_inverse=True)
    sums, sizes = np.bincount(members, values), np.bincount(members)
    if len(sizes) == 1:
        return float('nan'), float('nan')
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(sizes), (_RESAMPLES, len(sizes)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def paired_gain(
    task: str,
    ours: Sequence[report.GraphResult],
    theirs: Sequence[Sequence[report.GraphResult]],
) -> Dict[str, Dict[str, Any]]:
    """How much better one model is than others, on the same graphs.

    Args:
        task: 'tile' or 'layout'.
        ours: the graphs, scored by the one.
        theirs: the same graphs in the same order, scored by each of the others;
            on each graph it is compared with the mean of their figures.

    Returns:
        For each measure a dict: `gain`, the mean over graphs of the difference,
        positive where ours is better; `low` and `high`, its 95 % interval with
        programs drawn as a whole, None where it is unknown.  All are None for a
        measure that is defined on no graph.
    """
    ids = [result.graph_id for result in ours]
    mine = report.per_graph(task, ours)
    others = [report.per_graph(task, results) for results in theirs]
    groups = np.array([report.group_of(task, graph_id) for graph_id in ids])
    found = {}
    for measure in metrics.MEASURES[task]:
        sign = 1 if measure.more_is_better else -1
        other = np.mean([values[measure.key] for values in others], axis=0)
        gain = sign * (mine[measure.key] - other)
        known = ~np.isnan(gain)
        low = high = mean = None
        if known.any():
            mean = float(gain[known].mean())
            low, high = grouped_interval(gain[known], groups[known], _CONFIDENCE)
            low, high = (None, None) if np.isnan(low) else (low, high)
        found[measure.key] = {'gain': mean, 'low': low, 'high': high}
    return found


def format_runs(summaries: Mapping[str, Mapping[str, Any]]) -> str:
    """Lays out a line for each run, and mean and spread of those that repeat one.

    Args:
        summaries: by model directory, from `tasks.predict.measure`, with `name`,
            which tells the run from the others, and `group`, which only those
            share that differ in seed and fold alone.

    Returns:
        A table for each collection, with an empty line in between.
    """
    by_collection: Dict[str, Dict[str, Any]] = {}
    for model_dir, summary in summaries.items():
        by_collection.setdefault(summary['collection'], {})[model_dir] = summary
    return '\n\n'.join(_runs_table(name, some) for name, some in by_collection.items())


def _runs_table(collection: str, summaries: Mapping[str, Any]) -> str:
    task = next(iter(summaries.values()))['task']
    measures = metrics.MEASURES[task]
    rows = [[collection, report.graph_noun(task), *(m.title for m in measures)]]
    by_group: Dict[str, List[Any]] = {}
    for summary in summaries.values():
        graphs = f'{summary["overall"]["graphs"]:,}'
        rows.append([summary['name'], graphs, *_cells(measures, [summary])])
        by_group.setdefault(summary['group'], []).append(summary)
    rules = [1]
    for group, some in by_group.items():
        if len(some) > 1:
            rules = [1, 1 + len(summaries)]
            rows.append([f'mean of {len(some)}: {group}', '', *_cells(measures, some)])
            spread = _cells(measures, some, lambda values: np.std(values, ddof=1))
            rows.append(['  standard deviation', '', *spread])
    return '\n'.join(text.table(rows, rules=rules, width=text.WIDTH))


def format_ensemble(result: Mapping[str, Any]) -> str:
    """Lays out the members, the ensemble, and what it gains.

    Args:
        result: from `tasks.ensemble.measure`.
    """
    summary, members = result['ensemble'], result['members']
    measures = metrics.MEASURES[summary['task']]
    mean = 'mean of the members'
    names = {folder: member['name'] for folder, member in members.items()}
    rows = [[summary['collection'], *(m.title for m in measures)]]
    for folder, member in members.items():
        rows.append([names[folder], *_cells(measures, [member])])
    rows.append([mean, *_cells(measures, list(members.values()))])
    together = f'ensemble of {len(members)} by {summary["by"]}'
    rows.append([together, *_cells(measures, [summary])])
    rules = [1, len(rows) - 1, len(rows)]
    gains_over = [(mean, result['gain_over_mean'])]
    gains_over += [
        (names[folder], gain) for folder, gain in result['gain_over'].items()
    ]
    for name, gains in gains_over:
        for title, field in (
            (f'gain over {name}', 'gain'),
            (f'  {_CONFIDENCE:.0%} interval, from', 'low'),
            (f'  {_CONFIDENCE:.0%} interval, to', 'high'),
        ):
            cells = [text.cell(gains[m.key][field], '+.3f') for m in measures]
            rows.append([title, *cells])
    lines = text.table(rows, rules=rules, width=text.WIDTH)
    lines += ['', 'Gain: positive where the ensemble is better; its interval draws ']
    return '\n'.join(lines) + 'programs as a whole.'


def _cells(measures, summaries, combine=np.mean) -> List[str]:
    cells = []
    for measure in measures:
        means = [summary['overall'][measure.key]['mean'] for summary in summaries]
        value = None if None in means else float(combine(means))
        cells.append(text.cell(value, measure.show))
    return cells
