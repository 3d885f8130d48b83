"""Columns of loops over tiles that `tpugraphs lab collect` measures on a CPU."""

import numpy as np

from baselines.features import column_sets
from baselines.features import kernel_nodes
from tpugraphs_lab.columns import element_tiles
from tpugraphs_lab.columns import loop_costs
from tpugraphs_lab.columns import node_groups
from tpugraphs_lab.columns import operand_access


class Columns(column_sets.ColumnSet):
    """Loops of a CPU: tiles in elements, access to memory, a model of the time."""

    position = 2
    names = (
        *element_tiles.ElementTiles.names,
        *operand_access.OperandAccess.names,
        *loop_costs.LoopCosts.names,
    )
    reads_extra = True

    def __init__(self, nodes: kernel_nodes.KernelNodes):
        self._groups = node_groups.NodeGroups(nodes)
        self._tiles = element_tiles.ElementTiles(nodes)
        self._access = operand_access.OperandAccess(self._groups)
        self._costs = loop_costs.LoopCosts(self._groups)

    def __call__(self, kernels: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes the columns of configurations; see `ColumnSet`."""
        cut = self._groups.cut(kernels, node_groups.bounds_in(configs))
        tiles = self._tiles(kernels, configs)
        access, costs = self._access(kernels, cut), self._costs(kernels, cut)
        return np.concatenate([tiles, access, costs], axis=1)
