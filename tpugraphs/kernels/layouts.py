"""Draws layouts for the configurable nodes of programs, to measure and to write.

A configuration gives a configurable node (convolution, dot, reshape) an order of
dimensions for its output and operands, or leaves them to XLA.  An order is written
into the program as a LayoutConstraint, which XLA fulfils by copying.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence
import itertools

import numpy as np

from baselines.hlo import protos
from tpugraphs.kernels import building
from tpugraphs.kernels import cutting
from tpugraphs.kernels import tile_choices

CONFIGURABLE = ('convolution', 'dot', 'reshape')
_LEAST_ELEMENTS = 4096
# Nodes that a configuration near the default changes at most.
_FEW = 3

# Dimensions, minor to major, of a node's output, input and kernel; None means that XLA
# chooses.
Orders = tuple[tuple[int, ...] | None, ...]
# The orders of every configurable node.
Config = tuple[Orders, ...]


def candidates_of(
    program: cutting.Kernel, rng: np.random.Generator, count: int
) -> tile_choices.Candidates:
    """Draws configurations of a program, half near the default, which is first.

    Args:
        count: configurations at most, with the default.
    """
    nodes = configurable(program.module)
    ranks = [
        [len(shape.dimensions) for shape in shapes]
        for number, (_, shapes) in enumerate(_arrays(program.module))
        if number in nodes
    ]
    drawn = draw(ranks, rng, count)
    return tile_choices.Candidates(
        [{'nodes': config} for config in drawn],
        lambda i: constrain(program.module, nodes, drawn[i]).SerializeToString(),
    )


def tuning_data(
    program: cutting.Kernel,
    configs: Sequence[tile_choices.Config],
    times: Iterable[float] = (),
    default: int = 0,
) -> protos.ModuleTuningData:
    """Returns a ModuleTuningData of a program; see `tile_choices.tuning_data`."""
    tuning = protos.ModuleTuningData(
        module=program.module, config_index_to_node=configurable(program.module)
    )
    for config in configs:
        layout = tuning.runs.add().module_config.layout_config
        for orders in config['nodes']:
            tensors = layout.nodes.add().tensors
            for order in orders[:3]:
                tensors.add().dims.extend(order or ())
    return tile_choices.add_times(tuning, times, default)


def kernels_of(
    module: protos.HloModuleProto, program: str, skipped: collections.Counter[str]
) -> list[cutting.Kernel]:
    """Returns a program as its only kernel; none if it has no configurable nodes.

    Args:
        skipped: counts programs that are left out, by reason.
    """
    if configurable(module):
        return [cutting.Kernel(program, program, module, module.name)]
    skipped['nothing to configure'] += 1
    return []


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


def draw(
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


def constrain(
    module: protos.HloModuleProto, nodes: Sequence[int], config: Sequence[Orders]
) -> protos.HloModuleProto:
    """Returns a copy of a program with the layouts of a configuration.

    Args:
        nodes: indices of its configurable nodes.
        config: orders of dimensions, by node.
    """
    copy = type(module).FromString(module.SerializeToString())
    # By the number of the instruction over all computations, as in `configurable`.
    orders_of = dict(zip(nodes, config))
    numbers = itertools.count()
    fresh = building.fresh_ids(copy)
    for computation in copy.computations:
        written: list[protos.HloInstructionProto] = []
        shapes = {i.id: i.shape for i in computation.instructions}
        for instruction in computation.instructions:
            output, *inputs = orders_of.get(next(numbers), (None,))
            for place, order in enumerate(inputs):
                if order is not None:
                    operand = instruction.operand_ids[place]
                    copied = _constraint(next(fresh), operand, shapes[operand], order)
                    instruction.operand_ids[place] = copied.id
                    written.append(copied)
            written.append(instruction)
            if output is not None:
                # Its users then take the constraint instead of the instruction.
                own, instruction.id = instruction.id, next(fresh)
                shape = instruction.shape
                written.append(_constraint(own, instruction.id, shape, output))
        building.set_repeated(computation.instructions, written)
    building.renumber(copy)
    return copy


def _constraint(
    number: int, operand: int, shape: protos.ShapeProto, order: Sequence[int]
) -> protos.HloInstructionProto:
    """Returns a LayoutConstraint with an id on a value: dimensions minor to major."""
    constraint = protos.HloInstructionProto(
        id=number,
        name=f'constraint.{number}',
        opcode='custom-call',
        custom_call_target='LayoutConstraint',
        constrain_layout=True,
        operand_ids=[operand],
        shape=shape,
    )
    constraint.shape.layout.minor_to_major[:] = order
    constraint.operand_shapes_with_layout.add().CopyFrom(constraint.shape)
    return constraint
