"""The figures of a report, each with its text for who does not see it."""

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from baselines import text
from baselines.evaluation import metrics
from baselines.evaluation import report
from tpugraphs.report import measured
from tpugraphs.report import pictures

_MOST_ROWS = 30
_MOST_DOTS = 300
_MOST_PAIRS = 400  # of a graph
_BINS = 10
_RANDOM, _TWICE, _CEILING = 'at random', 'two measurements', 'perfect model'
_FEWEST = 5  # configurations of a graph whose ranking is worth a look
_KS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_TOLD_KS = (1, 5, 10, 100)  # in the text of a figure
_TOLD_GROUPS = 3


def curves(models: Sequence[measured.Model]) -> List[pictures.Picture]:
    """Draws validation scores and losses by epoch; nothing of runs without curves."""
    by_tau = any('val_tau' in run.run.curve for model in models for run in model.runs)
    key, title = ('val_tau', "Kendall's tau") if by_tau else ('val_opa', 'OPA')
    drawn = []
    score_texts, loss_texts = [], []
    for run in (run for model in models for run in model.runs):
        scores = _curve(run, key)
        best = _best_epoch(run, scores)
        if best is not None:
            score_texts.append(
                f'{run.name}: {len(scores)} epochs, best {scores[best]:.3f} at epoch '
                f'{best + 1}'
            )
        losses = [_curve(run, name) for name in ('train_loss', 'val_loss')]
        if any(np.isfinite(loss).any() for loss in losses):
            loss_texts.append(
                f'{run.name}: training {_ends(losses[0])}, validation '
                f'{_ends(losses[1])}'
            )
    if score_texts:
        drawn.append(
            pictures.draw(
                lambda axes: _plot_scores(axes, models, key, f'{title}, validation'),
                f'Line chart of {title} on validation configurations by epoch. '
                f'{"; ".join(score_texts)}.',
                f'{title} on the validation configurations by epoch. Stars: the best '
                'epoch, whose weights the run has.',
            )
        )
    if loss_texts:
        drawn.append(
            pictures.draw(
                lambda axes: _plot_losses(axes, models),
                f'Line chart of losses by epoch, from first to last. '
                f'{"; ".join(loss_texts)}.',
                'Loss by epoch: solid in training, dashed on validation. Losses of '
                'different kinds cannot be compared.',
            )
        )
    return drawn


def _plot_scores(
    axes: Any, models: Sequence[measured.Model], key: str, title: str
) -> None:
    for number, model in enumerate(models):
        style = {'color': pictures.colour(number)}
        for place, run in enumerate(model.runs):
            scores = _curve(run, key)
            label = None if place else short(model.name)
            axes.plot(np.arange(1, len(scores) + 1), scores, label=label, **style)
            best = _best_epoch(run, scores)
            if best is not None:
                axes.plot([best + 1], [scores[best]], '*', markersize=12, **style)
    _label_epochs(axes, title)


def _plot_losses(axes: Any, models: Sequence[measured.Model]) -> None:
    for number, model in enumerate(models):
        style = {'color': pictures.colour(number)}
        for place, run in enumerate(model.runs):
            label = None if place else short(model.name)
            for name, line in (('train_loss', '-'), ('val_loss', '--')):
                losses = _curve(run, name)
                epochs = np.arange(1, len(losses) + 1)
                axes.plot(epochs, losses, line, label=label, **style)
                label = None
    _label_epochs(axes, 'loss')


def _label_epochs(axes: Any, title: str) -> None:
    axes.set(xlabel='epoch', ylabel=title)
    whole_numbers(axes.xaxis)
    legend(axes)


