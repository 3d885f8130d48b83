"""What a kernel of the second simulator does per tile, and how long it takes."""

import math
from typing import Dict, Sequence, Tuple

import numpy as np

from baselines.simulated import tpu
from baselines.simulated.hlo import Computation, Instruction, Tensor
from baselines.simulated.tile import workload
from baselines.simulated.tile.tiles import Space, Tiling
from baselines.simulated.tile_other.machine import Machine

# Instructions per register; 1 for what is not here.
_OPERATIONS = {
    'divide': 9.0, 'sqrt': 4.0, 'rsqrt': 4.0, 'exponential': 5.0, 'tanh': 12.0,
    'log': 7.0, 'logistic': 9.0, 'power': 16.0, 'convert': 1.5, 'reverse': 3.0,
    'concatenate': 1.5, 'pad': 1.5, 'select': 1.0, 'reduce-window': 4.0,
}  # fmt: skip
_NOTHING = {*workload.FREE, 'iota'}
_RESIDENT = 1 / 64  # of the vector memory


class Job(workload.Work):
    """One kernel on one machine, which is an attribute."""

    def __init__(
        self, computations: Sequence[Computation], space: Space, machine: Machine
    ):
        self._code = 0
        super().__init__(computations, space)
        self.machine = machine
        self._live = max(_most_alive(body) for body in self.bodies)
        self._depth = max(_longest_chain(body) for body in self.bodies)
        self._loops = self._loop_order()

    def _slots_of(self, instruction: Instruction) -> float:
        opcode, shape = instruction.opcode, instruction.shape
        if opcode == 'broadcast':
            given = instruction.dimensions
            across = bool(given) and shape.layout[0] not in given
            return 3.0 if across else 0.25 * bool(given)
        if opcode in ('transpose', 'copy'):
            return workload.relayout_slots(instruction, (12.0, 2.0, 0.5))
        if opcode in _NOTHING:
            return 0.0
        return _OPERATIONS.get(opcode, 1.0) * (1.5 if shape.dtype == 'bf16' else 1.0)

    def _add(self, view: Tensor, slots: float) -> None:
        if view.dims and slots:
            super()._add(view, slots)
            self._code += 1

    def _loop_order(self) -> Tuple[int, ...]:
        """Axes, outermost first: slowest dimensions outside, sums of products
        inside; of a product, the axes of its larger operand outside."""
        inner = set(self.space.contracted)
        order = [axis for axis, _ in self.space.output_bounds if axis not in inner]
        if self.products:
            left, right = (op.shape for op in self.products[-1].operands)
            size = [math.prod(t.dims) * tpu.BYTES[t.dtype] for t in (left, right)]
            larger = (right if size[1] > size[0] else left).moving
            shared = {*left.moving} & {*right.moving}
            order.sort(key=lambda axis: (axis not in shared, axis not in larger))
        return (*order, *self.space.contracted)

    def runtime_ns(self, tiles: np.ndarray) -> np.ndarray:
        """Returns the time of each tile [c, axes], ns, float64 [c]."""
        machine = self.machine
        tiling = Tiling(self.space, tiles)
        trips = tiling.trips_per_axis
        running = np.cumprod(trips[:, self._loops], axis=1).astype(np.float64)
        steps = running[:, -1]
        loads = [(v, self._moved_ns(v, tiling)) for v in self.operands]
        stores = [(v, self._moved_ns(v, tiling)) for v in self.results]
        compute = self._compute_ns(tiling)
        fits_twice = self.vector_memory(tiles)[1] <= machine.vector_memory_bytes
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
                stored = ns * (1 + self._returns(view, trips))
                moving += np.where(self._moves(view, level, trips), stored, 0.0)
            total += count * np.where(
                fits_twice, np.maximum(moving, compute), moving + compute
            )
        return machine.launch_ns + total + steps * machine.step_ns

    def _stays(self, view: Tensor) -> bool:
        return tpu.stored_bytes(view) <= _RESIDENT * self.machine.vector_memory_bytes

    def _moves(self, view: Tensor, level: int, trips: np.ndarray) -> np.ndarray:
        """Whether a tick of loop `level` changes the tensor's tile, bool [c]."""
        if self._stays(view) and view in self.operands:
            return np.zeros(len(trips), bool)
        inside = [a for a in self._loops[level:] if a in view.moving]
        return (trips[:, inside] > 1).any(axis=1)

    def _returns(self, view: Tensor, trips: np.ndarray) -> np.ndarray:
        """Whether tiles of a result are visited more than once, bool [c]."""
        outside, back = np.zeros(len(trips), bool), np.zeros(len(trips), bool)
        for axis in self._loops:
            several = trips[:, axis] > 1
            if axis in view.moving:
                back |= several & outside
            else:
                outside |= several
        return back

    def _moved_ns(self, view: Tensor, tiling: Tiling) -> np.ndarray:
        """Time to move one tile of a tensor, on average over the tiles, [c]."""
        machine = self.machine
        if self._stays(view) and view in self.operands:
            moved = np.full(len(tiling.tiles), tpu.stored_bytes(view))
            return machine.dma_ns + moved / machine.hbm_bytes_per_ns
        run = tiling.bytes(view) / tiling.contiguous_runs(view)
        rate = machine.hbm_bytes_per_ns * run / (run + machine.burst_bytes)
        units, whole = tiling.units(view), tpu.whole_units(view)
        if len(whole) > 1:
            apart = whole[0] % machine.channel_registers == 0
            strided = (units[:, 0] < whole[0]) & (units[:, 1] > 1) & apart
            rate *= np.where(strided, machine.channel_share, 1.0)
        moved = tiling.mean_bytes(view)
        return machine.dma_ns + moved / rate

    def _compute_ns(self, tiling: Tiling) -> np.ndarray:
        vector = self._vector_cycles(tiling)
        matrix = np.zeros(len(tiling.tiles))
        for product in self.products:
            cycles, pops = self._product_cycles(product, tiling)
            matrix += cycles
            vector += pops / self.machine.slots_per_cycle
        busy = np.maximum(vector, matrix) + 0.3 * np.minimum(vector, matrix)
        return busy / self.machine.clock_ghz

    def _vector_cycles(self, tiling: Tiling) -> np.ndarray:
        machine = self.machine

        def computed(view):
            """Registers per step: masked in the two fastest dimensions."""
            return tiling.mean_registers(view, first=2)

        slots = np.zeros(len(tiling.tiles))
        for view, operations in self.slots.items():
            slots += computed(view) * operations
        for view in (*self.operands, *self.results):
            units = tiling.units(view)
            factor = np.ones(len(units))
            if units.shape[1] > 1:
                clash = (units[:, 0] % machine.banks == 0) & (units[:, 1] > 1)
                factor = np.where(clash, machine.bank_factor, 1.0)
            slots += computed(view) * factor
        main = max(
            self.slots, default=self.results[0], key=lambda view: math.prod(view.dims)
        )
        row = np.minimum(tiling.units(main)[:, 0], machine.unroll)
        if self._live:
            spilled = np.maximum(self._live - machine.registers / row, 0.0)
            slots += 2.0 * spilled * computed(main)
        cycles = slots / machine.slots_per_cycle
        chain = computed(main) / row * self._depth * machine.latency_cycles
        code = np.maximum(self._code * row - machine.code_limit, 0.0)
        costs = 2.0, machine.lane_cycles, machine.sublane_cycles
        sums = sum(self._combining(each, tiling, *costs) for each in self.reductions)
        return np.maximum(cycles, chain) + code * machine.code_cycles + sums

    def _product_cycles(self, product: Instruction, tiling: Tiling):
        """Cycles of the matrix units, and operations to add up, per step."""
        machine = self.machine
        side = machine.matrix_side
        left, right = (op.shape for op in product.operands)
        rows, depth, columns, repeats = workload.product_sizes(product, tiling)
        is_dot, one = product.opcode == 'dot', np.ones(len(rows))
        batch, window = (repeats, one) if is_dot else (one, repeats)
        summed = self.space.contracted[-1]
        left_turned = left.axes[left.layout[0]].axis != summed
        right_turned = right.axes[right.layout[0]].axis == summed
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
        registers = np.ceil(rows / tpu.SUBLANES) * np.ceil(columns / tpu.LANES)
        pops = batch * registers * positions * deep * precision + shifts
        return batch * positions * precision * once, pops


def _most_alive(body: Computation) -> int:
    """The most arrays that wait for their last use at any one time."""
    last: Dict[int, int] = {}
    for i, node in enumerate(body.instructions):
        last.update((id(used), i) for used in (node, *node.operands))
    values = {
        id(node)
        for node in body.instructions
        if node.shape.dims and node.opcode not in ('tuple', 'parameter')
    }
    alive, most = 0, 0
    for i, node in enumerate(body.instructions):
        alive += id(node) in values
        most = max(most, alive)
        alive -= sum(last[value] == i for value in values)
    return most


def _longest_chain(body: Computation) -> float:
    """The longest path of dependent operations, in instructions."""
    longest: Dict[int, float] = {}
    for node in body.instructions:
        before = max((longest[id(op)] for op in node.operands), default=0.0)
        own = 0.0 if node.opcode in _NOTHING else _OPERATIONS.get(node.opcode, 1.0)
        longest[id(node)] = before + own
    return max(longest.values())
