"""Compares models on the same graphs: gains, tests, and tables."""

from collections.abc import Callable, Mapping, Sequence
import os
import warnings

import numpy as np
import scipy  # loads `stats`, which takes half a second, on first use

from baselines.core import text
from baselines.evaluation import metrics
from baselines.evaluation import report

NOT_SEEN = 'no difference seen'
_SIGNIFICANT = 0.05
_FEWEST = 6  # programs: all six gaining has p = 2 / 2**6 = 0.03, all five 0.06
_Results = Sequence[report.GraphResult]


def paired_test(
    task: str, ours: Sequence[_Results], theirs: Sequence[_Results]
) -> dict[str, text.JsonObject]:
    """Tests whether one model is better than another, on the same graphs.

    Two questions are answered separately.  Would the result hold on other programs?
    The interval is over programs drawn with replacement, and Wilcoxon's signed-rank
    test compares the gains and losses of programs.  A difference is seen if the
    interval excludes 0 and the test has p < 0.05, which takes six programs.
    Would it hold with other seeds?  A graph's figures are means over the runs of a
    model, and the standard deviation over these runs is returned, too.

    Args:
        task: 'tile' or 'layout'.
        ours: graphs scored by each run of the one model.
        theirs: the same graphs in the same order by each run of the other.

    Returns:
        For each measure a dict: `ours` and `theirs`, means over graphs;
        `ours_over_seeds` and `theirs_over_seeds`, standard deviations of these
        over runs, None for one run; `gain`, the mean over graphs of the difference,
        positive where ours is better; `low` and `high`, its 95 % interval with
        programs drawn as a whole, None for a single one; `programs`; `won` and
        `lost`, how many of them gain and lose; `p`; `seen`: 'better', 'worse' or 'no
        difference seen'.  Means are None for a measure that is defined on no graph.
    """
    group_of = report.GROUPINGS[task].group_of
    groups = np.array([group_of(result.graph_id) for result in ours[0]])
    tests = {}
    for measure in metrics.MEASURES[task]:
        of = measure.of_graph
        a, b = (  # [runs, graphs]
            np.array([[of(r.scores, r.runtimes) for r in run] for run in side], float)
            for side in (ours, theirs)
        )
        # [graphs], positive where ours is better.
        gain = (a.mean(axis=0) - b.mean(axis=0)) * measure.sign
        defined = ~np.isnan(gain)
        gain, mean, low, high = gain[defined], None, None, None
        if len(gain):
            mean = float(gain.mean())
            low, high = metrics.grouped_interval(gain, groups[defined])
        # Graphs of a program are alike, so the test takes programs: [programs].
        _, members = np.unique(groups[defined], return_inverse=True)
        of_programs = np.bincount(members, gain) / np.bincount(members)
        p = 1.0
        # The test is not defined where all gains are 0.
        if of_programs.any():
            with warnings.catch_warnings():  # of few programs, some without a gain
                warnings.simplefilter('ignore')
                p = float(scipy.stats.wilcoxon(of_programs).pvalue)
        seen = NOT_SEEN
        # low * high > 0: both bounds are on one side of 0.
        if low is not None and high is not None and low * high > 0 and p < _SIGNIFICANT:
            seen = 'better' if low > 0 else 'worse'
        tests[measure.key] = {
            **_summarise_runs('ours', a[:, defined]),
            **_summarise_runs('theirs', b[:, defined]),
            'gain': mean,
            'low': low,
            'high': high,
            'programs': len(of_programs),
            'won': int((of_programs > 0).sum()),
            'lost': int((of_programs < 0).sum()),
            'p': p,
            'seen': seen,
        }
    return tests


def _summarise_runs(name: str, values: np.ndarray) -> text.JsonObject:
    """Returns mean and deviation over runs of figures [runs, n] of a model."""
    if not values.size:
        return {name: None, f'{name}_over_seeds': None}
    means = values.mean(axis=1)
    spread = float(means.std(ddof=1)) if len(means) > 1 else None
    return {name: float(means.mean()), f'{name}_over_seeds': spread}


