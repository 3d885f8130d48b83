"""Programs and the layouts of their arrays as things to measure.

A configuration gives each configurable node (convolution, dot, reshape) an order
of dimensions for its output and operands, or leaves it to XLA.  What is given is
written into the program as a LayoutConstraint, which XLA keeps to by copying.
"""

import dataclasses
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from baselines.data import raw as raw_lib
from baselines.data.layout import records
from baselines.hlo import graph
from baselines.hlo import layout as hlo_layout
from baselines.hlo import protos
from baselines.measuring import building
from baselines.measuring import candidates
from baselines.measuring import tiles

CONFIGURABLE = ('convolution', 'dot', 'reshape')
_LEAST_ELEMENTS = 4096
# A configuration near the default changes at most so many nodes.
_FEW = 3

# Of a node's output, input and kernel: dimensions minor to major, or None.
Orders = Tuple[Optional[Tuple[int, ...]], ...]


@dataclasses.dataclass(frozen=True, eq=False)
class LayoutItem:
    """A program to measure.

    Attributes:
        program: its name.
        source: its HloModuleProto, as TensorFlow made it.
        nodes: numbers of the configurable nodes among all instructions.
    """

    program: str
    source: Any
    nodes: List[int]

    @property
    def name(self) -> str:
        """Its graph id."""
        return self.program

    @property
    def origin(self) -> str:
        """What it is called in the module."""
        return self.source.name

    def batch(self, rng: np.random.Generator, count: int) -> tiles.Batch:
        """Draws configurations, half of them near the default, which is first."""
        drawn = draw(self.source, self.nodes, rng, count)
        return tiles.Batch(
            [
                constrained(self.source, self.nodes, orders).SerializeToString()
                for orders in drawn
            ],
            candidates.inputs_of(self.source),
            [{'nodes': orders} for orders in drawn],
            [_run_of(orders) for orders in drawn],
        )

    def tuning(self, runs: Sequence[Any], times: Any = ()) -> Any:
        """Returns it with configurations as the raw files hold them."""
        tuning = protos.protos().ModuleTuningData()
        tuning.module.CopyFrom(self.source)
        tuning.config_index_to_node.extend(self.nodes)
        tiles.add_runs(tuning, runs, times)
        return tuning

    def write(self, path: str, batch: tiles.Batch, kept: List[int], times: Any) -> None:
        """Writes the npz file by the extractor's path."""
        tuning = self.tuning([batch.runs[i] for i in kept], times)
        nodes = graph.extract_graph(tuning.module)
        configs = hlo_layout.extract_configs(tuning, len(nodes.node_opcode))
        records.write_layout(
            path, raw_lib.layout_record(self.name, nodes, configs, False)
        )


def items_of(
    module: Any, program: str, seen: set, skipped: Dict[str, int]
) -> List[LayoutItem]:
    """Returns a program as the only item; none, if it has nothing to configure."""
    nodes = configurable(module)
    if not nodes:
        skipped['nothing to configure'] = skipped.get('nothing to configure', 0) + 1
        return []
    seen.add(program)
    return [LayoutItem(program, module, nodes)]


def configurable(module: Any) -> List[int]:
    """Returns which instructions, of all computations in order, are configurable.

    Small ones are not, nor reshapes that change nothing.
    """
    found, number = [], -1
    for computation in module.computations:
        shapes = {i.id: i.shape for i in computation.instructions}
        for instruction in computation.instructions:
            number += 1
            if instruction.opcode not in CONFIGURABLE:
                continue
            before = shapes[instruction.operand_ids[0]]
            largest = max(map(building.elements, (before, instruction.shape)))
            same = list(before.dimensions) == list(instruction.shape.dimensions)
            idle = same and instruction.opcode == 'reshape'
            if largest >= _LEAST_ELEMENTS and not idle:
                found.append(number)
    return found


def draw(
    module: Any, nodes: Sequence[int], rng: np.random.Generator, count: int
) -> List[List[Orders]]:
    """Returns distinct configurations, the default first.

    Args:
        module: the program.
        nodes: its configurable nodes.
        rng: draws.
        count: how many at most, with the default.
    """
    ranks = _ranks(module, nodes)
    default = [tuple(None for _ in tensors) for tensors in ranks]
    found = {tuple(default): default}
    for attempt in range(20 * count):
        if len(found) == count:
            break
        orders = list(default)
        near = attempt % 2
        most = min(_FEW, len(nodes))
        chosen = rng.permutation(len(nodes))
        if near:
            chosen = chosen[: rng.integers(1, most + 1)]
        for node in chosen:
            orders[node] = tuple(
                tuple(int(d) for d in rng.permutation(rank))
                if rank > 1 and rng.random() < 0.5
                else None
                for rank in ranks[node]
            )
        found.setdefault(tuple(orders), orders)
    return list(found.values())


def _ranks(module: Any, nodes: Sequence[int]) -> List[List[int]]:
    """Returns the ranks of each node's output and operands."""
    found, number, wanted = [], -1, set(nodes)
    for computation in module.computations:
        shapes = {i.id: i.shape for i in computation.instructions}
        for instruction in computation.instructions:
            number += 1
            if number in wanted:
                operands = [shapes[o] for o in instruction.operand_ids]
                found.append(
                    [len(s.dimensions) for s in (instruction.shape, *operands)]
                )
    return found


def constrained(module: Any, nodes: Sequence[int], orders: Sequence[Orders]) -> Any:
    """Returns a copy of a program that keeps to a configuration.

    Args:
        module: the program.
        nodes: its configurable nodes.
        orders: of each node.
    """
    copy = type(module).FromString(module.SerializeToString())
    of = dict(zip(nodes, orders))
    fresh = 1 + max(
        max(c.id for c in copy.computations),
        max(i.id for c in copy.computations for i in c.instructions),
    )
    number = -1
    for computation in copy.computations:
        written: List[Any] = []
        renamed: Dict[int, int] = {}
        shapes = {i.id: i.shape for i in computation.instructions}
        for instruction in computation.instructions:
            number += 1
            operands = [renamed.get(o, o) for o in instruction.operand_ids]
            output, *inputs = of.get(number, (None,))
            for place, order in enumerate(inputs):
                if order is not None:
                    shape = shapes[instruction.operand_ids[place]]
                    written.append(_constraint(fresh, operands[place], shape, order))
                    operands[place] = fresh
                    fresh += 1
            instruction.operand_ids[:] = operands
            written.append(instruction)
            if output is not None:
                shape = instruction.shape
                written.append(_constraint(fresh, instruction.id, shape, output))
                renamed[instruction.id] = fresh
                fresh += 1
        computation.root_id = renamed.get(computation.root_id, computation.root_id)
        written = [type(i).FromString(i.SerializeToString()) for i in written]
        del computation.instructions[:]
        computation.instructions.extend(written)
    return copy


def _constraint(number: int, operand: int, shape: Any, order: Sequence[int]) -> Any:
    made = protos.protos().HloInstructionProto(
        id=number,
        name=f'constraint.{number}',
        opcode='custom-call',
        custom_call_target='LayoutConstraint',
        constrain_layout=True,
        operand_ids=[operand],
    )
    made.shape.CopyFrom(shape)
    made.shape.layout.minor_to_major[:] = order
    made.operand_shapes_with_layout.add().CopyFrom(made.shape)
    return made


def _run_of(orders: Sequence[Orders]) -> Any:
    run = protos.protos().ConfigProfile()
    layout = run.module_config.layout_config
    for node in orders:
        added = layout.nodes.add()
        for order in node[:3]:
            added.tensors.add().dims.extend(order or ())
    return run
