"""Sets of columns that are computed of tile configurations, by name: `--columns`.

    sets = column_sets.find(['estimate', 'tile'])
    columns = sets['tile'](nodes)(kernels, configs)  # [rows, len(sets['tile'].names)]

A set is a module with a class `Columns`: `<name>_columns` of `features.tpu`, or an
entry point of another distribution; `registry.find_column_sets` lists them.
"""

import abc
from collections.abc import Iterable
import importlib

import numpy as np

from baselines.core import extensions
from baselines.core import registry
from baselines.data.packed import splits
from baselines.features import kernel_nodes
from baselines.hlo import schema


class ColumnSet(abc.ABC):
    """The columns of the configurations of G kernels.

    Attributes:
        position: sets come in ascending order of it.
        names: the names of the columns.
        reads_extra: whether they are computed from `node_feat_extra`, too.

    Args:
        nodes: the nodes of the kernels.
    """

    position: int
    names: tuple[str, ...]
    reads_extra = False

    @abc.abstractmethod
    def __init__(self, nodes: kernel_nodes.KernelNodes): ...

    @abc.abstractmethod
    def __call__(self, kernels: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes float [rows, len(names)].

        Args:
            kernels: int [rows], the kernel of each configuration.
            configs: float64 [rows, >= 24], raw configuration features.
        """

    @classmethod
    def is_useful(cls, store: splits.PackedSplit) -> bool:
        """Returns whether any two kernels of a split differ in the columns."""
        return True


def find(names: Iterable[str] | None = None) -> dict[str, type[ColumnSet]]:
    """Returns column sets by name, in the order of their columns.

    Args:
        names: the names; None means all.

    Raises:
        ValueError: there is no such set.
    """
    modules, more = registry.find_column_sets(), extensions.explain_columns()
    found = {}
    for name in modules if names is None else names:
        module = registry.resolve(name, modules, 'column set', more)
        found[name] = importlib.import_module(module).Columns
    return dict(sorted(found.items(), key=lambda item: item[1].position))


def detect_machine(store: splits.PackedSplit) -> str:
    """Returns the machine whose tiles most kernels of a split have: 'tpu' or 'cpu'.

    On a CPU bounds count elements: the largest output tile is the whole output.
    Counted in registers of 8 x 128, its bounds are a thousandth of the output's size.
    """
    if store.node_feat.shape[1] < len(schema.NODE):
        return 'tpu'
    nodes = kernel_nodes.KernelNodes(store)
    # Sizes of the result and of the largest tile, [G, 6] each.
    elements = np.maximum(nodes.dims[nodes.root], 1)
    bounds = np.maximum(store.config_max[:, schema.OUTPUT_BOUNDS], 1)
    of_tiles, of_results = (x.prod(axis=1, dtype=float) for x in (bounds, elements))
    return 'cpu' if np.mean(of_tiles == of_results) > 0.5 else 'tpu'


def read_extra(names: Iterable[str]) -> bool:
    """Returns whether any of these sets or columns needs `node_feat_extra`."""
    asked = {*names}
    sets = find().items()
    return any(s.reads_extra and asked & {name, *s.names} for name, s in sets)
