"""Finds the settings in which runs differ, and labels and groups runs by them.

Runs that differ only in seed and fold repeat one experiment, and their figures may be
averaged.  Any other difference between runs of a model is named.
"""

import collections
from collections.abc import Mapping, Sequence
import json
import re
from typing import NamedTuple

from baselines import config
from baselines import recipes
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.runs import run_files

# Runs that differ only in these repeat one experiment.
REPEATS = ('seed', 'fold')
# Settings of the places of data and results, and of additional output.
_NO_SETTINGS = (
    'data_root cache_dir out_dir results_csv models_file run_id resume recipe '
    'memory_budget skip_bad_files test_mode eval_every model_kwargs_json '
    'tensorboard'
).split()
# The settings that a run of trees alone depends on.
_OF_TREES = (
    *('model', 'model_kwargs_json', 'extra', 'validation_configs'),
    *('family_temperature', *recipes.DATA, *REPEATS),
)
# Settings that labels and tables show separately.
_APART = ('model', 'source', 'search', *REPEATS)


class Label(NamedTuple):
    """The name of a run among others."""

    name: str  # such as 'MLP lr=.01 seed 0'; no two are alike
    group: str  # such as 'MLP lr=.01'; alike for runs that repeat one another


def collect_settings(run: run_files.RunFile) -> text.JsonObject:
    """Returns the settings that shape a run, with defaults for those that it lacks.

    The options of its model (--model_kwargs_json) are settings like others.  For a run
    of trees alone, settings that trees ignore are left out.
    """
    settings = {**_get_defaults(run), **run.args}
    if not run.has_model:
        settings = {name: settings[name] for name in _OF_TREES if name in settings}
    options = settings.get('model_kwargs_json') or '{}'
    try:
        settings.update(settings_lib.parse_model_kwargs(options))
    except ValueError:
        settings['model_kwargs'] = options
    return {name: v for name, v in settings.items() if name not in _NO_SETTINGS}


def find_changes(run: run_files.RunFile) -> text.JsonObject:
    """Returns the settings that differ from the defaults, or from its recipe."""
    usual = _get_defaults(run)
    recipe = str(run.args.get('recipe') or '')
    if recipe in recipes.RECIPES:
        usual.update(recipes.get_settings(recipe, run.collection.name))
    differing: text.JsonObject = {'recipe': recipe} if recipe else {}
    for name, value in collect_settings(run).items():
        if name not in _APART and value != usual.get(name):
            differing[name] = value
    return differing


def label_runs(runs: Sequence[run_files.RunFile]) -> list[Label]:
    """Names different runs, at least one, by model and by what differs within it.

    'MLP + trees' is a graph model whose scores are averaged with those of trees.
    """
    alike: dict[tuple[str, str], list[run_files.RunFile]] = {}
    for run in runs:
        alike.setdefault((run.collection.name, _name_model(run)), []).append(run)
    named = {
        id(run): label
        for (_, model), members in alike.items()
        for run, label in zip(members, _label_alike(model, members))
    }
    return [named[id(run)] for run in runs]


def _name_model(run: run_files.RunFile) -> str:
    """Returns the name of a run's model, and whether trees score next to it."""
    has_both = run.has_model and bool(run.args.get('trees'))
    return run.args['model'] + ' + trees' * has_both


def _label_alike(model: str, runs: Sequence[run_files.RunFile]) -> list[Label]:
    """Names the runs of a model on one collection; see `label_runs`."""
    settings = [collect_settings(run) for run in runs]
    # As JSON, since a value can be a list or an object, which has no hash.
    differing = [
        name
        for name in sorted({name for of_run in settings for name in of_run})
        if len({json.dumps(s.get(name), sort_keys=True) for s in settings}) > 1
    ]
    named = []
    for of_run in settings:
        values = {
            name: of_run[name]
            for name in differing
            if name in of_run and name not in REPEATS
        }
        group = ' '.join([model, format_settings(values)]).strip()
        seed = [f'seed {of_run.get("seed", 0)}'] * ('seed' in differing)
        fold = [f'fold {of_run["fold"]}'] if of_run.get('fold') else []
        named.append(Label(' '.join([group, *seed, *fold]), group))
    # Runs that differ in nothing that is a setting, such as the machine, get a hash.
    counts = collections.Counter(label.name for label in named)
    return [
        label._replace(name=f'{label.name} {run.hash[:8]}')
        if counts[label.name] > 1
        else label
        for label, run in zip(named, runs)
    ]


def sort_labels(labelled: Mapping[str, Label]) -> list[str]:
    """Sorts the keys of labels by group, and within a group by seed and fold.

    A pattern such as model_* lists directories by their hashes.
    """
    groups = [label.group for label in labelled.values()]

    def place(key: str) -> tuple[int, list[str | int]]:
        """Returns what keys are sorted by: the group, then the numbers in the name."""
        label = labelled[key]
        parts = re.split(r'(\d+)', label.name)  # text and numbers in turn
        numbers = [int(part) if n % 2 else part for n, part in enumerate(parts)]
        return groups.index(label.group), numbers

    return sorted(labelled, key=place)


def format_settings(settings: text.JsonObject) -> str:
    """Writes settings: 'lr=.01 estimate configs=64'."""
    parts = []
    for name, value in settings.items():
        if isinstance(value, bool):
            parts.append(name if value else f'no {name}')
        else:
            shown = f'{value:g}' if isinstance(value, float) else str(value)
            short = isinstance(value, float) and shown.startswith('0.')
            parts.append(f'{name}={shown[short:]}')
    return ' '.join(parts)


def _get_defaults(run: run_files.RunFile) -> text.JsonObject:
    """Returns the default settings of a run's task."""
    return config.to_json(config.CONFIGS[run.task]())