def make_test_rows(result: text.JsonObject) -> list[list[str]]:
    """Returns the table of a test, a row for each measure below the head."""
    task, tests = result['task'], result['measures']
    interval = f'{metrics.CONFIDENCE:.0%} over programs'
    rows = [['', 'A', 'B', 'gain of A', interval, 'won', 'p', '']]
    for measure in metrics.MEASURES[task]:
        test = tests[measure.key]
        low, high = (text.format_value(test[name], '+.3f') for name in ('low', 'high'))
        verdict = test['seen'] if test['seen'] == NOT_SEEN else f'A is {test["seen"]}'
        sides = [_show_spread(test, name, measure.show) for name in ('ours', 'theirs')]
        rows.append(
            [
                measure.title,
                *sides,
                text.format_value(test['gain'], '+.3f'),
                f'{low} to {high}',
                f'{test["won"]} of {test["won"] + test["lost"]}',
                f'{test["p"]:.3f}',
                verdict,
            ]
        )
    return rows


def format_test(result: text.JsonObject) -> str:
    """Lays out a test of two models, as `evaluate --compare --json` prints it."""
    task = result['task']
    sides = [result['a'], result['b']]
    lines = [
        *(f'{name}: {", ".join(side["names"])}' for name, side in zip('AB', sides)),
        f'{report.data_title(result)}: '
        f'{text.count(result["graphs"], report.GROUPINGS[task].graph)} of '
        f'{text.count(result["programs"], "program")}',
        '',
        *text.format_table(make_test_rows(result), '<>>>>>><', rules=[1]),
        '',
        'Over programs: gains of A are positive where it is better.  A difference is '
        'seen where',
        'the interval leaves out 0 and the signed-rank test over programs has '
        f'p < {_SIGNIFICANT}.',
    ]
    # Below it not even a gain in every program is significant.
    if result['programs'] < _FEWEST:
        lines.append(
            f'{text.count(result["programs"], "program")} can show none: it takes '
            f'{_FEWEST}.'
        )
    for name, side in zip('AB', sides):
        runs = len(side['dirs'])
        lines.append(
            f'Over seeds: unknown for {name}, one run.'
            if runs == 1
            else f'Over seeds: +- is the standard deviation of {runs} runs of {name}.'
        )
    return '\n'.join(lines)


def _show_spread(test: text.JsonObject, name: str, show: str) -> str:
    """Returns a mean, and its deviation over seeds where there are several."""
    spread = test[f'{name}_over_seeds']
    mean = text.format_value(test[name], show)
    return mean if spread is None else f'{mean} +-{format(spread, show)}'


def format_runs(summaries: Mapping[str, text.JsonObject]) -> str:
    """Lays out a line for each run; runs that differ in seed alone also have means.

    Below are the figures of random choice, and of others to compare with.

    Returns:
        A table for each collection, separated by empty lines.
    """
    tables = []
    for of_collection, rows in zip(_group_runs(summaries), make_run_tables(summaries)):
        first, measures = of_collection[0], metrics.MEASURES[of_collection[0]['task']]
        sizes = [tuple(report.show_size(s['overall'])) for s in of_collection]
        folders = [os.path.dirname(s['data']) for s in of_collection]
        titles = [*map(report.data_title, of_collection)]
        graphs = {*zip(titles, folders, sizes)}
        means = [number for number, row in enumerate(rows) if not row[1]]
        rules = [1, *means[:1]]
        if len(graphs) == 1:  # else each run has its own references
            rules.append(len(rows))
            for title, field in report.list_references(first).items():
                rows.append([title, '', *_show_cells(measures, [first], field=field)])
        lines = [
            *dict.fromkeys(titles),
            *text.format_table(rows, rules=rules, width=text.WIDTH),
        ]
        if len(graphs) > len({*titles}):
            lines.append(
                'The runs were measured on different graphs: figures of different '
                'rows do not compare.'
            )
        tables.append('\n'.join([*lines, '', *report.explain_titles(first)]))
    return '\n\n'.join(tables)