def rankings(number: int, run: measured.Run) -> List[pictures.Picture]:
    """Draws predicted rank against runtime: the best, median and worst graph.

    Args:
        number: of the model, which has the colour.
        run: one of it.
    """
    by_tau = [
        (metrics.kendall_tau(graph.scores, graph.runtimes), index)
        for index, graph in enumerate(run.results)
        if len(graph.runtimes) >= _FEWEST
    ]
    by_tau = sorted(pair for pair in by_tau if not math.isnan(pair[0]))
    places = {'best': -1, 'median': len(by_tau) // 2, 'worst': 0} if by_tau else {}
    drawn: Dict[int, pictures.Picture] = {}
    for adjective, place in places.items():
        tau, index = by_tau[place]
        if index not in drawn:
            drawn[index] = _ranking(number, run.results[index], tau, adjective)
    return list(drawn.values())


def _ranking(
    number: int, graph: report.GraphResult, tau: float, adjective: str
) -> pictures.Picture:
    order = metrics.best_first(graph.scores)
    slow = np.asarray(graph.runtimes)[order] / np.min(graph.runtimes)
    count = len(slow)
    shown = np.unique(np.linspace(0, count - 1, min(count, _MOST_DOTS)).astype(int))
    fastest = int(np.argmin(slow))

    def plot(axes: Any) -> None:
        dots = {'s': 9, 'color': pictures.colour(number), 'alpha': 0.6}
        axes.scatter(shown + 1, slow[shown], **dots)
        axes.plot(
            [fastest + 1], [slow[fastest]], '*', color=pictures.INK, markersize=11
        )
        _scale_ratios(axes, slow.max())
        axes.set(xlabel='predicted rank', ylabel='runtime / fastest')
        whole_numbers(axes.xaxis)

    name = text.printable(graph.graph_id)
    first = f'rank 1 takes {slow[0]:.2f} times the fastest, the best of five '
    first += f'{slow[:5].min():.2f}'
    sample = f' {len(shown)} of {count:,} are drawn.' if len(shown) < count else ''
    return pictures.draw(
        plot,
        f'Scatter plot of {name}, {count:,} configurations: predicted rank against '
        f"measured runtime. Kendall's tau {tau:.2f}; {first}; the fastest is at rank "
        f'{fastest + 1}; the slowest takes {slow.max():.2f} times the fastest.',
        f'{adjective.capitalize()}: {name}, tau {tau:.2f}; {first}. Star: the fastest, '
        f'at rank {fastest + 1:,}.{sample}',
        size=(4.4, 2.6),
    )


def groups(models: Sequence[measured.Model], key: str, title: str) -> pictures.Picture:
    """Draws a measure of each program or graph, with intervals, beside random.

    Args:
        models: of the page.
        key: of the measure.
        title: of the measure.
    """
    names, cut = _worst_first(models, key)
    over = models[0].runs[0].summary['interval_over'].rstrip('s')
    noisy = key == 'kendall_tau' and models[0].runs[0].summary['overall'].get('noise')
    limit = ''
    if noisy:
        limit = (
            f' Two measurements of one configuration agree at '
            f'{text.cell(noisy["tau_twice"], ".2f")}, a perfect model would reach '
            f'about {noisy["tau_ceiling"]:.2f}.'
        )
    caption = f'{title[0].upper()}{title[1:]} of each {over}, all of them in the first '
    caption += f'row{f"; the {len(names) - 1} worst of {cut}" if cut else ""}.'
    caption += f' {_bars(models, over)}'
    if noisy:
        caption += limit
    elif key == 'kendall_tau':
        caption += ' No configuration was measured again: the ceiling is not known.'
    return pictures.draw(
        lambda axes: _plot_groups(axes, models, names, key, title),
        f'Dot plot of {title} by {over}. {_told(models, names, key)}.{limit}',
        caption,
        size=_size_of_rows(len(models), len(names)),
    )


def _bars(models: Sequence[measured.Model], over: str) -> str:
    """Says what the bars of `groups` are; `over` is 'program' or 'graph'."""
    counts = {len(model.runs) > 1 for model in models}
    sentences = []
    if False in counts:
        below = ', below over kernels of a program' if over == 'program' else ''
        single = ' of a single run' if True in counts else ''
        sentences.append(
            f'Bars{single}: 95 % intervals, in the first row over {over}s{below}; '
            'other seeds are not in them.'
        )
    if True in counts:
        sentences.append('Bars of several runs: the standard deviation over them.')
    return ' '.join(sentences)


def _plot_groups(
    axes: Any,
    models: Sequence[measured.Model],
    names: Sequence[str],
    key: str,
    title: str,
) -> None:
    step = 0.7 / len(models)
    for number, model in enumerate(models):
        estimates = [model.estimate(key, name) for name in names]
        mean, low, high = (
            np.array([getattr(e, field) for e in estimates], np.float64)
            for field in ('mean', 'low', 'high')
        )
        rows = np.arange(len(names)) + (number - (len(models) - 1) / 2) * step
        known = ~np.isnan(mean)
        axes.errorbar(
            mean[known],
            rows[known],
            xerr=np.fmax([mean - low, high - mean], 0)[:, known],
            fmt=pictures.marker(number),
            color=pictures.colour(number),
            elinewidth=1.2,
            label=short(model.name),
        )
    marks = [(key, 'random', _RANDOM, pictures.FAINT, 'x')]
    if key == 'kendall_tau':
        marks += [
            ('noise', 'tau_twice', _TWICE, pictures.INK, '>'),
            ('noise', 'tau_ceiling', _CEILING, pictures.INK, '|'),
        ]
    for source, field, label, hue, sign in marks:
        values = _column(models[0].runs[0], names, source, field)
        if not np.isnan(values).all():
            style = {'color': hue, 'label': label, 'markersize': 7, 'zorder': 1}
            axes.plot(values, np.arange(len(names)), sign, **style)
    most = axes.get_xlim()[1]
    if key not in ('kendall_tau', 'opa') and most > 1:  # a few take many times as long
        # Its margin, as it is, would go beyond -1, where this scale ends.
        axes.set_xlim(left=np.expm1(-0.05 * np.log1p(most)))
        axes.set_xscale('function', functions=(np.log1p, np.expm1))
        _set_round_ticks(axes.set_xticks, 0, most)
    else:
        axes.locator_params(axis='x', nbins=6)
    axes.set_yticks(range(len(names)), [short(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(title)
    axes.grid(axis='y', visible=False)
    legend(axes)


def _size_of_rows(num_models: int, num_rows: int) -> Tuple[float, float]:
    """Returns width and height in inches of a picture with a row for each name."""
    height_of_row = 0.2 * max(1, num_models / 2)
    return 4.4, 1.3 + 0.16 * num_models + height_of_row * num_rows


def _column(
    run: measured.Run, names: Sequence[str], key: str, field: str
) -> np.ndarray:
    """Returns a field of a measure for each group, NaN where it is not known."""
    measures = [measured.Model.group(run, name).get(key) or {} for name in names]
    return np.array([measure.get(field) for measure in measures], np.float64)


def _told(models: Sequence[measured.Model], names: Sequence[str], key: str) -> str:
    """Says how the models do on all graphs and on the worst groups."""
    random = dict(zip(names, _column(models[0].runs[0], names, key, 'random')))
    sentences = []
    for model in models:
        parts = []
        for name in names[: 1 + _TOLD_GROUPS]:
            estimate = model.estimate(key, name)
            if estimate.mean is not None:
                parts.append(
                    f'{text.printable(name)} {estimate.format(".3f")}, random '
                    f'{random[name]:.3f}'
                )
        sentences.append(f'{model.name}: {", ".join(parts)}')
    return '; '.join(sentences)


def slowdowns(models: Sequence[measured.Model]) -> pictures.Picture:
    """Draws the best of the k ranked first over the best of all, by k."""
    runs = [run for model in models for run in model.runs]
    most = max(len(graph.runtimes) for run in runs for graph in run.results)
    points = [k for k in _KS if k <= most]
    lines = [
        np.mean([_slowdown_by_k(run, points) for run in model.runs], axis=0)
        for model in models
    ]
    random = np.mean(
        [
            [1 + metrics.random_top_k_error(graph.runtimes, k) for k in points]
            for graph in runs[0].results
        ],
        axis=0,
    )

    def plot(axes: Any) -> None:
        for number, (model, line) in enumerate(zip(models, lines)):
            axes.plot(
                points,
                line,
                marker=pictures.marker(number),
                color=pictures.colour(number),
                label=short(model.name),
            )
        axes.plot(points, random, '--', color=pictures.FAINT, label=_RANDOM)
        axes.set_xscale('log')
        axes.set_xticks(points, [f'{k:,}' for k in points], rotation=45)
        axes.minorticks_off()
        _scale_ratios(axes, np.max([random, *lines]), least=1)
        axes.set(xlabel='k, configurations tried', ylabel='slowdown@k')
        legend(axes)

    sentences = []
    for name, line in zip([*(m.name for m in models), 'random'], [*lines, random]):
        told = [f'{x:.3f} at k = {k}' for x, k in zip(line, points) if k in _TOLD_KS]
        sentences.append(f'{name}: {", ".join(told)}')
    return pictures.draw(
        plot,
        f'Line chart of slowdown by the number of configurations tried. '
        f'{"; ".join(sentences)}.',
        'Slowdown@k: the best of the k ranked first over the best of all, mean over '
        'graphs and runs. 1 is perfect.',
    )


def _slowdown_by_k(run: measured.Run, points: Sequence[int]) -> np.ndarray:
    """Computes the slowdown of trying k configurations, mean over graphs."""
    rows = []
    for graph in run.results:
        order = metrics.best_first(graph.scores)
        best = np.minimum.accumulate(np.asarray(graph.runtimes, float)[order])
        rows.append(best[np.minimum(points, len(best)) - 1] / best[-1])
    return np.mean(rows, axis=0)


def calibration(number: int, model: measured.Model) -> Optional[pictures.Picture]:
    """Draws score differences of pairs against ratios of their runtimes.

    Args:
        number: of the model, which has the colour.
        model: whose runs; pairs of all of them.

    Returns:
        None where there are too few pairs.
    """
    pairs = [_pairs(run.results) for run in model.runs]
    differences, ratios = (np.concatenate(arrays) for arrays in zip(*pairs))
    if len(differences) < _BINS:
        return None
    edges = np.quantile(differences, np.linspace(0, 1, _BINS + 1))
    members = np.clip(np.searchsorted(edges, differences, 'right') - 1, 0, _BINS - 1)
    rows = []
    for place in np.unique(members):
        inside = members == place
        quartiles = np.quantile(ratios[inside], [0.25, 0.5, 0.75])
        right = (ratios[inside] > 0).mean() + (ratios[inside] == 0).mean() / 2
        rows.append((np.median(differences[inside]), *np.exp(quartiles), right))
    x, low, middle, high, right = np.array(rows).T

    def plot(axes: Any) -> None:
        hue = pictures.colour(number)
        axes.fill_between(x, low, high, color=hue, alpha=0.2, linewidth=0)
        axes.plot(x, middle, marker=pictures.marker(number), color=hue)
        axes.axhline(1, color=pictures.FAINT, linewidth=1)
        _scale_ratios(axes, high.max(), least=low.min())
        axes.set(xlabel='score difference', ylabel='runtime ratio')

    return pictures.draw(
        plot,
        f'Line chart of {model.name}: the median runtime ratio of two configurations '
        f'of a graph is {middle[0]:.3f} where their scores differ least, and '
        f'{middle[-1]:.3f} where they differ most; of these pairs {right[0]:.0%} and '
        f'{right[-1]:.0%} are in the right order.',
        f'{model.name}: runtime ratio by score difference, median and '
        f'quartiles of {len(differences):,} pairs. Above 1 the order is right: '
        f'{right[0]:.0%} of the closest tenth, {right[-1]:.0%} of the widest.',
    )


def _pairs(results: Sequence[report.GraphResult]) -> Tuple[np.ndarray, np.ndarray]:
    """Draws pairs of configurations, as many of each graph.

    Returns:
        Score differences, positive, and logarithms of the runtime ratios.
    """
    rng = np.random.default_rng(0)
    differences, ratios = [], []
    for graph in results:
        scores, logs = np.asarray(graph.scores, float), np.log(graph.runtimes)
        a, b = rng.integers(0, len(logs), (2, _MOST_PAIRS))
        gap = scores[a] - scores[b]
        differences.append(np.abs(gap[gap != 0]))
        ratios.append((np.sign(gap) * (logs[a] - logs[b]))[gap != 0])
    return np.concatenate(differences), np.concatenate(ratios)


def _worst_first(models: Sequence[measured.Model], key: str) -> Tuple[List[str], int]:
    """Returns ALL and the groups with the worst means; how many there are if cut."""
    task = models[0].runs[0].summary['task']
    more = {measure.key: measure.more_is_better for measure in metrics.MEASURES[task]}
    sign = 1 if more[key] else -1
    names = {name for m in models for run in m.runs for name in run.summary['groups']}

    def place(name: str) -> Tuple[float, str]:
        means = [model.estimate(key, name).mean or 0.0 for model in models]
        return sign * float(np.mean(means)), name

    ordered = sorted(names, key=place)
    cut = len(ordered) if len(ordered) > _MOST_ROWS else 0
    return [measured.ALL, *ordered[:_MOST_ROWS]], cut


def _curve(run: measured.Run, name: str) -> np.ndarray:
    """Returns a curve as float64; what is no number is NaN, for it is a stranger's."""
    values = run.run.curve.get(name)
    numbers = values if isinstance(values, list) else []
    return np.array(
        [v if isinstance(v, (int, float)) else math.nan for v in numbers], np.float64
    )


def _best_epoch(run: measured.Run, values: np.ndarray) -> Optional[int]:
    """Returns the index of the best epoch in its curve, if that is known."""
    best = run.run.info.get('best_epoch')
    if isinstance(best, int) and 0 <= best < len(values) and np.isfinite(values[best]):
        return best
    return int(np.nanargmax(values)) if np.isfinite(values).any() else None


def _ends(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    return f'{known[0]:.3f} to {known[-1]:.3f}' if len(known) else 'not known'


def legend(axes: Any) -> None:
    """Puts a legend above the picture if there is more than one thing to tell apart."""
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        # Models before what they are compared with.
        others = (_RANDOM, _TWICE, _CEILING)
        order = sorted(range(len(labels)), key=lambda i: labels[i] in others)
        handles, labels = ([items[i] for i in order] for items in (handles, labels))
        axes.figure.legend(handles, labels, loc='outside upper center', ncols=2)


def whole_numbers(axis: Any) -> None:
    """Puts ticks at whole numbers alone."""
    from matplotlib import ticker

    axis.set_major_locator(ticker.MaxNLocator(6, integer=True, min_n_ticks=1))


def _scale_ratios(axes: Any, most: float, least: float = 1.0) -> None:
    """Makes the y axis one of ratios: logarithmic where they are large."""
    from matplotlib import ticker

    if most / least > 4:
        axes.set_yscale('log')
        _set_round_ticks(axes.set_yticks, least * 0.9, most * 1.1)
        axes.minorticks_off()
    else:
        axes.yaxis.set_major_locator(ticker.MaxNLocator(5))
        axes.ticklabel_format(axis='y', useOffset=False)


def _set_round_ticks(set_ticks: Callable[..., Any], least: float, most: float) -> None:
    """Puts ticks at round numbers of a logarithmic scale, as many as have room."""
    steps = (0, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    shift = 0 if least > 0 else 1
    room = math.log((most + shift) / (least + shift)) / 9
    ticks: List[float] = []
    for step in steps:
        if least <= step <= most:
            if not ticks or math.log((step + shift) / (ticks[-1] + shift)) > room:
                ticks.append(step)
    set_ticks(ticks, [f'{tick:g}' for tick in ticks])


def short(name: str) -> str:
    """Shortens a name for a legend: two fit into the width of a picture."""
    return text.shortened(text.printable(name), 24)
