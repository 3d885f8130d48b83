"""What a kernel of the second simulator does per tile, and how long it takes."""

from typing import Dict, List, Sequence, Tuple

import numpy as np

from baselines.simulated import tpu
from baselines.simulated.hlo import Computation, Instruction, Tensor
from baselines.simulated.tile.tiles import Space
from baselines.simulated.tile_other import geometry
from baselines.simulated.tile_other.machine import Machine
from baselines.simulated.tpu import LANES
from baselines.simulated.tpu import SUBLANES

# Instructions per register; 1 for what is not here.
_OPERATIONS = {
    'divide': 9.0, 'sqrt': 4.0, 'rsqrt': 4.0, 'exponential': 5.0, 'tanh': 12.0,
    'log': 7.0, 'logistic': 9.0, 'power': 16.0, 'convert': 1.5, 'reverse': 3.0,
    'concatenate': 1.5, 'pad': 1.5, 'select': 1.0, 'reduce-window': 4.0,
}  # fmt: skip
_NOTHING = (
    'parameter', 'constant', 'tuple', 'fusion', 'bitcast', 'reshape', 'dot',
    'convolution', 'iota',
)  # fmt: skip
_PRODUCTS = ('dot', 'convolution')
_RESIDENT = 1 / 64  # of the vector memory


