"""Columns of loops over tiles that `tpugraphs collect` measures on a CPU."""

import numpy as np

from baselines.features import column_sets
from baselines.features import kernel_nodes
from baselines.features.cpu import element_tiles
from baselines.features.cpu import loop_costs
from baselines.features.cpu import node_groups
from baselines.features.cpu import operand_access


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
        groups = node_groups.NodeGroups(nodes)
        self._parts = (
            element_tiles.ElementTiles(nodes),
            operand_access.OperandAccess(groups),
            loop_costs.LoopCosts(groups),
        )

    def __call__(self, kernels: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes the columns of configurations; see `ColumnSet`."""
        columns = [part(kernels, configs) for part in self._parts]
        return np.concatenate(columns, axis=1)
