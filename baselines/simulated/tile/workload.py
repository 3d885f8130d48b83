"""What a simulated kernel does per tile, read off its HLO graph, and its time.

The parameters of the entry are read from HBM, the results are written there,
and every instruction of the called fusions costs vector or matrix operations.
`Workload.runtime_ns` puts that through the formulas of `tpu`.
"""

from typing import Dict, List, Sequence, Tuple

import numpy as np

from baselines.simulated import tpu
from baselines.simulated.hlo import Computation, Instruction, Tensor
from baselines.simulated.tile.tiles import Space, Tiling

# Instructions that take no time, or are no work of the vector unit.
FREE = frozenset(
    'parameter constant tuple fusion bitcast reshape dot convolution'.split()
)


class Work:
    """What a kernel's module reads, writes and computes, by shapes.

    Args:
        computations: the HLO module, callees first, entry last.
        space: what it loops over.

    Attributes:
        space: as given.
        operands: what is read from HBM.
        results: what is written there.
        kept: what stays in vector memory: results of producer fusions, and the
            sums of products.
        products: convolutions and dots.
        reductions: instructions.
        slots: vector operations per register, by shape without element type:
            views that differ in that alone take the same registers.
    """

    def __init__(self, computations: Sequence[Computation], space: Space):
        self.space = space
        self.operands = [p.shape for p in computations[-1].parameters]
        self.bodies = _bodies(computations[-1])
        root = self.bodies[0].root
        ends = root.operands if root.opcode == 'tuple' else (root,)
        self.results = [end.shape for end in ends]
        self.kept: List[Tensor] = []
        self.products: List[Instruction] = []
        self.reductions: List[Instruction] = []
        self.slots: Dict[Tensor, float] = {}
        for body in self.bodies:
            for instruction in body.instructions:
                self._count(instruction)

    def _count(self, instruction: Instruction) -> None:
        opcode, shape = instruction.opcode, instruction.shape
        if opcode in ('convolution', 'dot'):
            self.products.append(instruction)
            self.kept.append(shape.typed('f32'))
        elif opcode == 'fusion' and instruction.calls:
            self.kept.append(shape)
        elif opcode == 'reduce':
            self.reductions.append(instruction)
            self._add(instruction.operands[0].shape, 1.0)
        elif opcode not in FREE:
            self._add(shape, self._slots_of(instruction))

    def _add(self, view: Tensor, slots: float) -> None:
        key = view.typed('')
        self.slots[key] = self.slots.get(key, 0.0) + slots

    def _slots_of(self, instruction: Instruction) -> float:
        """Vector operations per register of an instruction's result."""
        raise NotImplementedError

    def _stays(self, view: Tensor) -> bool:
        """Whether an operand or result is in vector memory as a whole, all the time."""
        return False

    def vector_memory(self, tiles: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """Returns bytes needed with one and with two buffers, float64 [c] each."""
        tiling = Tiling(self.space, tiles)
        moved, fixed = np.zeros(len(tiles)), np.zeros(len(tiles))
        for view in (*self.operands, *self.results):
            if self._stays(view):
                fixed += tpu.stored_bytes(view)
            else:
                moved += tiling.bytes(view)
        for view in self.kept:
            fixed += tiling.bytes(view)
        return moved + fixed, 2 * moved + fixed

    def _combining(
        self, reduce: Instruction, tiling: Tiling, *costs: float
    ) -> np.ndarray:
        """What combining the registers of a reduction's tile costs, float64 [c].

        Args:
            reduce: the instruction.
            tiling: of the kernel.
            *costs: of each register that is left, and more where the fastest, and
                the second fastest dimension is reduced.
        """
        source, (each, across_lanes, across_sublanes) = reduce.operands[0].shape, costs
        units = tiling.units(source)
        gone = [p for p, d in enumerate(source.layout) if d in reduce.dimensions]
        units[:, gone] = 1
        each += across_lanes * (0 in gone)
        each += across_sublanes * (1 in gone)
        return units.prod(axis=1).astype(np.float64) * each


class Workload(Work):
    """Work of one kernel per tile."""

    def __init__(self, computations: Sequence[Computation], space: Space):
        super().__init__(computations, space)
        for view in (*self.operands, *self.results):
            self._add(view, 1.0)  # loads and stores

    def _slots_of(self, instruction: Instruction) -> float:
        opcode = instruction.opcode
        if opcode == 'broadcast':
            return _broadcast_slots(instruction)
        if opcode in ('copy', 'transpose'):
            return relayout_slots(instruction, (8.0, 3.0, 1.0))
        # No bf16 arithmetic in the vector unit: unpack and pack.
        extra = 1.0 if instruction.shape.dtype == 'bf16' else 0.0
        return tpu.SLOTS.get(opcode, 1.0) + extra

    def transfers_ns(self, tiling: Tiling, chip: tpu.Chip = tpu.TPU_V3):
        """Returns time and number of all HBM transfers: ns, count; [c] each."""
        total = np.zeros(len(tiling.tiles))
        count = np.zeros(len(tiling.tiles))
        for view in (*self.operands, *self.results):
            visits = tiling.visits(view.moving)
            once = tiling.mean_bytes(view) / chip.hbm_bytes_per_ns
            once += tiling.contiguous_runs(view) * chip.run_ns
            total += visits * once
            count += visits
        return total, count

    def vector_cycles(self, tiling: Tiling, chip: tpu.Chip = tpu.TPU_V3):
        """Returns the cycles of all vector operations, float64 [c]."""
        slots = np.zeros(len(tiling.tiles))
        for view, per_register in self.slots.items():
            if per_register and view.dims:
                visits = tiling.visits(view.moving)
                slots += visits * tiling.mean_registers(view) * per_register
        for reduce in self.reductions:
            visits = tiling.visits(reduce.operands[0].shape.moving)
            # The running result: load, combine, store.
            shuffles = tpu.LANE_SHUFFLE, tpu.SUBLANE_SHUFFLE
            slots += visits * self._combining(reduce, tiling, 3.0, *shuffles)
        if self.products:
            again = tiling.visits(self.space.contracted) > 1
            for product in self.products:
                # A sum in parts is loaded, added to and stored at every part.
                out = tiling.registers(product.shape)
                slots += np.where(again, 3.0 * tiling.trips * out, 0.0)
        return slots / chip.slots_per_cycle

    def matrix_cycles(self, tiling: Tiling, chip: tpu.Chip = tpu.TPU_V3):
        """Returns the cycles of all matrix products, float64 [c]."""
        cycles = np.zeros(len(tiling.tiles))
        for product in self.products:
            rows, depth, columns, repeats = product_sizes(product, tiling)
            once = tpu.matrix_cycles(rows, depth, columns, chip)
            cycles += tiling.trips * repeats * once
        return cycles

    def runtime_ns(self, tiles: np.ndarray, chip: tpu.Chip = tpu.TPU_V3):
        """Returns the simulated time of each tile [c, axes], ns, float64 [c]."""
        tiling = Tiling(self.space, tiles)
        _, twice = self.vector_memory(tiles)
        overlap = np.where(twice <= chip.vector_memory_bytes, chip.overlap, 0.0)
        transfers, count = self.transfers_ns(tiling, chip)
        cycles = np.maximum(
            self.vector_cycles(tiling, chip), self.matrix_cycles(tiling, chip)
        )
        computing = cycles / chip.clock_ghz
        busy = tpu.combined_ns(transfers, computing, tiling.trips, overlap)
        waiting = tiling.trips * chip.tile_ns + count * chip.dma_ns
        return chip.launch_ns + waiting + busy


def product_sizes(product: Instruction, tiling: Tiling) -> Tuple:
    """Returns rows, depth, columns and repeats of a product per tile, [c] each.

    The fastest dimension of the result lies along the columns of the matrix
    unit, all others stream through as rows.  The window of a convolution and
    the batch of a `dot` repeat the product.
    """
    out, kernel = product.shape, product.operands[1].shape
    part = tiling.physical(out)
    weights = tiling.part(kernel)
    if product.opcode == 'dot':  # [batch, rows, depth] x [batch, columns, depth]
        repeats, depth = part[:, 2:].prod(axis=1), weights[:, -1]
        others = part[:, 1]
    else:
        numbers = product.convolution
        repeats = weights[:, list(numbers.kernel_spatial_dimensions)].prod(axis=1)
        depth = weights[:, numbers.kernel_input_feature_dimension]
        sublanes = -(-part[:, 1] // tpu.SUBLANES) * tpu.SUBLANES
        others = part[:, 2:].prod(axis=1) * sublanes
    return others, depth, part[:, 0], repeats


def _bodies(entry: Computation) -> List[Computation]:
    """Returns what the entry's fusion runs, its own body first."""
    if entry.root.opcode != 'fusion':
        return [entry]
    found = list(entry.root.calls)
    for body in found:  # grows while producers are found
        for instruction in body.instructions:
            if instruction.opcode == 'fusion':
                found += instruction.calls
    return found


def _broadcast_slots(broadcast: Instruction) -> float:
    """Scalars are free; copies along lanes cost more than along sublanes."""
    given, layout = set(broadcast.dimensions), broadcast.shape.layout
    if not given:
        return 0.0
    if layout[0] not in given:
        return 2.0
    return 0.5 if len(layout) > 1 and layout[1] not in given else 0.0


def relayout_slots(
    instruction: Instruction, costs: Tuple[float, float, float]
) -> float:
    """Picks what a change of layout costs per register.

    Args:
        instruction: a copy or transpose.
        costs: where the fastest dimension changes, the second alone, neither.
    """
    new, old = instruction.shape, instruction.operands[0].shape
    came_from = instruction.dimensions or range(len(new.dims))
    order = [came_from[d] for d in new.layout]
    if order[0] != old.layout[0]:
        return costs[0]
    return costs[1] if len(order) > 1 and order[1] != old.layout[1] else costs[2]