def make_run_tables(summaries: Mapping[str, text.JsonObject]) -> list[list[list[str]]]:
    """Returns a table for each collection: a row for each run below the head.

    Runs that repeat one another on the same data have rows of their mean and standard
    deviation at the end.

    Args:
        summaries: summaries by model directory, from `Predictor.measure`, with `name`,
            which tells the run from the others, and `group`, which only runs
            share that differ in seed, fold and the place of their data alone.
    """
    return [_make_run_rows(alike) for alike in _group_runs(summaries)]


def _group_runs(
    summaries: Mapping[str, text.JsonObject],
) -> list[list[text.JsonObject]]:
    """Groups summaries by their collection, in the order of first mention."""
    groups: dict[str, list[text.JsonObject]] = {}
    for summary in summaries.values():
        groups.setdefault(summary['collection'], []).append(summary)
    return list(groups.values())


def _make_run_rows(summaries: Sequence[text.JsonObject]) -> list[list[str]]:
    """Lays out a table of runs of a collection; models of several seeds have means."""
    collection, task = summaries[0]['collection'], summaries[0]['task']
    measures = metrics.MEASURES[task]
    graphs = f'{report.GROUPINGS[task].graph}s'
    rows = [[collection, graphs, *(m.title for m in measures)]]
    # Runs of one group on the same data differ in seed and fold: their mean is a row.
    by_group: dict[tuple[str, str], list[text.JsonObject]] = {}
    for summary in summaries:
        graphs = f'{summary["overall"]["graphs"]:,}'
        rows.append([summary['name'], graphs, *_show_cells(measures, [summary])])
        key = summary['group'], os.path.dirname(summary['data'])
        by_group.setdefault(key, []).append(summary)
    for (group, _), runs in by_group.items():
        if len(runs) > 1:
            title = f'mean of {len(runs)}: {group}'
            rows.append([title, '', *_show_cells(measures, runs)])
            spread = _show_cells(measures, runs, lambda values: np.std(values, ddof=1))
            over = 'folds' if len({run.get('fold') for run in runs}) > 1 else 'seeds'
            rows.append([f'  deviation over {over}', '', *spread])
    return rows


def format_ensemble(result: text.JsonObject) -> str:
    """Lays out what `scoring.ensemble.Scored.measure` returns, as a table."""
    summary, members = result['ensemble'], list(result['members'].values())
    measures = metrics.MEASURES[summary['task']]
    rows = [[summary['collection'], *(m.title for m in measures)]]
    rows += [[member['name'], *_show_cells(measures, [member])] for member in members]
    # What an ensemble has to beat: the mean of its members, not the best of them.
    rows.append(['mean of the members', *_show_cells(measures, members)])
    together = f'ensemble of {len(members)} by {summary["by"]}'
    rows.append([together, *_show_cells(measures, [summary])])
    gains = result['gain_over_mean']
    for title, field in (
        ('gain over the mean', 'gain'),
        (f'  {metrics.CONFIDENCE:.0%} interval, from', 'low'),
        (f'  {metrics.CONFIDENCE:.0%} interval, to', 'high'),
    ):
        cells = [text.format_value(gains[m.key][field], '+.3f') for m in measures]
        rows.append([title, *cells])
    rules = [1, len(rows) - 4, len(rows) - 3]
    lines = [
        report.data_title(summary),
        *text.format_table(rows, rules=rules, width=text.WIDTH),
        '',
        'Gain: positive where the ensemble is better; its interval draws programs as a '
        'whole.',
    ]
    return '\n'.join(lines)


def _show_cells(
    measures: Sequence[metrics.Measure],
    summaries: Sequence[text.JsonObject],
    combine: Callable[[list[float]], np.floating] = np.mean,
    field: str = 'mean',
) -> list[str]:
    """Returns a cell for each measure: a field of the runs, combined."""
    cells = []
    for measure in measures:
        means = [summary['overall'][measure.key][field] for summary in summaries]
        value = None if None in means else float(combine(means))
        cells.append(text.format_value(value, measure.show))
    return cells
