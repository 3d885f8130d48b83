"""From scores and runtimes to a summary, a table and JSON.

One summary serves both tasks; `metrics.MEASURES` says what each reports.
"""

from collections.abc import Callable, Iterable, Sequence
import itertools
from typing import NamedTuple

import numpy as np

from baselines.core import text
from baselines.data import families
from baselines.data.packed import splits
from baselines.evaluation import metrics
from baselines.evaluation import noise

# On which configurations a split is measured.
ALL, PUBLISHED = 'all', 'published'
PROTOCOLS = {ALL: 'all configurations', PUBLISHED: 'published protocol'}


class GraphResult(NamedTuple):
    """One graph, scored and measured."""

    graph_id: str  # stem of its file
    scores: np.ndarray  # [c], lower = predicted faster
    runtimes: np.ndarray  # [c], positive; tile runtimes divided by their normalizers
    # [c], equal numbers for equal configurations, whose runtimes are repeated
    # measurements; None where that is not known
    configurations: np.ndarray | None = None
    # [c], scores of the untrained estimate, to compare with; or None
    estimate: np.ndarray | None = None
    # the compiler's default configuration, to compare with; None where it is not known
    default: int | None = None
    # number of configurations with the lowest scores whose order is known; None: all
    first: int | None = None

    def rank_default_first(self) -> np.ndarray:
        """Returns scores, int64 [c], of the default as the first choice.

        The others are equal, and so in a random order.
        """
        return (np.arange(len(self.runtimes)) != self.default).astype(int)


def join_results(
    store: splits.PackedSplit,
    scored: Iterable[np.ndarray],
    estimates: Iterable[np.ndarray] | None = None,
) -> list[GraphResult]:
    """Joins the graphs of a split, and their runtimes, with scores.

    Args:
        scored: scores [c] of each graph.
        estimates: untrained scores of each graph, to compare with, if any.
    """
    untrained = itertools.repeat(None) if estimates is None else estimates
    return [
        GraphResult(
            store.graph_ids[graph],
            scores,
            store.labels(graph),
            store.configurations(graph),
            estimate,
            store.default_of(graph),
        )
        for graph, (scores, estimate) in enumerate(zip(scored, untrained))
    ]


class Grouping(NamedTuple):
    """The nouns for a graph and for a group of them, and the group of a graph's id."""

    graph: str
    group: str
    group_of: Callable[[str], str]


# The measure by which runs and programs are ordered, and its name, by task.
ORDERED_BY = {
    'tile': ('top_5_error', 'top-5 error'),
    'layout': ('kendall_tau', "Kendall's tau"),
}
_MOST_ROWS = 30  # of programs in a table

# By task.
GROUPINGS = {
    'tile': Grouping('kernel', 'program', families.find_program),
    'layout': Grouping('graph', 'graph', str),
}


