"""The trials of a sweep as text, and its best settings as a recipe."""

from __future__ import annotations

import dataclasses
import json
import shlex
import textwrap

import optuna
from optuna.trial import FrozenTrial

from baselines import config
from baselines import recipes
from baselines.core import files
from baselines.core import text
from tpugraphs.sweep import study as study_lib
from tpugraphs.sweep import trials as trials_lib

# Settings that a recipe leaves out, because they belong to one training.
_OF_ONE_RUN = (
    *('seed', 'run_id', 'recipe', 'test_mode', 'strategy', 'resume'),
    'memory_budget',
)
# Settings that the command of the next training leaves at their defaults.
_OUTPUTS = ('out_dir', 'results_csv')
_STATES = {
    'COMPLETE': 'complete',
    'PRUNED': 'pruned',
    'FAIL': 'failed',
    'RUNNING': 'running',
}
_MOST_ROWS = 10


def line(trial: FrozenTrial) -> str:
    """Returns one line on a trial that has ended."""
    score = text.cell(trial.values[0] if trial.values else None, '.4f')
    seconds = trial.duration.total_seconds() if trial.duration else 0
    parts = [f'trial {trial.number}', score, f'{seconds:.0f} s', _ending(trial)]
    return '  '.join([*parts, drawn_settings(trial)])


def table(study: optuna.Study) -> list[str]:
    """Returns the lines of `tpugraphs sweep show`."""
    trials = study_lib.trials_of(study)
    states = [_STATES.get(trial.state.name, 'waiting') for trial in trials]
    counts = [f'{states.count(state)} {state}' for state in dict.fromkeys(states)]
    total = text.count(len(trials), 'trial')
    lines = [f'{study.study_name}: {total}: {", ".join(counts) or "none yet"}']
    complete = study_lib.trials_of(study, 'COMPLETE')
    complete.sort(key=lambda trial: -trial.values[0])
    rows = [['score', 'trial', 'settings']]
    for trial in complete[:_MOST_ROWS]:
        score = f'{trial.values[0]:.4f}'
        first, *others = textwrap.wrap(
            drawn_settings(trial), text.WIDTH - 15, break_on_hyphens=False
        ) or ['-']
        rows.append([score, str(trial.number), first])
        rows += [['', '', rest] for rest in others]
    if complete:
        lines += ['', *text.table(rows, '>><', rules=[1])]
        lines += ['', text.wrapped(f'best: {drawn_settings(complete[0])}', 2)]
    shares = study_lib.importances(study)
    if shares:
        shown = ', '.join(f'{name} {share:.0%}' for name, share in shares.items())
        lines.append(text.wrapped(f'importance: {shown}', 2))
    elif complete:
        lines.append(f'importance: from {study_lib.FEW_TRIALS} complete trials on')
    numbers_by_ending: dict[str, list[str]] = {}
    for trial in study_lib.trials_of(study, 'PRUNED', 'FAIL'):
        numbers_by_ending.setdefault(_ending(trial), []).append(str(trial.number))
    for ending, numbers in numbers_by_ending.items():
        noun = 'trial' if len(numbers) == 1 else 'trials'
        lines.append(f'{ending} ({noun} {text.listed(numbers)})')
    return lines


def to_json(study: optuna.Study) -> text.JsonObject:
    """Returns the object of `tpugraphs sweep show --json`."""
    best = study_lib.best_trial(study)
    return {
        'study': study.study_name,
        'best': None if best is None else best.number,
        'importances': study_lib.importances(study),
        'trials': [
            {
                'number': trial.number,
                'state': _STATES.get(trial.state.name, 'waiting'),
                'score': trial.values[0] if trial.values else None,
                'seconds': trial.duration.total_seconds() if trial.duration else None,
                'settings': trial.params,
                'reason': trial.user_attrs.get(study_lib.REASON, ''),
            }
            for trial in study_lib.trials_of(study)
        ],
    }


def _ending(trial: FrozenTrial) -> str:
    """Says how a trial has ended."""
    if trial.state.name == 'FAIL':
        return f'failed: {trial.user_attrs.get(study_lib.REASON, "unknown")}'
    if trial.state.name == 'PRUNED':
        return f'pruned after step {trial.last_step}'
    return _STATES[trial.state.name]


def drawn_settings(trial: FrozenTrial) -> str:
    """Returns the settings that were drawn, as flags without dashes."""
    return ' '.join(
        f'{name}={value:.3g}' if isinstance(value, float) else f'{name}={value}'
        for name, value in trial.params.items()
    )


def write_best(study: optuna.Study, objective: trials_lib.Objective) -> None:
    """Writes the best settings for --recipe, once a trial is complete; raises OSError.

    Settings of the data, of files and of a single run are left out.
    """
    best = study_lib.best_trial(study)
    if best is None:
        return
    base, options = objective.base, objective.options
    drawn = objective.space.settings(best.params, base)
    settings = {**changed_settings(base), **drawn}
    content = {
        'collection': base.collection.name,
        'settings': {
            name: value
            for name, value in settings.items()
            if name not in config.DATA + _OF_ONE_RUN
            and not recipes.is_local(name, value)
        },
        'found_by': {
            'study': study.study_name,
            'trial': best.number,
            'score': best.values[0],
            'seeds': options.seeds,
            'folds': options.folds,
            'complete_trials': len(study_lib.trials_of(study, 'COMPLETE')),
        },
    }
    with files.write_atomically(
        study_lib.best_file(base.out_dir), encoding='utf-8'
    ) as stream:
        json.dump(content, stream, indent=1)


def changed_settings(base: config.AnyConfig) -> text.JsonObject:
    """Returns the settings that differ from the defaults, by name."""
    return {
        field.name: getattr(base, field.name)
        for field in dataclasses.fields(base)
        if getattr(base, field.name) != field.default
    }


def training_command(base: config.AnyConfig) -> str:
    """Returns the command that trains with the best settings on the sweep's data."""
    names = {
        name
        for name, value in config.to_json(base).items()
        if name in config.DATA or recipes.is_local(name, value)
    }
    flags = config.as_flags(base, names.difference(_OUTPUTS))
    task = base.collection.task
    recipe = f'--recipe={study_lib.best_file(base.out_dir)}'
    return shlex.join(['tpugraphs', 'train', task, recipe, *flags])
