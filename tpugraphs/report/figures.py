"""The figures of a report, each with a text for screen readers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baselines.core import text
from baselines.evaluation import metrics
from baselines.evaluation import report
from tpugraphs.report import measured
from tpugraphs.report import pictures

_RANDOM, _DEFAULT = 'at random', 'default first'
_TWICE, _CEILING = 'two measurements', 'perfect model'
_COMPARED_WITH = (_RANDOM, _DEFAULT, _TWICE, _CEILING)  # after models, in a legend
# Of errors, along an axis: numbers stand side by side on that of x.
_PERCENT_TICKS = {
    'x': (0, 0.5, 1, 10, 100, 1000),
    'y': (0, 0.5, 1, 2, 5, 10, 20, 50, 100),
}
_KS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_KS_IN_TEXT = (1, 5, 10, 100)  # in the text of a figure
_GROUPS_IN_TEXT = 3
_NAME = 24  # characters of a program's name, half of a picture's width


def draw_curves(models: Sequence[measured.ReportedModel]) -> list[pictures.Picture]:
    """Draws validation scores and each kind of loss; nothing without curves."""
    runs = [run for model in models for run in model.runs]
    by_tau = any('val_tau' in run.run.curve for run in runs)
    key, title = ('val_tau', "Kendall's tau") if by_tau else ('val_opa', 'OPA')
    drawn, bests = [], []
    for run in runs:
        scores = _read_curve(run, key)
        best = _find_best_epoch(run, scores)
        if best is not None:
            epochs = text.count(len(scores), 'epoch')
            score = f'best {scores[best]:.3f} at epoch {best + 1}'
            bests.append(f'{run.name}: {epochs}, {score}')
    if bests:
        drawn.append(
            pictures.draw_picture(
                lambda axes: _plot_curves(axes, models, {key: '-'}, title),
                f'Line chart of {title} on validation configurations by epoch. '
                f'{"; ".join(bests)}.',
                f'{title} on the validation configurations by epoch. Stars: the best '
                'epoch, whose weights the run has.',
            )
        )
    losses = dict.fromkeys(map(measured.find_loss, runs))
    return drawn + [one for loss in losses for one in _draw_losses(models, loss)]


def _draw_losses(
    models: Sequence[measured.ReportedModel], loss: measured.Loss
) -> list[pictures.Picture]:
    """Draws one kind of loss, which no other kind can be compared with."""
    lines = {'train_loss': '-', 'val_loss': '--'}
    # Models without such a run stay, and so does the colour of each.
    models = [
        model._replace(runs=[r for r in model.runs if measured.find_loss(r) == loss])
        for model in models
    ]
    runs = [run for model in models for run in model.runs]
    curves = [_read_curve(run, name) for run in runs for name in lines]
    if not any(np.isfinite(curve).any() for curve in curves):
        return []
    what = f'({text.printable(loss.name)}) by {loss.step}'
    return [
        pictures.draw_picture(
            lambda axes: _plot_curves(axes, models, lines, loss.name, loss.step),
            f'Line chart of the loss {what}, in training and on validation.',
            f'The loss {what}: solid in training, dashed on validation.',
        )
    ]


def _plot_curves(
    axes: Any,
    models: Sequence[measured.ReportedModel],
    lines: Mapping[str, str],
    title: str,
    step: str = 'epoch',
) -> None:
    """Plots curves, in a style by name, with a star at the best epoch of a score."""
    for number, model in enumerate(models):
        style = {'color': pictures.choose_colour(number)}
        label = model.name
        for run in model.runs:
            for name, line in lines.items():
                values = _read_curve(run, name)
                if not np.isfinite(values).any():
                    continue
                if label:
                    axes.plot([], [], label=label, **style)
                    label = ''  # once for all curves of a model
                axes.plot(np.arange(1, len(values) + 1), values, line, **style)
                best = _find_best_epoch(run, values)
                if best is not None and 'loss' not in name:
                    axes.plot([best + 1], [values[best]], '*', markersize=12, **style)
    axes.set(xlabel=step, ylabel=pictures.wrap_label(title))
    axes.xaxis.get_major_locator().set_params(integer=True)
    pictures.add_legend(axes, fewest=1 if len(models) > 1 else 2)


def draw_groups(
    models: Sequence[measured.ReportedModel], key: str, title: str, most_rows: int = 30
) -> pictures.Picture:
    """Draws a measure of each program or graph, with intervals, next to random choice.

    Args:
        most_rows: programs or graphs to draw, the worst ones.
    """
    worst = _sort_worst_first(models, key)
    names = [measured.ALL, *worst[:most_rows]]
    over = models[0].runs[0].summary['interval_over'].rstrip('s')
    noisy = key == 'kendall_tau' and models[0].runs[0].summary['overall'].get('noise')
    limit = ''
    if noisy:
        limit = (
            f' Two measurements of one configuration agree at '
            f'{text.format_value(noisy["tau_twice"], ".2f")}, a perfect model would '
            f'reach about {noisy["tau_ceiling"]:.2f}.'
        )
    elif key == 'kendall_tau':
        limit = ' No configuration was measured again: the ceiling is not known.'
    rows = f'; the {most_rows} worst of {len(worst)}' * (len(worst) > most_rows)
    inches_per_row = 0.2 * max(1, len(models) / 2)
    height = 1.1 + inches_per_row * len(names)
    return pictures.draw_picture(
        lambda axes: _plot_groups(axes, models, names, key, title),
        f'Dot plot of {title} by {over}. {_describe_means(models, names, key)}.{limit}',
        f'{title[0].upper()}{title[1:]} of each {over}, all of them in the first row'
        f'{rows}. Bars of a single run: 95 % intervals, without other seeds; of '
        f'several: the standard deviation over them.{limit}',
        size=(4.4, height),
    )


def _plot_groups(
    axes: Any,
    models: Sequence[measured.ReportedModel],
    names: Sequence[str],
    key: str,
    title: str,
) -> None:
    """Plots a measure of groups: a row for each name, a mark for each model."""
    step = 0.7 / len(models)
    for number, model in enumerate(models):
        estimates = [model.average_measure(key, name) for name in names]
        # [names] each, NaN where the model has no such group.
        mean, low, high = (
            np.array([getattr(e, field) for e in estimates], np.float64)
            for field in ('mean', 'low', 'high')
        )
        # [names]: the marks of the models stand side by side around the row of a name.
        rows = np.arange(len(names)) + (number - (len(models) - 1) / 2) * step
        defined = ~np.isnan(mean)
        axes.errorbar(
            mean[defined],
            rows[defined],
            xerr=np.fmax([mean - low, high - mean], 0)[:, defined],
            fmt=pictures.choose_marker(number),
            color=pictures.choose_colour(number),
            elinewidth=1.2,
            label=model.name,
        )
    marks = [
        (key, 'random', _RANDOM, pictures.FAINT, 'x'),
        (key, 'default', _DEFAULT, pictures.FAINT, '+'),
    ]
    if key == 'kendall_tau':
        marks += [
            ('noise', 'tau_twice', _TWICE, pictures.INK, '>'),
            ('noise', 'tau_ceiling', _CEILING, pictures.INK, '|'),
        ]
    for source, field, label, hue, sign in marks:
        values = _read_column(models[0].runs[0], names, source, field)
        if not np.isnan(values).all():
            style = {'color': hue, 'label': label, 'markersize': 7, 'zorder': 1}
            axes.plot(values, np.arange(len(names)), sign, **style)
    if key not in ('kendall_tau', 'opa'):
        axes.set_xlim(left=0)
        _set_percents(axes.xaxis)
    labels = [text.shorten(text.printable(name), _NAME) for name in names]
    axes.set_yticks(range(len(names)), labels)
    # Upside down: the first name is at the top.
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(title)
    axes.grid(axis='y', visible=False)
    pictures.add_legend(axes, _COMPARED_WITH)


def _read_column(
    run: measured.MeasuredRun, names: Sequence[str], key: str, field: str
) -> np.ndarray:
    """Returns a field of a measure for each group; NaN where the run has none."""
    measures = [measured.find_measures(run, name).get(key) or {} for name in names]
    return np.array([measure.get(field) for measure in measures], np.float64)


def _describe_means(
    models: Sequence[measured.ReportedModel], names: Sequence[str], key: str
) -> str:
    """Lists the means of models and of random choice, over all and the worst groups."""
    named = names[: 1 + _GROUPS_IN_TEXT]
    values_of = {
        model.name: [model.average_measure(key, name).format('.3f') for name in named]
        for model in models
    }
    random = _read_column(models[0].runs[0], named, key, 'random')
    values_of['at random'] = [f'{value:.3f}' for value in random]
    sentences = []
    for model, values in values_of.items():
        parts = [f'{text.printable(n)} {value}' for n, value in zip(named, values)]
        sentences.append(f'{model}: {", ".join(parts)}')
    return '; '.join(sentences)


def draw_slowdowns(models: Sequence[measured.ReportedModel]) -> pictures.Picture:
    """Draws the top-k error by k: how much slower the best of k is than the best."""
    runs = [run for model in models for run in model.runs]
    most = max(len(graph.runtimes) for run in runs for graph in run.results)
    points = [k for k in _KS if k <= most]
    program_of = report.GROUPINGS[runs[0].summary['task']].group_of
    lines, bands = {}, {}  # by model, [points] and [points, 2]
    for model in models:
        graphs = [graph for run in model.runs for graph in run.results]
        errors = _compute_errors(graphs, points)
        # Programs are the units of an interval.
        programs = [program_of(graph.graph_id) for graph in graphs]
        ends = [metrics.grouped_interval(column, programs) for column in errors.T]
        lines[model.name] = errors.mean(axis=0)
        bands[model.name] = np.array(ends, np.float64)
    untrained = {
        name: _compute_errors(graphs, points).mean(axis=0)
        for name, graphs in _score_untrained(runs[0].results).items()
    }

    def plot(axes: Any) -> None:
        for number, (name, line) in enumerate(lines.items()):
            hue = pictures.choose_colour(number)
            marker = pictures.choose_marker(number)
            axes.plot(points, line, marker=marker, color=hue, label=name)
            band = bands[name].T
            axes.fill_between(points, *band, color=hue, alpha=0.15, linewidth=0)
        for (name, line), style in zip(untrained.items(), ('--', ':')):
            axes.plot(points, line, style, color=pictures.FAINT, label=name)
        axes.set_xscale('log')
        axes.set_xticks(points, [f'{k:,}' for k in points], rotation=45)
        axes.minorticks_off()
        _set_percents(axes.yaxis)
        axes.set_ylim(bottom=0)
        axes.set(xlabel='k, configurations tried', ylabel='top-k error')
        pictures.add_legend(axes, _COMPARED_WITH)

    sentences = []
    for name, line in (lines | untrained).items():
        means = [
            f'{x:.1%} at k = {k}' for x, k in zip(line, points) if k in _KS_IN_TEXT
        ]
        sentences.append(f'{name}: {", ".join(means)}')
    return pictures.draw_picture(
        plot,
        f'Line chart of top-k error by the number of configurations tried. '
        f'{"; ".join(sentences)}.',
        'Top-k error: how much slower the best of the k ranked first is than the best '
        'of all, mean over graphs and runs. Bands: 95 % intervals over programs.',
    )


def _compute_errors(
    graphs: Sequence[report.GraphResult], points: Sequence[int]
) -> np.ndarray:
    """Computes the top-k errors of each graph: float64 [graphs, points]."""
    rows = [
        [metrics.top_k_error(graph.scores, graph.runtimes, k) for k in points]
        for graph in graphs
    ]
    return np.array(rows, np.float64)


def _score_untrained(
    graphs: Sequence[report.GraphResult],
) -> dict[str, list[report.GraphResult]]:
    """Scores graphs at random and, where all defaults are known, with these first."""
    scored = {_RANDOM: [g._replace(scores=np.zeros(len(g.runtimes))) for g in graphs]}
    if all(graph.default is not None for graph in graphs):
        scored[_DEFAULT] = [g._replace(scores=g.rank_default_first()) for g in graphs]
    return scored


def _set_percents(axis: Any) -> None:
    """Shows an axis of errors as percents; beyond 200 % it is linear and then not."""
    from matplotlib import ticker

    name, most = axis.axis_name, axis.get_view_interval()[1]
    if most > 2:  # a few programs take many times as long
        getattr(axis.axes, f'set_{name}scale')('symlog', linthresh=1)
        ticks = [tick for tick in _PERCENT_TICKS[name] if tick <= most]
        axis.set_major_locator(ticker.FixedLocator(ticks))
        axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda x, unused: f'{100 * x:,g}%'))


def _sort_worst_first(models: Sequence[measured.ReportedModel], key: str) -> list[str]:
    """Returns the names of all groups, the worst mean first."""
    sign = metrics.find_measure(models[0].runs[0].summary['task'], key).sign
    names = {name for m in models for run in m.runs for name in run.summary['groups']}

    def get_place(name: str) -> tuple[float, str]:
        means = [model.average_measure(key, name).mean or 0.0 for model in models]
        return sign * float(np.mean(means)), name

    return sorted(names, key=get_place)


def _read_curve(run: measured.MeasuredRun, name: str) -> np.ndarray:
    """Returns a curve of a run file, float64 [epochs]; NaN where it has None."""
    return np.array(run.run.curve.get(name, []), np.float64)


def _find_best_epoch(run: measured.MeasuredRun, values: np.ndarray) -> int | None:
    """Returns the index of the best epoch in a curve; None without numbers."""
    best = run.run.info.get('best_epoch')
    if isinstance(best, int) and 0 <= best < len(values) and np.isfinite(values[best]):
        return best
    return int(np.nanargmax(values)) if np.isfinite(values).any() else None