def summarise(
    task_name: str,
    results: Sequence[GraphResult],
    protocol: str = ALL,
    references: Sequence[text.JsonObject] = (),
    by_group: bool = True,
) -> text.JsonObject:
    """Summarises a scored split by the measures of `metrics.MEASURES`.

    Args:
        task_name: 'tile' or 'layout'.  Kernels are grouped by program, the graph
            id without its last `_<hash>`; a layout graph is a group of its own.
        protocol: of `PROTOCOLS`.  The published one takes equal scores in the order of
            the configurations; otherwise figures are expectations over all orders of
            them.
        references: of each graph, from `measure_reference`; () to measure them here.
        by_group: False to leave `groups` empty, whose intervals take most of the time.

    Returns:
        A dict:
          task: its name.
          confidence: of the intervals, 0.95.
          interval_over: what the overall intervals are over, 'programs' or
            'graphs'; those of a group of kernels are over its kernels.
          overall: a group over all graphs.
          groups: {name: group}, sorted by name.
        A group is a dict with the integers `graphs` and `configurations`,
        `opa_pooled` (over all pairs of the group together, as published), and per
        measure a dict:
          mean: over the graphs where the measure is defined.
          low, high: bootstrap interval of that mean; None for a single graph,
            and overall for a single program.  It is over other graphs or programs
            of the kind, not over seeds.
          random: the same mean, expected for random scores.
          estimate: the same mean of the estimate's scores, where results have them.
          default: the same mean, expected where the compiler's default is the first
            choice and the others are random; only for measures of the first choices,
            and None unless the default of every graph is known.
          graphs: how many graphs the mean is of.
        In a layout summary, `noise` has the fields of `noise.Noise`: means over the
        `graphs` with repeated measurements, and `tau` of the model on these; None if
        there are no such graphs.
        OPA and tau are not defined for a graph whose runtimes are all equal;
        tau of constant scores counts 0.  Whatever is not defined is None, and so is
        whatever needs more configurations in order than `GraphResult.first`.

    Raises:
        ValueError: no result, or what `metrics` refuses, with
            the graph's id.
    """
    if not results:
        raise ValueError('nothing to summarise: no graph was scored')
    # Measure each graph once; groups and the overall figures are means of these.
    figures, groups = [], []
    for result, reference in itertools.zip_longest(results, references):
        with text.locate_errors(text.printable(result.graph_id)):
            reference = reference or measure_reference(task_name, result)
            figures.append(_measure_graph(task_name, result, protocol, reference))
        groups.append(GROUPINGS[task_name].group_of(result.graph_id))
    members: dict[str, list[text.JsonObject]] = {name: [] for name in sorted({*groups})}
    for graph, name in zip(figures, groups):
        members[name].append(graph)
    return {
        'task': task_name,
        'confidence': metrics.CONFIDENCE,
        'interval_over': f'{GROUPINGS[task_name].group}s',
        'overall': _summarise_group(figures, groups),
        'groups': {
            name: _summarise_group(graphs, range(len(graphs)))
            for name, graphs in members.items()
            if by_group
        },
    }


def measure_errors(task_name: str, results: Sequence[GraphResult]) -> dict[str, float]:
    """Measures the errors of a split that a run file keeps.

    Returns:
        Means over graphs: of a tile split the top-k errors '1', '5', '10'; of a
        layout split 'kendall_tau', 0 where it is not defined, and the slowdowns
        '1', '10', '100'.

    Raises:
        ValueError: what `metrics` refuses.
    """
    kept = [m for m in metrics.MEASURES[task_name] if m.final]
    rows = [[m.of_graph(r.scores, r.runtimes) for m in kept] for r in results]
    means = np.nan_to_num(rows).mean(axis=0)
    return {m.final: float(mean) for m, mean in zip(kept, means)}


def format_gain(results: Sequence[GraphResult], chosen: int = 5) -> str:
    """Describes in a sentence how much faster chosen tile sizes make kernels.

    Speed-ups are geometric means over kernels.

    Args:
        results: of kernels; runtimes are divided by the default's.
        chosen: how many of those ranked first are measured.
    """

    def gain(scores_of: Callable[[GraphResult], np.ndarray], k: int) -> float:
        """Returns the mean speed-up of the best of the k with the lowest scores."""
        logs = [
            metrics.expected_best(scores_of(result), np.log(result.runtimes), k)
            for result in results
        ]
        return float(np.exp(-np.mean(logs)))

    first, best = (gain(lambda r: r.scores, k) for k in (1, chosen))
    drawn = gain(lambda r: np.zeros(len(r.runtimes)), chosen)
    fastest = gain(lambda r: r.runtimes, 1)
    return (
        f"the first choice runs {first:.2f} x as fast as the compiler's default, "
        f'the best of the first {chosen} {best:.2f} x ({chosen} at random '
        f'{drawn:.2f} x, the fastest there is {fastest:.2f} x)'
    )


