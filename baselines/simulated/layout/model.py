"""Simulated runtime of a whole program as a function of its layouts.

Layouts spread from the configurable instructions: an element-wise operation,
a transpose, a reduction, a slice, ... takes over the layout of what it reads,
until an operand must be in another one; there a copy is inserted.

* A configurable instruction gives its output the chosen layout and wants its
  operands in the chosen ones.
* Parameters and what a loop carries are row major, as are the results of the
  program; an operation on such a value is row major, too.
* Otherwise an element-wise operation follows its first operand that has a
  layout chosen by the configuration, else its first with any.
* Constants, broadcasts and random numbers are made in the layout that is wanted.
* A value that several instructions want in one layout is copied once.

Every value then hangs on at most one choice, so that the runtime is a constant
plus tables of one, two (copies) or three choices (products), and thousands of
configurations are looked up at once:

    runtime [ns] = sum over computations of executions * sum of `costs`
"""

import collections
import functools
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from baselines.simulated.hlo import Computation, Instruction, Tensor
from baselines.simulated.layout import costs
from baselines.simulated.layout.layouts import CONFIGURABLE, Slot, slots_of
from baselines.simulated.layout.ops import ELEMENTWISE
from baselines.simulated.layout.rules import Rules
from baselines.simulated.tpu import registers, stored_bytes

_FREE = frozenset(('broadcast', 'constant', 'iota', 'rng'))
_WHOLE = frozenset(('gather', 'scatter'))  # work on row-major arrays only
_LOOKUPS_AT_ONCE = 1 << 22


class Placed(NamedTuple):
    """An array, in a layout for each candidate of the slot that it hangs on."""

    slot: int  # the choice that decides; -1 if none does
    arrays: Tuple[Tensor, ...]  # one per candidate, or just one
    fixed: bool = False  # whether it is a parameter or carried by a loop

    def laid(self, tensor: Tensor) -> 'Placed':
        """Returns another array in the same layouts."""
        arrays = tuple(tensor.ordered(array.layout) for array in self.arrays)
        return self._replace(arrays=arrays)


