"""The trials of a sweep, for people, for reports and for --recipe."""

import json
import os
import re
import shlex
from typing import Any, Dict, List, Optional, Sequence, Tuple

from baselines import config
from baselines import files
from baselines import recipes
from baselines import text
from tpugraphs.sweep import storage as storage_lib
from tpugraphs.sweep import study as study_lib

# What else a recipe leaves to its user, because it belongs to one training.
_OF_ONE_RUN = (
    *('seed', 'run_id', 'recipe', 'test_mode', 'strategy', 'resume'),
    'memory_budget',
)
# What the command of the next training leaves at its default.
_OUTPUTS = ('out_dir', 'results_csv')
_STATES = {'COMPLETE': 'complete', 'PRUNED': 'pruned', 'FAIL': 'failed'}
_MOST_ROWS = 10
_MODEL_NAME = re.compile(r'model_\w+')


def line(trial: Any) -> str:
    """Returns one line on a trial that has ended."""
    seconds = f'{_seconds(trial) or 0:.0f} s'
    score = text.cell(_score(trial), '.4f')
    settings = drawn_settings(trial)
    return f'trial {trial.number}  {score}  {seconds}  {_ending(trial)}  {settings}'


def _state(trial: Any) -> str:
    return _STATES.get(trial.state.name, trial.state.name.lower())


def _score(trial: Any) -> Optional[float]:
    return None if trial.state.name == 'FAIL' else trial.value


def _seconds(trial: Any) -> Optional[float]:
    return study_lib.attribute(trial, study_lib.SECONDS, (int, float))


def _reason(trial: Any) -> Optional[str]:
    return study_lib.attribute(trial, study_lib.REASON, str)


def _ending(trial: Any) -> str:
    if trial.state.name == 'FAIL':
        return f'failed: {_reason(trial) or "unknown"}'
    if trial.state.name == 'PRUNED':
        return f'pruned after step {trial.last_step}'
    return _state(trial)


def _runs(trial: Any) -> List[Dict[str, Any]]:
    """Returns the trainings of a trial, each with `model` and `score`.

    A storage may be a stranger's: what is no name of a model directory is left out.
    """
    runs = study_lib.attribute(trial, study_lib.RUNS, list) or []
    return [
        run
        for run in runs
        if isinstance(run, dict) and _MODEL_NAME.fullmatch(str(run.get('model')))
    ]


def endings(sweep: study_lib.Sweep) -> Dict[str, List[int]]:
    """Returns the trials that were ended early or failed, by how they ended."""
    trials_by_ending: Dict[str, List[int]] = {}
    for state in ('PRUNED', 'FAIL'):
        for trial in sweep.in_state(state):
            trials_by_ending.setdefault(_ending(trial), []).append(trial.number)
    return trials_by_ending


def drawn_settings(trial: Any) -> str:
    """Returns the settings that were drawn, as flags without dashes."""
    return ' '.join(
        f'{name}={value:.3g}' if isinstance(value, float) else f'{name}={value}'
        for name, value in trial.params.items()
    )


def recipe(sweep: study_lib.Sweep) -> Dict[str, Any]:
    """Returns the settings of the best trial, as --recipe=FILE reads them.

    Without data, files and what belongs to one run; {} before a trial is complete.
    """
    best, definition = sweep.best(), sweep.definition
    if best is None:
        return {}
    drawn = sweep.space.settings(best.params, definition.base)
    settings = {**definition.settings, **drawn}
    return {
        'collection': definition.collection,
        'settings': {
            name: value
            for name, value in settings.items()
            if name not in config.DATA + _OF_ONE_RUN
            and not recipes.is_local(name, value)
        },
        'found_by': {
            'study': sweep.name,
            'trial': best.number,
            'score': best.value,
            'seeds': definition.seeds,
            'folds': definition.folds,
            'complete_trials': len(sweep.in_state('COMPLETE')),
            'data': {
                name: value
                for name, value in definition.settings.items()
                if name in config.DATA
            },
        },
    }


def training_command(sweep: study_lib.Sweep, base: Any) -> str:
    """Returns the command that trains with the best settings on the sweep's data.

    Args:
        sweep: one with a best trial.
        base: the settings of all trials.
    """
    of_recipe = f'--recipe={best_file(base.out_dir)}'
    names = {
        name
        for name, value in config.to_json(base).items()
        if name in config.DATA or recipes.is_local(name, value)
    }
    flags = [of_recipe, *config.as_flags(base, names.difference(_OUTPUTS))]
    return shlex.join(['tpugraphs', 'train', sweep.definition.task, *flags])