def format_final_error(task_name: str, errors: dict[str, float]) -> str:
    """Lays the final errors of a split out in a line."""
    figures = [f'{error:.4f}' for error in errors.values()]
    if task_name == 'tile':
        return f'top-{"/".join(errors)} error: {" / ".join(figures)}'
    tau, *slowdowns = figures
    return f'tau: {tau}; slowdown@1/10/100: {" / ".join(slowdowns)} ({PROTOCOLS[ALL]})'


def measure_reference(task_name: str, result: GraphResult) -> text.JsonObject:
    """Measures the references of a graph's scores, which are the same for all models.

    Returns:
        By key of a measure a dict: `random`, `default`, and `estimate` where there is
        one; and `noise`, if it is known.
    """
    runtimes, figures = np.asarray(result.runtimes), text.JsonObject()
    for measure in metrics.MEASURES[task_name]:
        figure = figures[measure.key] = {'random': measure.of_random(runtimes)}
        if result.estimate is not None:
            of_estimate = measure.of_graph(np.asarray(result.estimate), runtimes)
            figure['estimate'] = of_estimate
        figure['default'] = np.nan
        if measure.first and result.default is not None:
            default_first = result.rank_default_first()
            figure['default'] = measure.of_graph(default_first, runtimes)
    if result.configurations is not None:
        figures['noise'] = noise.estimate_noise(runtimes, result.configurations)
    return figures


def _measure_graph(
    task_name: str, result: GraphResult, protocol: str, reference: text.JsonObject
) -> text.JsonObject:
    """Measures one graph.

    Returns:
        What `measure_reference` does, with the `mean` of the model first in the dict
        of each measure; `pairs` and `configurations`, counts.
    """
    scores, runtimes = np.asarray(result.scores), np.asarray(result.runtimes)
    is_whole = result.first is None
    figures: text.JsonObject = {
        **reference,
        'pairs': metrics.ordered_pairs(scores, runtimes) if is_whole else (0, 0),
        'configurations': len(runtimes),
    }
    # The published script breaks ties by position: equal scores keep their order.
    untied = metrics.rank_without_ties(scores) if protocol == PUBLISHED else scores
    for measure in metrics.MEASURES[task_name]:
        mean = measure.of_graph(untied if measure.first else scores, runtimes)
        if result.first is not None and (measure.first or np.inf) > result.first:
            mean = np.nan
        figures[measure.key] = {'mean': mean, **reference[measure.key]}
    return figures


def _summarise_group(
    graphs: list[text.JsonObject], units: Sequence[str | int]
) -> text.JsonObject:
    """Summarises measured graphs; see `summarise`.

    Args:
        units: of each graph; intervals draw all graphs of a unit together.
    """
    # The published OPA pools the pairs of all graphs: large graphs count more.
    correct, total = np.sum([graph['pairs'] for graph in graphs], axis=0)
    group: text.JsonObject = {
        'graphs': len(graphs),
        'configurations': sum(graph['configurations'] for graph in graphs),
        'opa_pooled': float(correct / total) if total else None,
    }
    for key in graphs[0]:
        if key not in ('pairs', 'configurations', 'noise'):
            group[key] = _average_measure(
                [graph[key] for graph in graphs], np.asarray(units)
            )
    if any('noise' in graph for graph in graphs):
        group['noise'] = _average_noise(graphs)
    return group


def _average_measure(
    figures: Sequence[dict[str, float]], units: np.ndarray
) -> text.JsonObject:
    """Averages a measure where it is defined; the interval draws whole `units`."""
    # [graphs, columns]: the model's figure first, then random, default, estimate.
    table = np.array([list(figure.values()) for figure in figures], np.float64)
    defined = ~np.isnan(table[:, 0])
    table, units = table[defined], units[defined]
    means: dict[str, float | None] = dict.fromkeys(figures[0])
    low, high = None, None
    if len(table):
        for name, mean in zip(means, table.mean(axis=0)):
            means[name] = None if np.isnan(mean) else float(mean)
        # Graphs that are independent have the better BCa interval; BCa of clustered
        # ones would need a jackknife over clusters.
        if len(set(units)) == len(units):
            low, high = metrics.bootstrap_interval(table[:, 0])
        else:
            low, high = metrics.grouped_interval(table[:, 0], units)
    ends = {'mean': means.pop('mean'), 'low': low, 'high': high}
    return {**ends, **means, 'graphs': len(table)}


