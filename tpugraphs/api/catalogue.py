"""Models, column sets and losses by name, with a line about each."""

import importlib.util
import inspect

from baselines import config
from baselines.core import registry
from baselines.core import starting
from baselines.core import text
from baselines.data import collections
from baselines.features import column_sets
from baselines.tasks import lookup
from baselines.trees import booster


class Catalogue(dict[str, str]):
    """A dict of names and one-line descriptions that is displayed as a table."""

    def __repr__(self) -> str:
        return '\n'.join(text.table([list(item) for item in self.items()], '<<'))

    def _repr_html_(self) -> str:
        return text.html_table([['name', 'what it is'], *map(list, self.items())])


def models(task: str = 'tile') -> Catalogue:
    """Returns the models of a task with the first lines of their docstrings.

    Args:
        task: 'tile' or 'layout'.
    """
    registry.resolve(task, config.CONFIGS, 'task')
    starting.start_tensorflow()
    [collection, *_] = [c for c in collections.COLLECTIONS if c.task == task]
    classes = registry.distinct(lookup.TASKS[collection.task].models(''))
    return Catalogue(
        {
            name: (inspect.getdoc(model) or '').partition('\n')[0]
            for name, model in {**classes, registry.TREES: booster.Trees}.items()
        }
    )


def columns() -> Catalogue:
    """Returns the column sets of --columns, and the first lines of their docstrings."""
    sets = column_sets.find().items()
    return Catalogue(
        {name: (inspect.getdoc(s) or '').partition('\n')[0] for name, s in sets}
    )


def losses() -> Catalogue:
    """Returns the losses, and the first lines of their docstrings.

    Those of TensorFlow Ranking are one entry, where that is installed.
    """
    lines = registry.declared('baselines.training.losses', 'register')
    if importlib.util.find_spec('tensorflow_ranking'):
        lines['tfr.<class>'] = (
            'A loss of TensorFlow Ranking, such as tfr.GumbelApproxNDCGLoss.'
        )
    return Catalogue(lines)
