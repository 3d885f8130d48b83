"""The pictures of a report, each with its text for who does not see it."""

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from baselines import text
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.reporting import svg
from baselines.runs import run_files

_MOST_ROWS = 30
_MOST_DOTS = 300
_MOST_PAIRS = 400  # of a graph
_BINS = 10
_LIMITS = ('at random', 'two measurements', 'perfect model')
_FEWEST = 5  # configurations of a graph whose ranking is worth a look


class Run(NamedTuple):
    """A run, measured.

    Attributes:
        name: what tells it from the others of the page.
        run: as read from disk.
        summary: from `report.summarise`.
        results: each graph of the split, scored and measured.
    """

    name: str
    run: run_files.Run
    summary: Dict[str, Any]
    results: Sequence[report.GraphResult]


def curves(runs: Sequence[Run]) -> List[svg.Picture]:
    """Validation score and losses over epochs; nothing of runs without curves."""
    by_tau = any('val_tau' in run.run.curve for run in runs)
    key, title = ('val_tau', "Kendall's tau") if by_tau else ('val_opa', 'OPA')
    scores = [[_numbers(run.run.curve.get(key))] for run in runs]
    losses = [
        [_numbers(run.run.curve.get(name)) for name in ('train_loss', 'val_loss')]
        for run in runs
    ]
    found = []
    if _is_known(scores):
        best = [_best_epoch(run, values) for run, [values] in zip(runs, scores)]
        words = [
            f'{run.name}: {len(values)} epochs, best {values[at]:.3f} at epoch {at + 1}'
            for run, [values], at in zip(runs, scores, best)
            if at is not None
        ]
        found.append(
            svg.picture(
                lambda axes: _by_epoch(
                    axes, runs, scores, f'{title}, validation', best
                ),
                f'Line chart of {title} on validation configurations by epoch. '
                f'{"; ".join(words)}.',
                f'{title} on the validation configurations by epoch. Stars: the best '
                'epoch, whose weights the run has.',
            )
        )
    if _is_known(losses):
        words = [
            f'{run.name}: training {_ends(pair[0])}, validation {_ends(pair[1])}'
            for run, pair in zip(runs, losses)
        ]
        found.append(
            svg.picture(
                lambda axes: _by_epoch(axes, runs, losses, 'loss'),
                f'Line chart of losses by epoch, from first to last. '
                f'{"; ".join(words)}.',
                'Loss by epoch: solid in training, dashed on validation. Losses of '
                'different kinds cannot be compared.',
            )
        )
    return found


def _is_known(curves_of_runs: Sequence[Sequence[np.ndarray]]) -> bool:
    return any(np.isfinite(one).any() for some in curves_of_runs for one in some)


def _by_epoch(
    axes: Any,
    runs: Sequence[Run],
    curves_of_runs: Sequence[Sequence[np.ndarray]],
    title: str,
    best: Sequence = (),
) -> None:
    """Draws the curves of each run, solid and dashed, and a star at the best epoch."""
    from matplotlib import ticker

    for number, (run, some) in enumerate(zip(runs, curves_of_runs)):
        hue = svg.colour(number)
        for values, style, label in zip(some, ('-', '--'), (short(run.name), None)):
            epochs = np.arange(1, len(values) + 1)
            axes.plot(epochs, values, style, color=hue, label=label)
        if best and best[number] is not None:
            place = [best[number] + 1], [some[0][best[number]]]
            axes.plot(*place, '*', color=hue, markersize=12)
    axes.set(xlabel='epoch', ylabel=title)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6, integer=True))
    legend(axes)