def best_file(out_dir: str) -> str:
    """Returns where the recipe of a sweep goes."""
    return os.path.join(files.expand(out_dir), 'best.json')


def write_best(sweep: study_lib.Sweep, out_dir: str) -> None:
    """Writes the recipe, once a trial is complete."""
    content = recipe(sweep)
    if content:
        with files.write_atomically(best_file(out_dir), encoding='utf-8') as stream:
            json.dump(content, stream, indent=1)


def summary(sweep: study_lib.Sweep) -> Dict[str, Any]:
    """Returns everything about a sweep as plain values; for --json and reports.

    Returns:
        A dict:
          study, collection, seeds, folds: what it is.
          best: as `recipe`.
          importances: share of each setting; {} below ten complete trials.
          endings: numbers of the trials that were ended early or failed, by why.
          trials: number, state, score, settings, reason, folder, runs, seconds.
    """
    definition = sweep.definition
    return {
        'study': sweep.name,
        'collection': definition.collection,
        'seeds': definition.seeds,
        'folds': definition.folds,
        'best': recipe(sweep),
        'importances': sweep.importances(),
        'endings': endings(sweep),
        'trials': [
            {
                'number': trial.number,
                'state': _state(trial),
                'score': _score(trial),
                'settings': trial.params,
                'reason': _reason(trial),
                'folder': study_lib.folder_of(trial),
                'runs': _runs(trial),
                'seconds': _seconds(trial),
            }
            for trial in sweep.trials()
        ],
    }


def resolve_folders(names: Sequence[str]) -> Tuple[List[str], List[Dict[str, Any]]]:
    """Replaces the folders of sweeps by the runs of their best trials.

    Args:
        names: of runs, or folders of sweeps.

    Returns:
        Names of runs; `summary` of each sweep.

    Raises:
        ValueError: a sweep cannot be read, or none of its trials is complete.
    """
    runs: List[str] = []
    summaries = []
    for name in names:
        storage = storage_lib.default_storage(name)
        if not storage_lib.exists(storage):
            runs.append(name)
            continue
        sweep = study_lib.Sweep(storage)
        best = sweep.best()
        if best is None:
            raise ValueError(
                f'{name}: no trial of this sweep is complete, so it has no run; '
                f'`tpugraphs sweep show --out_dir {name}` lists its trials'
            )
        folder = os.path.join(files.expand(name), study_lib.folder_of(best))
        runs += [os.path.join(folder, run['model']) for run in _runs(best)]
        summaries.append(summary(sweep))
    return runs, summaries


def table(sweep: study_lib.Sweep) -> List[str]:
    """Returns the lines of `tpugraphs sweep show`."""
    definition, trials = sweep.definition, sweep.trials()
    numbers = {
        name: len(sweep.in_state(state))
        for state, name in {**_STATES, 'RUNNING': 'running'}.items()
    }
    states = ', '.join(f'{number} {name}' for name, number in numbers.items() if number)
    folds = f', {definition.folds} folds' if definition.folds else ''
    lines = [
        f'{sweep.name}: {text.count(len(trials), "trial")} on {definition.collection}, '
        f'{text.count(definition.seeds, "seed")}{folds}: {states or "none yet"}'
    ]
    complete = sorted(sweep.in_state('COMPLETE'), key=lambda trial: -trial.value)
    rows = [['score', 'trial', 'settings']]
    for trial in complete[:_MOST_ROWS]:
        settings = text.shortened(drawn_settings(trial), text.WIDTH - 15)
        rows.append([f'{trial.value:.4f}', str(trial.number), settings])
    if complete:
        lines += ['', *text.table(rows, '>><', rules=[1])]
        lines += ['', text.wrapped(f'best: {drawn_settings(complete[0])}', 2)]
    importances = sweep.importances()
    if importances:
        shares = [f'{name} {share:.2f}' for name, share in importances.items()]
        lines += ['', f'importance: {text.listed(shares, 8)}']
    for ending, ended in endings(sweep).items():
        noun = 'trial' if len(ended) == 1 else 'trials'
        lines.append(f'{ending} ({noun} {text.listed(list(map(str, ended)))})')
    return lines
