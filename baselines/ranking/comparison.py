"""Several runs side by side: a line for each, spreads, and gains."""

from typing import Any, Dict, List, Mapping

import numpy as np

from baselines import text
from baselines.ranking import metrics
from baselines.ranking import report


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
    rows = [[collection, report.TASKS[task].graph, *(m.title for m in measures)]]
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
            over = 'folds' if len({one.get('fold') for one in some}) > 1 else 'seeds'
            rows.append([f'  deviation over {over}', '', *spread])
    return '\n'.join(text.table(rows, rules=rules, width=text.WIDTH))


def format_ensemble(result: Mapping[str, Any]) -> str:
    """Lays out the members, the ensemble, and its gains: `tasks.ensemble.measure`."""
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
            (f'  {metrics.CONFIDENCE:.0%} interval, from', 'low'),
            (f'  {metrics.CONFIDENCE:.0%} interval, to', 'high'),
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