class LayoutModel:
    """Prices the configurations of a program.

    Attributes:
        slots: what a configuration chooses, in the order of its columns.
        config_nodes: int64 [k], numbers of the configurable nodes.
        first: of a configurable instruction, by its id: that of its output,
            which those of its operands follow.
        base_ns: what no choice changes.
    """

    def __init__(self, computations: Sequence[Computation], rules: Rules = Rules()):
        """Compiles the tables of a program."""
        self.rules = rules
        self.slots: List[Slot] = []
        self.base_ns = 0.0
        self.first: Dict[int, int] = {}
        self._tables: Dict[Tuple[int, ...], np.ndarray] = {}
        nodes = [node for c in computations for node in c.instructions]
        chosen = [i for i, node in enumerate(nodes) if node.opcode in CONFIGURABLE]
        self.config_nodes = np.array(chosen, np.int64)
        for position, number in enumerate(chosen):
            self.first[id(nodes[number])] = len(self.slots)
            self.slots += slots_of(position, nodes[number])
        for computation in computations:
            if computation.executions:
                _Pricing(self, computation)
        self._flatten()

    def add(self, values: Sequence[Placed], times: float, price, share: float) -> None:
        """Adds a cost, ns, that depends on the layouts of a few arrays.

        It is paid `times`; `price` takes the arrays in their layouts.  Of what is
        above the least, `share` counts.
        """
        slots = tuple(sorted({value.slot for value in values} - {-1}))
        table = np.zeros([len(self.slots[s].layouts) for s in slots])
        for choice in np.ndindex(*table.shape):
            at = dict(zip(slots, choice))
            picked = [value.arrays[at.get(value.slot, 0)] for value in values]
            table[choice] = times * price(*picked)
        if share != 1:
            table = table.min() + share * (table - table.min())
        self.add_table(slots, table)

    def add_table(self, slots: Tuple[int, ...], table: np.ndarray) -> None:
        """Adds ns, [candidates of each slot]; no slots: a constant."""
        if not slots:
            self.base_ns += float(table)
        elif table.any():
            self._tables[slots] = self._tables.get(slots, 0.0) + table

    def runtime_ns(self, choices: np.ndarray) -> np.ndarray:
        """Returns noiseless runtimes, ns, float64 [c].

        Args:
            choices: int [c, slots], an index into the layouts of each slot.
        """
        total = np.full(len(choices), self.base_ns)
        if not self._tables:
            return total
        step = max(1, _LOOKUPS_AT_ONCE // len(self._offsets))
        for start in range(0, len(choices), step):
            part = choices[start : start + step].astype(np.int32)
            at = np.broadcast_to(self._offsets, (len(part), len(self._offsets))).copy()
            for slots, strides in zip(self._columns, self._strides):
                at += part[:, slots] * strides
            total[start : start + step] += self._values[at].sum(axis=1)
        return total

    def _flatten(self) -> None:
        """Puts all tables into one array, each index a sum of three terms."""
        columns, strides, offsets, values, end = [], [], [], [], 0
        for slots, table in self._tables.items():
            steps = [int(np.prod(table.shape[i + 1 :])) for i in range(table.ndim)]
            columns.append([*slots, 0, 0][:3])
            strides.append([*steps, 0, 0][:3])
            offsets.append(end)
            values.append(table.ravel())
            end += table.size
        self._columns = np.array(columns, np.int64).reshape(-1, 3).T
        self._strides = np.array(strides, np.int32).reshape(-1, 3).T
        self._offsets = np.array(offsets, np.int32)
        self._values = np.concatenate(values) if values else np.zeros(0)


class _Pricing:
    """Walks one computation in order and adds its costs to the model."""

    def __init__(self, model: LayoutModel, computation: Computation):
        self._model, self._times = model, computation.executions
        self._at: Dict[int, Optional[Placed]] = {}
        self._copied = set()
        self._users = collections.defaultdict(list)
        for node in computation.instructions:
            for operand in {id(o): o for o in node.operands}.values():
                self._users[id(operand)].append(node)
        for node in computation.instructions:
            self._at[id(node)] = self._price(node)
        self._want(computation.root, None)

    def _price(self, node: Instruction) -> Optional[Placed]:
        """Adds what `node` costs; returns its result, None in whatever is wanted."""
        opcode, shape = node.opcode, node.shape
        usual = Placed(-1, (shape,))
        if opcode in _FREE:
            if opcode == 'rng':
                slots = costs.RANDOM_SLOTS * registers(shape)
                self._add(lambda _: costs.roofline_ns(0, slots=slots), usual)
            return None
        if opcode in ('parameter', 'get-tuple-element'):
            return usual._replace(fixed=True)
        if opcode in ('tuple', 'while'):
            for operand in node.operands:
                self._want(operand, None)
            return usual
        if opcode in CONFIGURABLE:
            return self._configurable(node)
        if opcode == 'transpose':
            return self._transposed(node)
        if opcode == 'reduce':
            return self._reduced(node)
        whole = opcode in _WHOLE
        main = usual if whole else (self._followed(node) or usual).laid(shape)
        for operand in node.operands:
            if whole or len(operand.shape.dims) == len(shape.dims):
                self._want(operand, None if whole else main)
        if opcode in ELEMENTWISE:
            stored = [o for o in (*node.operands, node) if self._in_memory(o)]
            moved = tuple(o.shape.dtype for o in stored)
            price = functools.partial(costs.elementwise_ns, opcode, moved=moved)
            self._add(price, main)
        else:
            self._add(lambda array: costs.roofline_ns(_moved(node, array)), main)
        return main

    def _configurable(self, node: Instruction) -> Placed:
        """Dots, convolutions, reshapes: all layouts are chosen."""
        values = []
        for slot, of in enumerate((node, *node.operands), self._model.first[id(node)]):
            layouts = self._model.slots[slot].layouts
            values.append(Placed(slot, tuple(map(of.shape.ordered, layouts))))
        for operand, value in zip(node.operands, values[1:]):
            self._want(operand, value)
        rules = self._model.rules
        if node.opcode == 'reshape':
            self._add(costs.reshape_ns, *reversed(values), share=rules.copies)
        else:
            slots, arrays, _ = zip(*values)
            table = costs.product_ns(arrays, node.roles, rules)
            self._model.add_table(slots, self._times * table)
        return values[0]

    def _transposed(self, node: Instruction) -> Optional[Placed]:
        """Costs nothing: the layout absorbs it."""
        given = self._at[id(node.operands[0])]
        if given is None:
            return None
        new = {old: i for i, old in enumerate(node.dimensions)}
        return given._replace(
            arrays=tuple(
                node.shape.ordered([new[d] for d in array.layout])
                for array in given.arrays
            )
        )

    def _reduced(self, node: Instruction) -> Placed:
        source, over = node.operands[0], node.dimensions
        given = self._at[id(source)] or Placed(-1, (source.shape,))
        kept = [d for d in range(len(source.shape.dims)) if d not in over]
        result = Placed(given.slot, tuple(array.keep(kept) for array in given.arrays))
        read = self._in_memory(source)
        self._add(lambda a, b: costs.reduce_ns(a, over, b, read), given, result)
        return result

    def _followed(self, node: Instruction) -> Optional[Placed]:
        """The operand whose layout the result takes over."""
        rank = len(node.shape.dims)
        given = [self._at[id(o)] for o in node.operands if len(o.shape.dims) == rank]
        given = [v for v in given if v is not None]
        order = (
            [v for v in given if v.fixed] + [v for v in given if v.slot >= 0] + given
        )
        return order[0] if order else None

    def _want(self, operand: Instruction, wanted: Optional[Placed]) -> None:
        """Adds the copy of an operand to a layout; None: to row major."""
        given, shape = self._at[id(operand)], operand.shape
        if given is None or len(shape.dims) < 2:
            return
        wanted = wanted.laid(shape) if wanted else Placed(-1, (shape,))
        key = id(operand), wanted.slot, wanted.arrays
        if key not in self._copied:
            self._copied.add(key)
            share = self._model.rules.copies
            self._add(costs.copy_ns, given, wanted, share=share)

    def _in_memory(self, node: Instruction) -> bool:
        """Whether a value is written to memory, and so read from it."""
        if node.opcode in _FREE:
            return False
        users = self._users[id(node)]
        fused = len(users) == 1 and users[0].opcode in ELEMENTWISE | {'reduce'}
        return not (node.opcode in ELEMENTWISE and fused)

    def _add(self, price, *values: Placed, share=None) -> None:
        if share is None:
            share = self._model.rules.traffic
        self._model.add(values, self._times, price, share)


def _moved(node: Instruction, result: Tensor) -> float:
    """Bytes that slices, pads, pools, ... read and write; in the result's layout."""
    same_rank = [
        stored_bytes(o.shape.ordered(result.layout))
        for o in node.operands
        if len(o.shape.dims) == len(result.dims)
    ]
    if node.opcode in _WHOLE | {'slice', 'dynamic-slice'}:
        return 2 * stored_bytes(result)
    if node.opcode == 'dynamic-update-slice':
        return 2 * same_rank[1]
    return stored_bytes(result) + sum(same_rank)
