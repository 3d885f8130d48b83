"""What a report says of a sweep, from `tpugraphs sweep show --json`."""

from typing import Any, Dict, List

import numpy as np

from baselines import text
from baselines.reporting import figures
from baselines.reporting import svg

_SHOWN = 10  # trials, and settings


def words(found: Dict[str, Any]) -> str:
    """How many trials there are, and of what."""
    folds = f' on each of {found["folds"]} folds' if found['folds'] else ''
    states = [trial['state'] for trial in found['trials']]
    counts = [f'{states.count(name)} {name}' for name in dict.fromkeys(states)]
    return (
        f'{text.count(len(states), "trial")} on {found["collection"]}, each trained '
        f'with {text.count(found["seeds"], "seed")}{folds}: {", ".join(counts)}. The '
        'runs of this page are those of the best.'
    )


def pictures(found: Dict[str, Any]) -> List[svg.Picture]:
    """Scores in the order of the trials, and what mattered."""
    return [_history(found), *([_importance(found)] if found['importances'] else [])]


def tables(found: Dict[str, Any]) -> Dict[str, List[List[str]]]:
    """The best trials, and what was ended early or failed, by title."""
    best = _complete(found)[:_SHOWN]
    names = list(dict.fromkeys(name for one in best for name in one['settings']))
    shown = {
        'Best trials': [['trial', 'score', 'minutes', *map(text.printable, names)]]
    }
    for trial in best:
        minutes = text.cell((trial['seconds'] or 0) / 60, '.1f')
        values = [_value(trial['settings'].get(name, '-')) for name in names]
        row = [str(trial['number']), f'{trial["score"]:.4f}', minutes, *values]
        shown['Best trials'].append(row)
    if found['endings']:
        shown['Ended early, or failed'] = [['how', 'trials']] + [
            [text.printable(how), text.listed(list(map(str, trials)), 2 * _SHOWN)]
            for how, trials in found['endings'].items()
        ]
    return shown


def _complete(found: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The best first."""
    complete = [trial for trial in found['trials'] if trial['state'] == 'complete']
    return sorted(complete, key=lambda trial: -trial['score'])


def _value(value: Any) -> str:
    words = f'{value:.3g}' if isinstance(value, float) else str(value)
    return text.printable(words) or '-'


def _history(found: Dict[str, Any]) -> svg.Picture:
    scored = [trial for trial in found['trials'] if trial['score'] is not None]
    complete = [trial for trial in scored if trial['state'] == 'complete']
    kinds = {
        'complete': (complete, 'o', svg.colour(0)),
        'ended early': ([t for t in scored if t['state'] == 'pruned'], 'x', svg.FAINT),
    }
    title = 'OPA' if found['collection'].startswith('tile') else "Kendall's tau"

    def draw(axes: Any) -> None:
        for label, (some, sign, hue) in kinds.items():
            if some:
                x, y = zip(*((trial['number'], trial['score']) for trial in some))
                axes.plot(x, y, sign, color=hue, label=label)
        x, y = zip(*((trial['number'], trial['score']) for trial in complete))
        x, y = [*x, found['trials'][-1]['number']], np.maximum.accumulate([*y, y[-1]])
        axes.step(x, y, where='post', color=svg.INK, linewidth=1, label='best so far')
        axes.set(xlabel='trial', ylabel=f'{title}, validation')
        figures.legend(axes)

    best, first = _complete(found)[0], complete[0]
    return svg.picture(
        draw,
        f'Scatter plot of {title} by trial of the sweep: the first complete trial, '
        f'{first["number"]}, reached {first["score"]:.4f}, the best, {best["number"]}, '
        f'{best["score"]:.4f}; ended early: {len(kinds["ended early"][0])}.',
        f'{title} of each trial on validation configurations, the mean of its '
        'trainings; crosses are as of the epoch at which a trial was ended early, and '
        'not comparable.',
    )


def _importance(found: Dict[str, Any]) -> svg.Picture:
    shares = list(found['importances'].items())[:_SHOWN]
    names = [figures.short(name) for name, _ in shares]

    def draw(axes: Any) -> None:
        axes.barh(names, [share for _, share in shares], color=svg.colour(0))
        axes.invert_yaxis()
        axes.grid(axis='y', visible=False)
        axes.set_xlabel('importance')

    told = ', '.join(f'{name} {share:.2f}' for name, (_, share) in zip(names, shares))
    return svg.picture(
        draw,
        f'Bar chart of how much each setting of the sweep matters: {told}.',
        'How much each setting matters for being among the best trials (PED-ANOVA); '
        'rough with few trials.',
        size=(4.4, 1.0 + 0.22 * len(shares)),
    )
