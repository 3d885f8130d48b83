"""What a simulated kernel does per tile, read off its HLO graph, and its time.

The parameters of the entry are read from HBM, the results are written there,
and every instruction of the called fusions costs vector or matrix operations.
`Workload.runtime_ns` puts that through the formulas of `tpu`.
"""

from typing import Dict, List, Sequence, Tuple

import numpy as np

from baselines.simulated import tpu
from baselines.simulated.hlo import Computation, Instruction, Tensor
from baselines.simulated.tile import traffic
from baselines.simulated.tile.tiles import Space

_FREE = {
    'parameter',
    'constant',
    'tuple',
    'fusion',
    'bitcast',
    'reshape',
    'dot',
    'convolution',
}
_RELAYOUT = {'copy', 'transpose'}


class Workload:
    """Work of one kernel per tile.

    Args:
        computations: the HLO module, callees first, entry last.
        space: the axes that the kernel loops over.
    """

    def __init__(self, computations: Sequence[Computation], space: Space):
        self.space = space
        self.operands = [p.shape for p in computations[-1].parameters]
        self.results: List[Tensor] = []
        self.products: List[Instruction] = []
        self.reductions: List[Instruction] = []
        # Results of producer fusions stay in vector memory.
        self.produced: List[Tensor] = []
        self._slots: Dict[Tensor, float] = {}
        bodies = _bodies(computations[-1])
        for body in bodies:
            for instruction in body.instructions:
                self._add(instruction)
        root = bodies[0].root
        ends = root.operands if root.opcode == 'tuple' else (root,)
        self.results = [end.shape for end in ends]
        for view in (*self.operands, *self.results):
            self._work(view, 1.0)  # loads and stores

    def _work(self, view: Tensor, slots: float) -> None:
        # Views that differ in element type only take the same registers.
        key = view.typed('')
        self._slots[key] = self._slots.get(key, 0.0) + slots

    def _add(self, instruction: Instruction) -> None:
        opcode, shape = instruction.opcode, instruction.shape
        if opcode in ('convolution', 'dot'):
            self.products.append(instruction)
        elif opcode == 'fusion' and instruction.calls:
            self.produced.append(shape)
        elif opcode == 'reduce':
            self.reductions.append(instruction)
            self._work(instruction.operands[0].shape, 1.0)
        elif opcode == 'broadcast':
            self._work(shape, _broadcast_slots(instruction))
        elif opcode in _RELAYOUT:
            self._work(shape, _relayout_slots(instruction))
        elif opcode not in _FREE:
            # No bf16 arithmetic in the vector unit: unpack and pack.
            extra = 1.0 if shape.dtype == 'bf16' else 0.0
            self._work(shape, tpu.SLOTS.get(opcode, 1.0) + extra)

    def vector_memory(self, tiling: traffic.Tiling) -> Tuple[np.ndarray, np.ndarray]:
        """Returns bytes needed with one and with two buffers, float64 [c] each."""
        sums = [p.shape.typed('f32') for p in self.products]
        moved, kept = (
            sum(
                traffic.registers(t, tiling) * traffic.register_bytes(t)
                for t in tensors
            )
            for tensors in ((*self.operands, *self.results), (*self.produced, *sums))
        )
        return moved + kept, 2 * moved + kept

    def transfers_ns(self, tiling: traffic.Tiling, chip: tpu.Chip = tpu.TPU_V3):
        """Returns time and number of all HBM transfers: ns, count; [c] each."""
        total = np.zeros(len(tiling.tiles))
        count = np.zeros(len(tiling.tiles))
        for view in (*self.operands, *self.results):
            visits = tiling.visits(traffic.axes_of(view))
            total += visits * traffic.transfer_ns(view, tiling, chip)
            count += visits
        return total, count

    def vector_cycles(self, tiling: traffic.Tiling, chip: tpu.Chip = tpu.TPU_V3):
        """Returns the cycles of all vector operations, float64 [c]."""
        slots = np.zeros(len(tiling.tiles))
        for view, per_register in self._slots.items():
            if per_register and view.dims:
                visits = tiling.visits(traffic.axes_of(view))
                slots += visits * traffic.mean_registers(view, tiling) * per_register
        for reduce in self.reductions:
            slots += self._reduction_slots(reduce, tiling)
        if self.products:
            again = tiling.visits(self.space.contracted) > 1
            for product in self.products:
                # A sum in parts is loaded, added to and stored at every part.
                out = traffic.registers(product.shape, tiling)
                slots += np.where(again, 3.0 * tiling.trips * out, 0.0)
        return slots / chip.slots_per_cycle

    def _reduction_slots(self, reduce: Instruction, tiling: traffic.Tiling):
        source = reduce.operands[0].shape
        units = tpu.in_registers(traffic.physical(tiling.part(source), source))
        gone = [
            place for place, dim in enumerate(source.layout) if dim in reduce.dimensions
        ]
        units[:, gone] = 1
        left = units.prod(axis=1).astype(np.float64)
        per_register = 3.0  # the running result: load, combine, store
        per_register += tpu.LANE_SHUFFLE if 0 in gone else 0.0
        per_register += tpu.SUBLANE_SHUFFLE if 1 in gone else 0.0
        return tiling.visits(traffic.axes_of(source)) * left * per_register

    def matrix_cycles(self, tiling: traffic.Tiling, chip: tpu.Chip = tpu.TPU_V3):
        """Returns the cycles of all matrix products, float64 [c]."""
        cycles = np.zeros(len(tiling.tiles))
        for product in self.products:
            rows, depth, columns, repeats = product_sizes(product, tiling)
            once = tpu.matrix_cycles(rows, depth, columns, chip)
            cycles += tiling.trips * repeats * once
        return cycles

    def runtime_ns(self, tiles: np.ndarray, chip: tpu.Chip = tpu.TPU_V3):
        """Returns the simulated time of each tile, ns, float64 [c].

        Args:
            tiles: int64 [c, axes], elements.
            chip: the figures of the machine.
        """
        tiling = traffic.Tiling(self.space, tiles)
        _, twice = self.vector_memory(tiling)
        overlap = np.where(twice <= chip.vector_memory_bytes, chip.overlap, 0.0)
        transfers, count = self.transfers_ns(tiling, chip)
        cycles = np.maximum(
            self.vector_cycles(tiling, chip), self.matrix_cycles(tiling, chip)
        )
        computing = cycles / chip.clock_ghz
        busy = tpu.combined_ns(transfers, computing, tiling.trips, overlap)
        waiting = tiling.trips * chip.tile_ns + count * chip.dma_ns
        return chip.launch_ns + waiting + busy


