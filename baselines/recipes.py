"""Settings that did best where they were measured, by collection: `--recipe`.

A recipe stands in for the defaults of the flags that it names; a flag that is
given wins.  docs/findings/experiments.md says where they were chosen,
docs/findings/leaderboard.md how good they are.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
import json
import os
from typing import Any, NamedTuple

from baselines.core import files
from baselines.core import registry
from baselines.core import starting
from baselines.core import text
from baselines.core import untrusted

_MAX_BYTES = 1 << 20  # of a file of settings

# By name and task.
RECIPES: Mapping[str, Mapping[str, text.JsonObject]] = {
    'strong': {
        'tile': {
            'configs': 64,
            'batch': 5,
            'lr': 3e-3,
            'schedule': 'cosine',
            'warmup': 0.05,
            'averaging': 'ema:0.99',
            'early_stop': 100,
            'model': 'LateJoinResSAGE',
            'columns': 'tile,estimate',
            'trees': True,
        },
        'layout': {
            'epochs': 300,
            'early_stop': 100,
            'batch': 4,
            'configs': 32,
            'sampling': 'uniform',
            'validation_configs': 300,
            'lr': 1e-2,
            'schedule': 'cosine',
            'warmup': 0.05,
            'averaging': 'ema:0.99',
            'clip': 'global',
            'clip_norm': 1.0,
            'model': 'ResModel',
            'estimate': True,
            'trees': True,
        },
    }
}


class Measured(NamedTuple):
    """A training of the measured data that ship, and its result."""

    flags: Mapping[str, str]
    score: float  # on the test split: OPA of tiles, Kendall's tau of layouts
    minutes: float  # of processor time


# By collection, on two cores; docs/findings/speed.md has the commands.
MEASURED: Mapping[str, Sequence[Measured]] = {
    'tile:xla': [
        Measured({'model': 'EarlyJoinSAGE', 'recipe': ''}, 0.71, 1.3),
        Measured({'model': 'Trees', 'recipe': ''}, 0.79, 0.5),
        Measured({'recipe': 'strong'}, 0.79, 2.4),
    ],
    'layout:xla:random': [
        Measured({'model': 'ResModel', 'recipe': ''}, 0.39, 0.6),
        Measured({'model': 'Trees', 'recipe': ''}, 0.51, 0.1),
    ],
}

# Settings that name files, folders or code: a recipe from a file, which may be someone
# else's, sets none of them.
LOCAL = 'models_file init_from data_root cache_dir out_dir results_csv'.split()

# Settings that say which data a training reads.
DATA = (
    *('data_root', 'cache_dir', 'source', 'search', 'sample_data', 'toy_data'),
    'skip_bad_files',
)
# Settings of one training alone.
_ONE_RUN = (
    *('seed', 'seeds', 'folds', 'fold_epochs', 'run_id', 'test_mode', 'strategy'),
    *('resume', 'memory_budget'),
)

# Settings that only make sense for the recipe's own model.
_OF_ITS_MODEL = ('model', 'model_kwargs_json', 'estimate', 'columns', 'trees')


def get_settings(
    recipe: str,
    collection: str,
    chosen: Collection[str] = (),
    say: Callable[[str], object] = lambda line: None,
) -> text.JsonObject:
    """Returns the settings of a recipe, without trees where LightGBM is missing.

    Args:
        recipe: its name, or a file of `tpugraphs sweep`.
        collection: 'tile:xla' or 'layout:<source>:<search>'.
        chosen: names of the settings that the user set.
        say: prints the settings, and a note where there are no trees.

    Raises:
        ValueError: there is no such recipe, or its file is of another collection.
        OSError: its file cannot be read.
    """
    if is_file(recipe):
        changes = _read_file(recipe, collection)
    else:
        by_task = registry.resolve(recipe, RECIPES, '--recipe')
        changes = dict(by_task[collection.partition(':')[0]])
    # What the user sets wins; another model keeps its own options, too.
    left_out = {*chosen, *(_OF_ITS_MODEL if 'model' in chosen else ())}
    changes = {name: v for name, v in changes.items() if name not in left_out}
    without_trees = False
    if not starting.has_lightgbm():
        without_trees = changes.pop('trees', False)
    flags = [f'--{name}={value}' for name, value in changes.items()]
    say(text.wrap_line(' '.join([f'--recipe={recipe}:', *flags]), 2))
    if without_trees:
        say("note: the graph model alone; with trees: pip install -e '.[trees]'")
    return changes


def find_better_training(settings: Any) -> Measured | None:
    """Returns the best training of the sample data, the quickest of equal ones.

    Args:
        settings: of a training.

    Returns:
        None if nothing was measured of its data, or it is as good.
    """
    rows = MEASURED.get(settings.collection.name) if settings.sample_data else None
    if not rows:
        return None
    best = min(rows, key=lambda row: (-row.score, row.minutes))
    values = vars(settings)
    own = [row.score for row in rows if {**values, **row.flags} == values]
    return best if best.score > max(own, default=0) else None


def is_file(recipe: str) -> bool:
    """Returns whether --recipe is the path of a file, not a name."""
    return recipe.endswith('.json') or os.sep in recipe


def is_local(name: str, value: object) -> bool:
    """Returns whether a setting names files, folders or code of one machine.

    Args:
        value: the setting's value; losses of a file are local: 'my_file.py:my_loss:1'.
    """
    return name in LOCAL or name == 'losses' and '.py:' in str(value)


def _read_file(path: str, collection: str) -> text.JsonObject:
    """Reads the settings in a file of `tpugraphs sweep`, which is untrusted.

    Raises:
        ValueError: it is none, is for another collection, or names files or code.
        OSError: it cannot be read.
    """
    data = untrusted.read(files.expand(path), _MAX_BYTES)
    try:
        content = untrusted.loads(data)
        made_for, changes = content['collection'], dict(content['settings'].items())
    except untrusted.DAMAGE:
        raise ValueError(
            f'--recipe {path}: is no file of `tpugraphs sweep`, which has a '
            'collection and settings'
        ) from None
    if made_for != collection:
        raise ValueError(
            f'--recipe {path}: is for {text.printable(made_for)}, not for {collection}'
        )
    for name, value in changes.items():
        if is_local(name, value):
            raise ValueError(
                f'--recipe {path}: sets {name} to {value!r}, and a file of settings '
                f'may not name files or code; give --{name} yourself'
            )
    return changes


def write_recipe(
    path: str, collection: str, changes: text.JsonObject, found_by: text.JsonObject
) -> None:
    """Writes settings as a file for --recipe, without those of data and of one run.

    Args:
        found_by: the source of the settings, for readers of the file.

    Raises:
        OSError: it cannot be written.
    """
    kept = {
        name: value
        for name, value in changes.items()
        if name not in DATA + _ONE_RUN and not is_local(name, value)
    }
    content = {'collection': collection, 'settings': kept, 'found_by': found_by}
    with files.write_atomically(path, encoding='utf-8') as stream:
        json.dump(content, stream, indent=1)
