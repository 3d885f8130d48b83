"""Models, column sets and losses by name, with a line about each."""

from collections.abc import Mapping
import inspect
from typing import Any

from baselines import config
from baselines.core import registry
from baselines.core import starting
from baselines.core import text
from baselines.features import column_sets
from baselines.trees import booster


class Catalogue(dict[str, str]):
    """A dict of names and one-line descriptions that is displayed as a table."""

    def __repr__(self) -> str:
        return '\n'.join(text.format_table([list(item) for item in self.items()], '<<'))

    def _repr_html_(self) -> str:
        return text.make_html_table([['name', 'what it is'], *map(list, self.items())])


def models(task: str = 'tile') -> Catalogue:
    """Returns the models of a task with the first lines of their docstrings.

    Args:
        task: 'tile' or 'layout'.
    """
    registry.resolve(task, config.CONFIGS, 'task')
    starting.start_tensorflow()
    classes = registry.drop_aliases(registry.find_models(registry.FOLDERS[task]))
    return _describe_by_docstrings({**classes, registry.TREES: booster.Trees})


def columns() -> Catalogue:
    """Returns the column sets of --columns, and the first lines of their docstrings."""
    return _describe_by_docstrings(column_sets.find())


def _describe_by_docstrings(described: Mapping[str, Any]) -> Catalogue:
    """Returns the first lines of the docstrings of objects, by name."""
    docs = {name: inspect.getdoc(x) or '' for name, x in described.items()}
    return Catalogue({name: doc.partition('\n')[0] for name, doc in docs.items()})


def losses() -> Catalogue:
    """Returns the losses, and the first lines of their docstrings.

    The losses of TensorFlow Ranking, where it is installed, are one entry.
    """
    lines = dict(registry.LOSSES)
    if registry.find_ranking_losses():
        lines['tfr.<class>'] = (
            'A loss of TensorFlow Ranking, such as tfr.GumbelApproxNDCGLoss.'
        )
    return Catalogue(lines)
