"""What a sweep has found, for people and for --recipe."""

import json
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

from baselines import config as config_lib
from baselines import files
from baselines import text
from baselines.sweeps import space as space_lib
from baselines.sweeps import study as study_lib

# What a recipe leaves to who uses it: data, places and what belongs to one run.
_NOT_IN_RECIPES = (
    'data_root sample_data toy_data skip_bad_files source search '
    'cache_dir out_dir seed run_id recipe test_mode'
).split()
_ENDED = {'COMPLETE': 'complete', 'PRUNED': 'pruned', 'FAIL': 'failed'}
_SHOWN = 10
_SHOWN_ATTRIBUTES = 'reason', 'folder', 'runs', 'seconds'


def line(trial: Any) -> str:
    """One line on a trial that has ended."""
    seconds = f'{trial.user_attrs.get(study_lib.SECONDS, 0):5.0f} s'
    score = f'{text.cell(_score(trial), ".4f"):6}'
    begin = f'trial {trial.number:4d}  {score}  {seconds}'
    return f'{begin}  {_ending(trial)}  {drawn(trial)}'


def _state(trial: Any) -> str:
    return _ENDED.get(trial.state.name, trial.state.name.lower())


def _score(trial: Any) -> Optional[float]:
    return None if trial.state.name == 'FAIL' else trial.value


def _ending(trial: Any) -> str:
    ended = _state(trial)
    if trial.state.name == 'FAIL':
        ended += f': {trial.user_attrs.get(study_lib.REASON, "unknown")}'
    elif trial.state.name == 'PRUNED':
        ended += f' after step {trial.last_step}'
    return ended


def endings(study: study_lib.Study) -> Dict[str, List[int]]:
    """Trials that were ended early, then those that failed, by how they ended."""
    found: Dict[str, List[int]] = {}
    for state in ('PRUNED', 'FAIL'):
        for trial in study.of_state(state):
            found.setdefault(_ending(trial), []).append(trial.number)
    return found


def drawn(trial: Any) -> str:
    """The settings that were drawn, as flags without dashes."""
    return ' '.join(
        f'{name}={value:.3g}' if isinstance(value, float) else f'{name}={value}'
        for name, value in trial.params.items()
    )


def recipe(study: study_lib.Study) -> Dict[str, Any]:
    """The settings of the best trial, as --recipe=FILE reads them; {} before one."""
    best, definition = study.best(), study.definition
    if best is None:
        return {}
    task = definition.collection.partition(':')[0]
    base = config_lib.CONFIGS[task](**definition.settings)
    space = space_lib.of(definition.space, type(base))
    settings = {**definition.settings, **space.settings(best.params, base)}
    return {
        'collection': definition.collection,
        'settings': {
            name: value
            for name, value in settings.items()
            if name not in _NOT_IN_RECIPES
        },
        'found_by': {
            'study': study.name,
            'trial': best.number,
            'score': best.value,
            'seeds': definition.seeds,
            'folds': definition.folds,
            'complete_trials': len(study.of_state('COMPLETE')),
            'data': {
                name: definition.settings[name]
                for name in ('sample_data', 'toy_data')
                if name in definition.settings
            },
        },
    }


def best_file(out_dir: str) -> str:
    """Where the recipe of a sweep goes."""
    return os.path.join(files.expand(out_dir), 'best.json')


def write_best(study: study_lib.Study, out_dir: str) -> None:
    """Writes the recipe, if there is one yet."""
    found = recipe(study)
    if found:
        with files.write_atomically(best_file(out_dir), encoding='utf-8') as stream:
            json.dump(found, stream, indent=1)


def summary(study: study_lib.Study) -> Dict[str, Any]:
    """Everything about a sweep as plain values; for --json and reports.

    Returns:
        A dict:
          study, collection, seeds, folds: what it is.
          best: as `recipe`.
          importances: share of each setting.
          endings: numbers of the trials that were ended early or failed, by why.
          trials: number, state, score, settings, reason, folder, runs, seconds.
    """
    definition = study.definition
    return {
        'study': study.name,
        'collection': definition.collection,
        'seeds': definition.seeds,
        'folds': definition.folds,
        'best': recipe(study),
        'importances': study.importances(),
        'endings': endings(study),
        'trials': [
            {
                'number': trial.number,
                'state': _state(trial),
                'score': _score(trial),
                'settings': trial.params,
                **{name: trial.user_attrs.get(name) for name in _SHOWN_ATTRIBUTES},
            }
            for trial in study.trials()
        ],
    }


def of_folders(names: Sequence[str]) -> Tuple[List[str], List[Dict[str, Any]]]:
    """Tells runs from sweeps, of which the best trial's runs are taken.

    Args:
        names: of runs, or folders with the journal of a sweep.

    Returns:
        Names of runs; `summary` of each sweep.

    Raises:
        ValueError: a sweep cannot be read, or none of its trials is complete.
    """
    runs: List[str] = []
    found = []
    for name in names:
        storage = study_lib.default_storage(name)
        if not os.path.isfile(storage):
            runs.append(name)
            continue
        study = study_lib.Study(storage)
        best = study.best()
        if best is None:
            raise ValueError(
                f'{name}: no trial of this sweep is complete, so it has no run; '
                f'`tpugraphs sweep show --out_dir {name}` says what there is'
            )
        folder = os.path.join(
            os.path.dirname(storage), best.user_attrs[study_lib.FOLDER]
        )
        models = best.user_attrs[study_lib.RUNS]
        runs += [os.path.join(folder, run['model']) for run in models]
        found.append(summary(study))
    return runs, found


def table(study: study_lib.Study) -> List[str]:
    """The lines of `tpugraphs sweep show`."""
    definition, trials = study.definition, study.trials()
    counts = {
        words: len(study.of_state(state))
        for state, words in {**_ENDED, 'RUNNING': 'running'}.items()
    }
    described = ', '.join(f'{n} {words}' for words, n in counts.items() if n)
    folds = f', {definition.folds} folds' if definition.folds else ''
    lines = [
        f'{study.name}: {text.count(len(trials), "trial")} on {definition.collection}, '
        f'{text.count(definition.seeds, "seed")}{folds}: {described or "none yet"}'
    ]
    complete = sorted(study.of_state('COMPLETE'), key=lambda t: -t.value)
    rows = [['score', 'trial', 'settings']]
    for trial in complete[:_SHOWN]:
        settings = text.shortened(drawn(trial), text.WIDTH - 15)
        rows.append([f'{trial.value:.4f}', str(trial.number), settings])
    if complete:
        lines += ['', *text.table(rows, '>><', rules=[1])]
        lines += ['', text.wrapped(f'best: {drawn(complete[0])}', 2)]
    importances = study.importances()
    if importances:
        shares = [f'{name} {share:.2f}' for name, share in importances.items()]
        lines += ['', f'importance: {text.listed(shares, 8)}']
    for why, numbers in endings(study).items():
        lines.append(f'{why} (trial {text.listed(list(map(str, numbers)))})')
    return lines