def _average_noise(graphs: list[text.JsonObject]) -> text.JsonObject | None:
    """Averages the noise of graphs that were measured repeatedly; adds up its counts.

    Returns:
        The fields of `noise.Noise`, `graphs` and `tau`; None without such graphs.
    """
    noises = [
        {**graph['noise']._asdict(), 'tau': graph['kendall_tau']['mean']}
        for graph in graphs
        if graph['noise'] and graph['noise'].tau_ceiling is not None
    ]
    if not noises:
        return None
    means: text.JsonObject = {'graphs': len(noises)}
    for key in noises[0]:
        values = [graph[key] for graph in noises if graph[key] is not None]
        mean = float(np.mean(values)) if values else None
        means[key] = sum(values) if key in ('repeated', 'repeats') else mean
    return means


def data_title(summary: text.JsonObject) -> str:
    """Names the data of a summary: split, collection, fold, the protocol of layouts.

    Args:
        summary: with the fields of `Predictor.describe`.
    """
    parts = [f'{summary["split"]} of {summary["collection"]}']
    if summary.get('fold'):
        parts.append(f'fold{"s" * ("," in summary["fold"])} {summary["fold"]}')
    if summary['collection'].startswith('layout'):
        parts.append(PROTOCOLS[summary['protocol']])
    return ', '.join(parts)


def format_table(summary: text.JsonObject, by_group: bool = True) -> str:
    """Lays out what `summarise` returned as plain text of at most 100 columns.

    A row per program (layout: per graph), sorted by name, or of the worst
    `_MOST_ROWS`, unless `by_group` is False; then all graphs together, the bootstrap
    interval of that mean, and random choice.
    """
    grouping, overall = GROUPINGS[summary['task']], summary['overall']
    measures = metrics.MEASURES[summary['task']]

    # Two more columns, after tau, where configurations were measured repeatedly.
    noisy = overall.get('noise')

    def cells(group: text.JsonObject, field: str = 'mean') -> list[str]:
        figures = [text.format_value(group[m.key][field], m.show) for m in measures]
        if noisy:
            limits = field == 'mean' and group['noise'] or {}
            taus = [limits.get('tau_twice'), limits.get('tau_ceiling')]
            figures[1:1] = [text.format_value(tau, '.3f') for tau in taus]
        return figures

    titles = [m.title for m in measures]
    head = [grouping.group * by_group, f'{grouping.graph}s', 'configs', *titles]
    if noisy:
        head[4:4] = ['again', 'ceiling']
    groups = _select_worst(summary) if by_group else {}
    body = [[name, *show_size(group), *cells(group)] for name, group in groups.items()]
    interval = f'  {summary["confidence"]:.0%} interval'
    foot = [
        ['all', *show_size(overall), *cells(overall)],
        [f'{interval}, from', '', '', *cells(overall, 'low')],
        [f'{interval}, to', '', '', *cells(overall, 'high')],
    ]
    for title, field in list_references(summary).items():
        foot.append([title, '', '', *cells(overall, field)])
    rules = sorted({1, 1 + len(body)})
    lines = text.format_table([head, *body, *foot], rules=rules, width=text.WIDTH)
    others = len(summary['groups']) - len(groups)
    if others and by_group:
        of_all = text.count(len(summary['groups']), grouping.group)
        by = ORDERED_BY[summary['task']][1]
        lines += ['', f'The {len(groups)} worst of {of_all} by {by}; --json has all.']
    if summary.get('protocol') == PUBLISHED:
        lines += ['', *_format_as_published(overall)]
    return '\n'.join(lines + _format_remarks(summary))