class Job:
    """One kernel on one machine.

    Args:
        computations: the HLO module, callees first, entry last.
        space: the axes that the kernel loops over.
        machine: the figures.
    """

    def __init__(
        self, computations: Sequence[Computation], space: Space, machine: Machine
    ):
        self._space, self._machine = space, machine
        self.operands = [p.shape for p in computations[-1].parameters]
        bodies = _called(computations[-1])
        root = bodies[0].root
        ends = root.operands if root.opcode == 'tuple' else (root,)
        self.results = [end.shape for end in ends]
        self._vector: Dict[Tensor, float] = {}
        self._sums: List[Instruction] = []
        self._products: List[Instruction] = []
        self._kept: List[Tensor] = []
        self._code = 0
        for body in bodies:
            for instruction in body.instructions:
                self._count(instruction)
        self._live = max(_most_alive(body) for body in bodies)
        self._depth = max(_longest_chain(body) for body in bodies)
        self._loops = self._loop_order()

    def _count(self, instruction: Instruction) -> None:
        opcode, shape = instruction.opcode, instruction.shape
        if opcode in _PRODUCTS:
            self._products.append(instruction)
            self._kept.append(shape.typed('f32'))
        elif opcode == 'fusion' and instruction.calls:
            self._kept.append(shape)
        elif opcode == 'reduce':
            self._sums.append(instruction)
            self._add(instruction.operands[0].shape, 1.0)
        elif opcode == 'broadcast':
            given = set(instruction.dimensions)
            across = bool(given) and shape.layout[0] not in given
            self._add(shape, 3.0 if across else 0.25 * bool(given))
        elif opcode in ('transpose', 'copy'):
            self._add(shape, _turning(instruction))
        elif opcode not in _NOTHING:
            cost = _OPERATIONS.get(opcode, 1.0)
            if shape.dtype == 'bf16':
                cost *= 1.5
            self._add(shape, cost)

    def _add(self, view: Tensor, operations: float) -> None:
        if view.dims and operations:
            key = view.typed('')
            self._vector[key] = self._vector.get(key, 0.0) + operations
            self._code += 1

    def _loop_order(self) -> Tuple[int, ...]:
        """Axes, outermost first: slowest dimensions outside, sums of products
        inside; of a product, the axes of its larger operand outside."""
        inner = set(self._space.contracted)
        order = [axis for axis, _ in self._space.output_bounds if axis not in inner]
        if self._products:
            left, right = (op.shape for op in self._products[-1].operands)
            size = [np.prod(t.dims) * tpu.BYTES[t.dtype] for t in (left, right)]
            larger = geometry.axes(right if size[1] > size[0] else left)
            shared = geometry.axes(left) & geometry.axes(right)
            order.sort(key=lambda axis: (axis not in shared, axis not in larger))
        return (*order, *self._space.contracted)

    # Time ---------------------------------------------------------------------

    def footprint(self, tiles: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """Returns bytes with one and with two buffers, float64 [c] each."""
        moved, fixed = np.zeros(len(tiles)), np.zeros(len(tiles))
        for view in (*self.operands, *self.results):
            if self._is_resident(view):
                fixed += geometry.padded_bytes(view)
            else:
                moved += geometry.registers(view, tiles) * geometry.register_bytes(view)
        for view in self._kept:
            fixed += geometry.registers(view, tiles) * geometry.register_bytes(view)
        return moved + fixed, 2 * moved + fixed

    def runtime_ns(self, tiles: np.ndarray) -> np.ndarray:
        """Returns the time of each tile, ns, float64 [c].

        Args:
            tiles: int64 [c, axes], elements.
        """
        machine = self._machine
        sizes = np.array(self._space.sizes, np.int64)
        trips = -(-sizes // tiles)
        running = np.cumprod(trips[:, self._loops], axis=1).astype(np.float64)
        steps = running[:, -1]
        loads = [(v, self._moved_ns(v, tiles, trips)) for v in self.operands]
        stores = [(v, self._moved_ns(v, tiles, trips)) for v in self.results]
        compute = self._compute_ns(tiles, trips)
        fits_twice = self.footprint(tiles)[1] <= machine.vector_memory_bytes
        first = sum(ns for _, ns in loads)
        last = sum(ns for _, ns in stores)
        # The first step, then those in which loop l is the outermost to tick.
        total = first + compute + last
        before = np.ones(len(tiles))
        for level in range(len(self._loops)):
            count = running[:, level] - before
            before = running[:, level]
            moving = np.zeros(len(tiles))
            for view, ns in loads:
                moving += np.where(self._moves(view, level, trips), ns, 0.0)
            for view, ns in stores:
                # A sum that comes back to a tile reads it first.
                again = self._returns(view, trips)
                moving += np.where(
                    self._moves(view, level, trips), ns * (1 + again), 0.0
                )
            total += count * np.where(
                fits_twice, np.maximum(moving, compute), moving + compute
            )
        return machine.launch_ns + total + steps * machine.step_ns

    def _is_resident(self, view: Tensor) -> bool:
        most = _RESIDENT * self._machine.vector_memory_bytes
        return geometry.padded_bytes(view) <= most

    def _moves(self, view: Tensor, level: int, trips: np.ndarray) -> np.ndarray:
        """Whether a tick of loop `level` changes the tensor's tile, bool [c]."""
        if self._is_resident(view) and view in self.operands:
            return np.zeros(len(trips), bool)
        inside = [a for a in self._loops[level:] if a in geometry.axes(view)]
        return (trips[:, inside] > 1).any(axis=1)

    def _returns(self, view: Tensor, trips: np.ndarray) -> np.ndarray:
        """Whether tiles of a result are visited more than once, bool [c]."""
        outside, back = np.zeros(len(trips), bool), np.zeros(len(trips), bool)
        for axis in self._loops:
            several = trips[:, axis] > 1
            if axis in geometry.axes(view):
                back |= several & outside
            else:
                outside |= several
        return back

    def _moved_ns(self, view: Tensor, tiles, trips) -> np.ndarray:
        """Time to move one tile of a tensor, on average over the tiles, [c]."""
        machine = self._machine
        if self._is_resident(view) and view in self.operands:
            moved = np.full(len(tiles), float(geometry.padded_bytes(view)))
            return machine.dma_ns + moved / machine.hbm_bytes_per_ns
        units, whole = geometry.units(view, tiles), geometry.whole_units(view)
        mean = units.astype(np.float64)
        for place, dim in enumerate(view.layout):
            follow = view.axes[dim]
            if follow is not None and follow.window_axis is None:
                mean[:, place] = np.minimum(
                    mean[:, place], whole[place] / trips[:, follow.axis]
                )
        run = np.full(len(tiles), float(geometry.register_bytes(view)))
        covered = np.ones(len(tiles), bool)
        for place in range(units.shape[1]):
            run *= np.where(covered, units[:, place], 1)
            covered &= units[:, place] == whole[place]
        rate = machine.hbm_bytes_per_ns * run / (run + machine.burst_bytes)
        if len(whole) > 1:
            apart = whole[0] % machine.channel_registers == 0
            strided = (units[:, 0] < whole[0]) & (units[:, 1] > 1) & apart
            rate *= np.where(strided, machine.channel_share, 1.0)
        moved = mean.prod(axis=1) * geometry.register_bytes(view)
        return machine.dma_ns + moved / rate

    def _compute_ns(self, tiles, trips) -> np.ndarray:
        vector = self._vector_cycles(tiles, trips)
        matrix = np.zeros(len(tiles))
        for product in self._products:
            cycles, pops = self._product_cycles(product, tiles)
            matrix += cycles
            vector += pops / self._machine.slots_per_cycle
        busy = np.maximum(vector, matrix) + 0.3 * np.minimum(vector, matrix)
        return busy / self._machine.clock_ghz

    def _vector_cycles(self, tiles, trips) -> np.ndarray:
        machine = self._machine
        slots = np.zeros(len(tiles))
        for view, operations in self._vector.items():
            slots += self._computed(view, tiles, trips) * operations
        for view in (*self.operands, *self.results):
            units = geometry.units(view, tiles)
            factor = np.ones(len(tiles))
            if units.shape[1] > 1:
                clash = (units[:, 0] % machine.banks == 0) & (units[:, 1] > 1)
                factor = np.where(clash, machine.bank_factor, 1.0)
            slots += self._computed(view, tiles, trips) * factor
        main = max(self._vector, default=self.results[0], key=geometry.elements)
        registers = self._computed(main, tiles, trips)
        row = np.minimum(geometry.units(main, tiles)[:, 0], machine.unroll)
        if self._live:
            spilled = np.maximum(self._live - machine.registers / row, 0.0)
            slots += 2.0 * spilled * registers
        cycles = slots / machine.slots_per_cycle
        chain = registers / row * self._depth * machine.latency_cycles
        code = np.maximum(self._code * row - machine.code_limit, 0.0)
        return (
            np.maximum(cycles, chain)
            + code * machine.code_cycles
            + (self._sum_cycles(tiles))
        )

    def _computed(self, view: Tensor, tiles, trips) -> np.ndarray:
        """Registers computed per step: masked in the two fastest dimensions."""
        units = geometry.units(view, tiles).astype(np.float64)
        whole = geometry.whole_units(view)
        for place, dim in enumerate(view.layout[2:], 2):
            follow = view.axes[dim]
            if follow is not None and follow.window_axis is None:
                units[:, place] = np.minimum(
                    units[:, place], whole[place] / trips[:, follow.axis]
                )
        return units.prod(axis=1)

    def _sum_cycles(self, tiles) -> np.ndarray:
        machine, cycles = self._machine, np.zeros(len(tiles))
        for sum_ in self._sums:
            source = sum_.operands[0].shape
            units = geometry.units(source, tiles).astype(np.float64)
            gone = [p for p, d in enumerate(source.layout) if d in sum_.dimensions]
            units[:, gone] = 1.0
            each = 2.0
            each += machine.lane_cycles if 0 in gone else 0.0
            each += machine.sublane_cycles if 1 in gone else 0.0
            cycles += units.prod(axis=1) * each
        return cycles

    def _product_cycles(self, product: Instruction, tiles):
        """Cycles of the matrix units, and operations to add up, per step."""
        machine = self._machine
        side = machine.matrix_side
        left, right = (op.shape for op in product.operands)
        out = product.shape
        part = geometry.part(out, tiles)[:, list(out.layout)]
        weights = geometry.part(right, tiles)
        window = np.ones(len(tiles))
        if product.opcode == 'dot':
            batch = part[:, 2:].prod(axis=1)
            rows, columns = part[:, 1], part[:, 0]
            depth_axis = self._space.contracted[-1]
            depth = np.minimum(tiles[:, depth_axis], self._space.sizes[depth_axis])
            right_turned = right.axes[right.layout[0]].axis == depth_axis
            left_turned = left.axes[left.layout[0]].axis != depth_axis
        else:
            numbers = product.convolution
            batch = np.ones(len(tiles))
            window = weights[:, list(numbers.kernel_spatial)].prod(axis=1)
            depth = weights[:, numbers.kernel_input]
            columns = part[:, 0]
            rows = part[:, 2:].prod(axis=1) * (-(-part[:, 1] // SUBLANES) * SUBLANES)
            right_turned = right.layout[0] == numbers.kernel_input
            left_turned = left.layout[0] != numbers.input_feature
        # Narrow inputs: several window positions side by side in one pass.
        folded = np.clip(side // np.maximum(depth, 1), 1, window)
        positions = np.ceil(window / folded)
        deep = np.ceil(depth * folded / side)
        precision = machine.passes_f32 if left.dtype == 'f32' else 1.0

        def held(streamed, kept, turn_streamed, turn_kept):
            passes = np.ceil(deep * np.ceil(kept / side) / machine.matrix_units)
            load = side * (2.0 if turn_kept else 1.0)
            stream = streamed * (1.5 if turn_streamed else 1.0)
            return passes * np.maximum(stream, load) + load

        once = np.minimum(
            held(rows, columns, left_turned, right_turned),
            held(columns, rows, not right_turned, not left_turned),
        )
        shifts = np.where(window > 1, 0.5 * window * rows * depth / 1024.0, 0.0)
        registers = np.ceil(rows / SUBLANES) * np.ceil(columns / LANES)
        pops = batch * registers * positions * deep * precision + shifts
        return batch * positions * precision * once, pops


def _called(entry: Computation) -> List[Computation]:
    if entry.root.opcode != 'fusion':
        return [entry]
    found = list(entry.root.calls)
    for body in found:
        for instruction in body.instructions:
            if instruction.opcode == 'fusion':
                found += instruction.calls
    return found


def _is_value(instruction: Instruction) -> bool:
    return bool(instruction.shape.dims) and instruction.opcode != 'tuple'


def _most_alive(body: Computation) -> int:
    """The most arrays that wait for their last use at any one time."""
    order = {id(node): i for i, node in enumerate(body.instructions)}
    last: Dict[int, int] = {}
    for i, node in enumerate(body.instructions):
        for operand in node.operands:
            last[id(operand)] = i
    alive, most = 0, 0
    ends: Dict[int, int] = {}
    for i, node in enumerate(body.instructions):
        if _is_value(node) and node.opcode != 'parameter':
            alive += 1
            end = last.get(id(node), order[id(node)])
            ends[end] = ends.get(end, 0) + 1
        most = max(most, alive)
        alive -= ends.get(i, 0)
    return most


def _longest_chain(body: Computation) -> float:
    """The longest path of dependent operations, in instructions."""
    longest: Dict[int, float] = {}
    for node in body.instructions:
        before = max((longest[id(op)] for op in node.operands), default=0.0)
        own = 0.0 if node.opcode in _NOTHING else _OPERATIONS.get(node.opcode, 1.0)
        longest[id(node)] = before + own
    return max(longest.values())


def _turning(instruction: Instruction) -> float:
    """Instructions per register to turn the two fastest dimensions."""
    new, old = instruction.shape, instruction.operands[0].shape
    came_from = instruction.dimensions or range(len(new.dims))
    order = [came_from[d] for d in new.layout]
    if order[0] != old.layout[0]:
        return 12.0
    return 2.0 if len(order) > 1 and order[1] != old.layout[1] else 0.5
