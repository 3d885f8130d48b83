"""Draws layouts for the configurable nodes of programs, to rank.

A configuration gives a configurable node (convolution, dot, reshape) an order of
dimensions for its output and operands, or leaves them to XLA.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from baselines.hlo import protos
from tpugraphs_lab.kernels import building

CONFIGURABLE = ('convolution', 'dot', 'reshape')
_LEAST_ELEMENTS = 4096
# Nodes that a configuration near the default changes at most.
_FEW = 3

# Dimensions, minor to major, of a node's output, input and kernel; None means that XLA
# chooses.
Orders = tuple[tuple[int, ...] | None, ...]
# The orders of every configurable node.
Config = tuple[Orders, ...]


def tuning_data(
    module: protos.HloModuleProto, rng: np.random.Generator, count: int
) -> protos.ModuleTuningData:
    """Returns a ModuleTuningData of a program, with layouts to choose from.

    Half of the configurations are near the default, which is the first.

    Args:
        module: a program with configurable nodes.
        count: configurations at most, with the default.
    """
    nodes = configurable(module)
    ranks = [
        [len(shape.dimensions) for shape in shapes]
        for number, (_, shapes) in enumerate(_arrays(module))
        if number in nodes
    ]
    tuning = protos.ModuleTuningData(module=module, config_index_to_node=nodes)
    for config in draw_configs(ranks, rng, count):
        layout = tuning.runs.add().module_config.layout_config
        for orders in config:
            tensors = layout.nodes.add().tensors
            for order in orders[:3]:
                tensors.add().dims.extend(order or ())
    tuning.runs[0].is_default = True
    return tuning


def _arrays(
    module: protos.HloModuleProto,
) -> Iterator[tuple[str, list[protos.ShapeProto]]]:
    """Yields the opcodes of all instructions, with result and operand shapes."""
    for computation in module.computations:
        shapes = {i.id: i.shape for i in computation.instructions}
        for i in computation.instructions:
            yield i.opcode, [i.shape, *(shapes[o] for o in i.operand_ids)]


def configurable(module: protos.HloModuleProto) -> list[int]:
    """Returns the indices of configurable instructions, over all computations.

    Small ones are left out, and reshapes that change nothing.
    """
    numbers = []
    for number, (opcode, shapes) in enumerate(_arrays(module)):
        if opcode in CONFIGURABLE:
            after, before = shapes[:2]
            idle = opcode == 'reshape' and after.dimensions == before.dimensions
            large = max(map(building.elements, (after, before))) >= _LEAST_ELEMENTS
            if large and not idle:
                numbers.append(number)
    return numbers


def draw_configs(
    ranks: Sequence[Sequence[int]], rng: np.random.Generator, count: int
) -> list[Config]:
    """Returns distinct configurations, the default first.

    Args:
        ranks: the ranks of output and operands, by node.
        count: configurations at most, with the default.
    """
    default: Config = tuple(tuple(None for _ in node) for node in ranks)
    drawn: dict[Config, None] = {default: None}
    for attempt in range(20 * count):
        if len(drawn) == count:
            break
        # [chosen nodes]: every second attempt changes all of them.
        chosen = rng.permutation(len(ranks))
        if attempt % 2:  # near the default
            chosen = chosen[: rng.integers(1, min(_FEW, len(ranks)) + 1)]
        # Half of the arrays of a chosen node get a random order, the others stay XLA's.
        changed = list(default)
        for node in chosen:
            changed[node] = tuple(
                tuple(int(d) for d in rng.permutation(rank))
                if rank > 1 and rng.random() < 0.5
                else None
                for rank in ranks[node]
            )
        drawn[tuple(changed)] = None
    return list(drawn)