def list_references(summary: text.JsonObject) -> dict[str, str]:
    """Returns the references in a summary: title -> field of a measure."""
    measures, overall = metrics.MEASURES[summary['task']], summary['overall']
    fields = {'random choice': 'random'}
    if any('estimate' in overall[m.key] for m in measures):
        fields['estimate, untrained'] = 'estimate'
    if any(overall[m.key]['default'] is not None for m in measures):
        fields['default and random'] = 'default'
    return fields


def explain_titles(summary: text.JsonObject) -> list[str]:
    """Returns lines that explain the titles of a table's columns and rows."""
    measures = metrics.MEASURES[summary['task']]
    lines = ['  '.join(dict.fromkeys(m.legend for m in measures if m.legend))]
    if 'default and random' in list_references(summary):
        lines.append(
            "default and random: XLA's default is the first choice, the others are "
            'random.'
        )
    return lines


def _select_worst(summary: text.JsonObject) -> text.JsonObject:
    """Returns the groups of a summary, or the worst of many, in their order."""
    groups, (key, _) = summary['groups'], ORDERED_BY[summary['task']]
    if len(groups) <= _MOST_ROWS:
        return groups
    sign = metrics.find_measure(summary['task'], key).sign

    def quality(name: str) -> float:
        mean = groups[name][key]['mean']
        return np.inf if mean is None else sign * mean

    worst = {*sorted(groups, key=quality)[:_MOST_ROWS]}
    return {name: group for name, group in groups.items() if name in worst}


def _format_as_published(overall: text.JsonObject) -> list[str]:
    """Returns the figures in the form in which the published script prints them."""
    tau = text.format_value(overall['kendall_tau']['mean'], '.4f')
    slowdowns = [overall[f'slowdown_{k}']['mean'] - 1 for k in (1, 10, 100)]
    return [
        'As published, on 1,000 listed configurations of each graph, where slowdown@k '
        'is the fastest of',
        'the first k / the fastest - 1, and equal scores keep the order of the list:',
        f'kendalltau {tau}  slowdown@1/10/100 '
        + ' / '.join(f'{ratio:.4f}' for ratio in slowdowns),
    ]


def _format_remarks(summary: text.JsonObject) -> list[str]:
    """Returns the lines below a table, which explain its figures."""
    grouping, overall = GROUPINGS[summary['task']], summary['overall']
    pooled = text.format_value(overall['opa_pooled'], '.3f')
    legend, *others = explain_titles(summary)
    remarks = [
        legend,
        f'OPA is the mean over {grouping.graph}s; all pairs pooled: {pooled}.',
        f'Intervals are over {grouping.group}s drawn at random; seeds are not in them.',
    ]
    noisy = overall.get('noise')
    if noisy:
        remarks += _format_noise(noisy)
    # A graph whose runtimes are all equal has no order.
    left_out = overall['graphs'] - overall['kendall_tau']['graphs']
    remarks += others
    if left_out and overall['opa_pooled'] is not None:
        remarks.append(
            f'OPA and tau leave out {left_out} of {overall["graphs"]:,} '
            f'{grouping.graph}s, whose runtimes are all equal.'
        )
    return ['', *remarks]


def _format_noise(noisy: text.JsonObject) -> list[str]:
    """Returns the lines on the noise of repeated measurements."""
    agree = text.format_value(noisy['tau_twice'], '.2f')
    ceiling = text.format_value(noisy['tau_ceiling'], '.2f')
    return [
        f'Noise: {text.count(noisy["repeated"], "configuration")} of '
        f'{text.count(noisy["graphs"], "graph")} measured again, '
        f'{noisy["relative_std"]:.1e} of the runtime apart.',
        f'tau of the model there {noisy["tau"]:.2f}; of two measurements with each '
        f'other (again) {agree};',
        f'of a perfect model about {ceiling} (ceiling, drawn with that noise).',
    ]


def show_size(group: text.JsonObject) -> list[str]:
    """Returns the cells with the numbers of graphs and of configurations."""
    return [f'{group["graphs"]:,}', f'{group["configurations"]:,}']
