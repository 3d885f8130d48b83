"""The part of a report on a sweep, from `tpugraphs sweep show --json`."""

from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from baselines import text
from tpugraphs.report import figures
from tpugraphs.report import pictures as pictures_lib

_SHOWN = 10  # trials, and settings


def sentences(sweep: Dict[str, Any]) -> str:
    """Says how many trials there are, and of what."""
    folds = f' on each of {sweep["folds"]} folds' if sweep['folds'] else ''
    states = [trial['state'] for trial in sweep['trials']]
    counts = [f'{states.count(name)} {name}' for name in dict.fromkeys(states)]
    return (
        f'{text.count(len(states), "trial")} on {sweep["collection"]}, each trained '
        f'with {text.count(sweep["seeds"], "seed")}{folds}: {", ".join(counts)}. The '
        'runs of this page are those of the best.'
    )


def pictures(sweep: Dict[str, Any]) -> List[pictures_lib.Picture]:
    """Draws the scores of the trials in their order, and how much settings matter."""
    return [_history(sweep), *([_importance(sweep)] if sweep['importances'] else [])]


def tables(sweep: Dict[str, Any]) -> Dict[str, List[List[str]]]:
    """Returns the best trials, and those ended early or failed, by title."""
    best = _complete(sweep)[:_SHOWN]
    names = list(dict.fromkeys(name for trial in best for name in trial['settings']))
    rows_by_title = {
        'Best trials': [['trial', 'score', 'minutes', *map(text.printable, names)]]
    }
    for trial in best:
        minutes = text.cell((trial['seconds'] or 0) / 60, '.1f')
        values = [_value(trial['settings'].get(name, '-')) for name in names]
        row = [str(trial['number']), f'{trial["score"]:.4f}', minutes, *values]
        rows_by_title['Best trials'].append(row)
    if sweep['endings']:
        rows_by_title['Ended early, or failed'] = [['how', 'trials']] + [
            [text.without_folders(how), text.listed(list(map(str, trials)), 2 * _SHOWN)]
            for how, trials in sweep['endings'].items()
        ]
    return rows_by_title


def _complete(sweep: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Returns the complete trials, the best first."""
    complete = [trial for trial in sweep['trials'] if trial['state'] == 'complete']
    return sorted(complete, key=lambda trial: -trial['score'])


def _value(value: Any) -> str:
    shown = f'{value:.3g}' if isinstance(value, float) else str(value)
    return text.without_folders(shown) or '-'


def _history(sweep: Dict[str, Any]) -> pictures_lib.Picture:
    scored = [trial for trial in sweep['trials'] if trial['score'] is not None]
    complete = [trial for trial in scored if trial['state'] == 'complete']
    pruned = [trial for trial in scored if trial['state'] == 'pruned']
    title = 'OPA' if sweep['collection'].startswith('tile') else "Kendall's tau"

    def plot(axes: Any) -> None:
        numbers, scores = _points(complete)
        style = {'color': pictures_lib.colour(0), 'label': 'complete'}
        axes.plot(numbers, scores, 'o', **style)
        if pruned:
            style = {'color': pictures_lib.FAINT, 'label': 'ended early'}
            axes.plot(*_points(pruned), 'x', **style)
        numbers.append(sweep['trials'][-1]['number'])
        best_so_far = np.maximum.accumulate([*scores, scores[-1]])
        style = {'color': pictures_lib.INK, 'label': 'best so far'}
        axes.step(numbers, best_so_far, where='post', linewidth=1, **style)
        axes.set(xlabel='trial', ylabel=f'{title}, validation')
        figures.whole_numbers(axes.xaxis)
        figures.legend(axes)

    best, first = _complete(sweep)[0], complete[0]
    return pictures_lib.draw(
        plot,
        f'Scatter plot of {title} by trial of the sweep: the first complete trial, '
        f'{first["number"]}, reached {first["score"]:.4f}, the best, {best["number"]}, '
        f'{best["score"]:.4f}; ended early: {len(pruned)}.',
        f'{title} of each trial on validation configurations, the mean of its '
        'trainings; crosses are as of the epoch at which a trial was ended early, and '
        'not comparable.',
    )


def _points(trials: Sequence[Dict[str, Any]]) -> Tuple[List[int], List[float]]:
    """Returns the numbers and the scores of trials."""
    return [t['number'] for t in trials], [t['score'] for t in trials]


def _importance(sweep: Dict[str, Any]) -> pictures_lib.Picture:
    shares = list(sweep['importances'].items())[:_SHOWN]
    names = [figures.short(name) for name, _ in shares]

    def plot(axes: Any) -> None:
        axes.barh(names, [share for _, share in shares], color=pictures_lib.colour(0))
        axes.invert_yaxis()
        axes.grid(axis='y', visible=False)
        axes.set_xlabel('importance')

    told = ', '.join(f'{name} {share:.2f}' for name, (_, share) in zip(names, shares))
    return pictures_lib.draw(
        plot,
        f'Bar chart of how much each setting of the sweep matters: {told}.',
        'How much each setting matters for being among the best trials (PED-ANOVA); '
        'rough with few trials.',
        size=(4.4, 1.0 + 0.22 * len(shares)),
    )