def rankings(number: int, run: Run) -> List[svg.Picture]:
    """Predicted rank against measured runtime: best, median and worst graph."""
    known = [
        (metrics.kendall_tau(one.scores, one.runtimes), index)
        for index, one in enumerate(run.results)
        if len(one.runtimes) >= _FEWEST
    ]
    known = sorted(pair for pair in known if not math.isnan(pair[0]))
    picked = dict.fromkeys(
        (known[place], word)
        for place, word in ((-1, 'best'), (len(known) // 2, 'median'), (0, 'worst'))
        if known
    )
    seen, found = set(), []
    for (tau, index), word in picked:
        if index not in seen:
            seen.add(index)
            found.append(_ranking(number, run.results[index], tau, word))
    return found


def _ranking(
    number: int, one: report.GraphResult, tau: float, word: str
) -> svg.Picture:
    order = metrics.best_first(one.scores)
    slow = np.asarray(one.runtimes)[order] / np.min(one.runtimes)
    count = len(slow)
    drawn = np.unique(np.linspace(0, count - 1, min(count, _MOST_DOTS)).astype(int))
    fastest = int(np.argmin(slow))

    def draw(axes: Any) -> None:
        axes.scatter(drawn + 1, slow[drawn], s=9, color=svg.colour(number), alpha=0.6)
        axes.plot([fastest + 1], [slow[fastest]], '*', color=svg.INK, markersize=11)
        _ratios(axes, slow.max())
        axes.set(xlabel='predicted rank', ylabel='runtime / fastest')

    name = text.printable(one.graph_id)
    first = f'rank 1 takes {slow[0]:.2f} times the fastest, the best of five '
    first += f'{slow[:5].min():.2f}'
    sample = f' {len(drawn)} of {count:,} are drawn.' if len(drawn) < count else ''
    return svg.picture(
        draw,
        f'Scatter plot of {name}, {count:,} configurations: predicted rank against '
        f"measured runtime. Kendall's tau {tau:.2f}; {first}; the fastest is at rank "
        f'{fastest + 1}; the slowest takes {slow.max():.2f} times the fastest.',
        f'{word.capitalize()}: {name}, tau {tau:.2f}; {first}. Star: the fastest, '
        f'at rank {fastest + 1:,}.{sample}',
        size=(4.4, 2.6),
    )


def programs(runs: Sequence[Run], key: str, title: str) -> svg.Picture:
    """A measure of each program, with intervals over its kernels, beside random."""
    names, cut = _worst_first(runs, key)
    tau = key == 'kendall_tau'

    def column(run: Run, field: str, of: str = key) -> np.ndarray:
        found = [(_group_of(run, name).get(of) or {}).get(field) for name in names]
        return np.array(found, np.float64)

    def draw(axes: Any) -> None:
        step = 0.7 / len(runs)
        for number, run in enumerate(runs):
            values, low, high = (column(run, name) for name in ('mean', 'low', 'high'))
            rows = np.arange(len(names)) + (number - (len(runs) - 1) / 2) * step
            known = ~np.isnan(values)
            axes.errorbar(
                values[known],
                rows[known],
                xerr=np.fmax([values - low, high - values], 0)[:, known],
                fmt=svg.marker(number),
                color=svg.colour(number),
                elinewidth=1.2,
                label=short(run.name),
            )
        marks = [(column(runs[0], 'random'), 'at random', svg.FAINT, 'x')]
        if tau:
            for field, label, sign in zip(
                ('tau_twice', 'tau_ceiling'), _LIMITS[1:], '>|'
            ):
                marks.append((column(runs[0], field, 'noise'), label, svg.INK, sign))
        for values, label, hue, sign in marks:
            if not np.isnan(values).all():
                rows = np.arange(len(names))
                style = {'color': hue, 'label': label, 'markersize': 7, 'zorder': 1}
                axes.plot(values, rows, sign, **style)
        most = axes.get_xlim()[1]
        if not tau and key != 'opa' and most > 1:  # a few take many times as long
            # Its margin, as it is, would go beyond -1, where this scale ends.
            axes.set_xlim(left=np.expm1(-0.05 * np.log1p(most)))
            axes.set_xscale('function', functions=(np.log1p, np.expm1))
            _steps(axes.set_xticks, 0, most)
        axes.set_yticks(range(len(names)), [short(name) for name in names])
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlabel(title)
        axes.grid(axis='y', visible=False)
        legend(axes)

    words = []
    for run in runs:
        parts = [f'{run.name}: all {_beside_random(run.summary["overall"][key])}']
        for name in names[1:4]:
            found = _group_of(run, name).get(key)
            if found and found['mean'] is not None:
                parts.append(f'{text.printable(name)} {_beside_random(found)}')
        words.append(', '.join(parts))
    noisy = runs[0].summary['overall'].get('noise') if tau else None
    limit = ''
    if noisy:
        limit = (
            f' Two measurements of one configuration agree at '
            f'{text.cell(noisy["tau_twice"], ".2f")}, a perfect model would reach '
            f'about {noisy["tau_ceiling"]:.2f}.'
        )
    over = runs[0].summary['interval_over']
    caption = f'{title[0].upper()}{title[1:]} of each {over[:-1]}'
    caption += ', all of them in the first row'
    caption += f'; the {len(names) - 1} worst of {cut}' if cut else ''
    if tau and not noisy:
        caption += '. No configuration was measured again: the ceiling is not known'
    elif tau:
        caption += f'.{limit.rstrip(".")}'
    else:
        caption += '. Bars: 95 % intervals, in the first row over programs, below over '
        caption += 'kernels of a program; other seeds are not in them'
    return svg.picture(
        draw,
        f'Dot plot of {title} by {over[:-1]}. {"; ".join(words)}.{limit}',
        f'{caption}.',
        size=(4.4, 1.3 + 0.16 * len(runs) + 0.2 * max(1, len(runs) / 2) * len(names)),
    )


def slowdowns(runs: Sequence[Run]) -> svg.Picture:
    """Best of the k ranked first over the best of all, by k."""
    most = max(len(one.runtimes) for run in runs for one in run.results)
    points = [k for k in (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000) if k <= most]

    def path(one: report.GraphResult) -> np.ndarray:
        order = metrics.best_first(one.scores)
        best = np.minimum.accumulate(np.asarray(one.runtimes, float)[order])
        return best[np.minimum(points, len(best)) - 1] / best[-1]

    def random(one: report.GraphResult) -> List[float]:
        return [1 + metrics.random_top_k_error(one.runtimes, k) for k in points]

    lines = [np.mean([path(one) for one in run.results], axis=0) for run in runs]
    chance = np.mean([random(one) for one in runs[0].results], axis=0)

    def draw(axes: Any) -> None:
        for number, (run, line) in enumerate(zip(runs, lines)):
            axes.plot(
                points,
                line,
                marker=svg.marker(number),
                color=svg.colour(number),
                label=short(run.name),
            )
        axes.plot(points, chance, '--', color=svg.FAINT, label='at random')
        axes.set_xscale('log')
        axes.set_xticks(points, [f'{k:,}' for k in points], rotation=45)
        axes.minorticks_off()
        _ratios(axes, np.max([chance, *lines]), least=1)
        axes.set(xlabel='k, configurations tried', ylabel='slowdown@k')
        legend(axes)

    words = []
    for name, line in zip([*(run.name for run in runs), 'random'], [*lines, chance]):
        at = [f'{x:.3f} at k = {k}' for x, k in zip(line, points) if k in _KS]
        words.append(f'{name}: {", ".join(at)}')
    return svg.picture(
        draw,
        f'Line chart of slowdown by the number of configurations tried. '
        f'{"; ".join(words)}.',
        'Slowdown@k: the best of the k ranked first over the best of all, mean over '
        'graphs. 1 is perfect.',
    )


_KS = (1, 5, 10, 100)


def calibration(number: int, run: Run) -> Optional[svg.Picture]:
    """Score differences of pairs against ratios of their runtimes."""
    differences, ratios = _pairs(run.results)
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

    def draw(axes: Any) -> None:
        hue = svg.colour(number)
        axes.fill_between(x, low, high, color=hue, alpha=0.2, linewidth=0)
        axes.plot(x, middle, marker=svg.marker(number), color=hue)
        axes.axhline(1, color=svg.FAINT, linewidth=1)
        _ratios(axes, high.max(), least=low.min())
        axes.set(xlabel='score difference', ylabel='runtime ratio')

    return svg.picture(
        draw,
        f'Line chart of {run.name}: the median runtime ratio of two configurations '
        f'of a graph is {middle[0]:.3f} where their scores differ least, and '
        f'{middle[-1]:.3f} where they differ most; of these pairs {right[0]:.0%} and '
        f'{right[-1]:.0%} are in the right order.',
        f'{run.name}: runtime ratio by score difference, median and quartiles of '
        f'{len(differences):,} pairs. Above 1 the order is right: '
        f'{right[0]:.0%} of the closest tenth, {right[-1]:.0%} of the widest.',
    )


def _pairs(results: Sequence[report.GraphResult]) -> Tuple[np.ndarray, np.ndarray]:
    """Score differences, positive, and logarithms of the runtime ratios."""
    rng = np.random.default_rng(0)
    differences, ratios = [], []
    for one in results:
        scores, logs = np.asarray(one.scores, float), np.log(one.runtimes)
        a, b = rng.integers(0, len(logs), (2, _MOST_PAIRS))
        gap = scores[a] - scores[b]
        differences.append(np.abs(gap[gap != 0]))
        ratios.append((np.sign(gap) * (logs[a] - logs[b]))[gap != 0])
    return np.concatenate(differences), np.concatenate(ratios)


def _worst_first(runs: Sequence[Run], key: str) -> Tuple[List[str], int]:
    """'all' and the groups with the worst means; how many there are if cut."""
    more = {m.key: m.more_is_better for m in metrics.MEASURES[runs[0].summary['task']]}
    sign = -1 if more[key] else 1
    means: Dict[str, List[float]] = {}
    for run in runs:
        for name, group in run.summary['groups'].items():
            mean = group[key]['mean']
            means.setdefault(name, []).append(0.0 if mean is None else mean)
    names = sorted(means, key=lambda name: -sign * float(np.mean(means[name])))
    return ['all', *names[:_MOST_ROWS]], len(names) * (len(names) > _MOST_ROWS)


def _group_of(run: Run, name: str) -> Dict[str, Any]:
    summary = run.summary
    return summary['overall'] if name == 'all' else summary['groups'].get(name, {})


def _numbers(values: Any) -> np.ndarray:
    """A curve as float64; what is no number is NaN, for it is a stranger's."""
    found = values if isinstance(values, list) else []
    return np.array(
        [v if isinstance(v, (int, float)) else math.nan for v in found], np.float64
    )


def _best_epoch(run: Run, values: np.ndarray) -> Optional[int]:
    """Index of the best epoch in its curve, if that is known."""
    best = run.run.info.get('best_epoch')
    if isinstance(best, int) and 0 <= best < len(values) and np.isfinite(values[best]):
        return best
    return int(np.nanargmax(values)) if np.isfinite(values).any() else None


def _ends(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    return f'{known[0]:.3f} to {known[-1]:.3f}' if len(known) else 'not known'


def with_interval(found: Dict[str, Any], show: str) -> str:
    """A measure of a summary in a format, and its interval, where that is known."""
    mean, low, high = (text.cell(found[name], show) for name in ('mean', 'low', 'high'))
    return mean if found['low'] is None else f'{mean} ({low} to {high})'


def _beside_random(found: Dict[str, Any]) -> str:
    return f'{with_interval(found, ".3f")}, random {text.cell(found["random"], ".3f")}'


def legend(axes: Any) -> None:
    """A legend above the picture, if there is more than one thing to tell apart."""
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        # Runs before what they are compared with.
        order = sorted(range(len(labels)), key=lambda i: labels[i] in _LIMITS)
        handles, labels = ([some[i] for i in order] for some in (handles, labels))
        axes.figure.legend(handles, labels, loc='outside upper center', ncols=2)


def _ratios(axes: Any, most: float, least: float = 1.0) -> None:
    """A scale of ratios: logarithmic where they are large."""
    from matplotlib import ticker

    if most / least > 4:
        axes.set_yscale('log')
        _steps(axes.set_yticks, least * 0.9, most * 1.1)
        axes.minorticks_off()
    else:
        axes.yaxis.set_major_locator(ticker.MaxNLocator(5))
        axes.ticklabel_format(axis='y', useOffset=False)


def _steps(set_ticks: Callable[..., Any], least: float, most: float) -> None:
    """Round numbers on a scale of logarithms, as many as have room."""
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
    """A name for a legend: two of them fit into the width of a picture."""
    return text.shortened(text.printable(name), 24)