def product_sizes(product: Instruction, tiling: traffic.Tiling) -> Tuple:
    """Returns rows, depth, columns and repeats of a product per tile, [c] each.

    The fastest dimension of the result lies along the columns of the matrix
    unit, all others stream through as rows.  The window of a convolution and
    the batch of a `dot` repeat the product.
    """
    out, kernel = product.shape, product.operands[1].shape
    part = traffic.physical(tiling.part(out), out)
    weights = tiling.part(kernel)
    if product.opcode == 'dot':  # [batch, rows, depth] x [batch, columns, depth]
        repeats, depth = part[:, 2:].prod(axis=1), weights[:, -1]
        others = part[:, 1]
    else:
        numbers = product.convolution
        repeats = weights[:, list(numbers.kernel_spatial)].prod(axis=1)
        depth = weights[:, numbers.kernel_input]
        others = part[:, 2:].prod(axis=1) * _round_up(part[:, 1], tpu.SUBLANES)
    return others, depth, part[:, 0], repeats


def _round_up(values: np.ndarray, multiple: int) -> np.ndarray:
    return -(-values // multiple) * multiple


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


def _relayout_slots(instruction: Instruction) -> float:
    """What a change of the two fastest dimensions costs per register."""
    new, old = instruction.shape, instruction.operands[0].shape
    came_from = instruction.dimensions or range(len(new.dims))
    order = [came_from[d] for d in new.layout]
    if order[0] != old.layout[0]:
        return 8.0
    return 3.0 if len(order) > 1 and order[1] != old.layout[1] else 1.0
