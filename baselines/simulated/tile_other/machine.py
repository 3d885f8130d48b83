"""The second simulator's machine and its rules for what a tile costs.

Nothing here is measured.  Of its rules only how a tile covers a tensor is the first
one's: every figure of the machine is drawn, and the other rules are others.
The machine works step by step, a tile at a time:

    T = launch + first load + sum over steps of max(load + store, compute)
        + steps * step_ns                        two buffers fit
    T = launch + sum over steps of load + compute + store
        + steps * step_ns                        one buffer fits

What a step loads depends on which loop ticked: the tensors that move with that
loop or with one inside it.  Operands below 1/64 of the vector memory are loaded
once, and results that look like such an operand stored once.  A transfer runs at
bandwidth * run / (run + burst), with run the bytes that are contiguous, and slower
where its rows are a multiple of the memory channels apart.  Whatever is cut off by
the edge of a tensor is not moved, but is computed in the two fastest dimensions,
whose registers are masked.

Vector code is unrolled along the fastest dimension: short rows wait for the
chain of dependent operations, long ones need more registers than there are and
spill.  Rows a multiple of the banks long conflict.  Unrolled code beyond the
instruction memory is fetched in every step.  A product keeps the operand in the
matrix unit that makes it faster; operands that lie the wrong way are turned;
narrow inputs of convolutions share a pass with other window positions.
"""

from typing import NamedTuple

import numpy as np


class Machine(NamedTuple):
    """Figures of one core; times in ns and cycles, sizes in bytes."""

    clock_ghz: float
    hbm_bytes_per_ns: float
    burst_bytes: float
    channel_registers: int
    channel_share: float
    dma_ns: float
    vector_memory_bytes: int
    matrix_units: int
    matrix_side: int
    passes_f32: float
    slots_per_cycle: float
    registers: int
    unroll: int
    latency_cycles: float
    banks: int
    bank_factor: float
    code_limit: int
    code_cycles: float
    lane_cycles: float
    sublane_cycles: float
    step_ns: float
    launch_ns: float
    noise: float


def draw_machine(seed: int) -> Machine:
    """Returns the machine of a collection; another seed is another machine."""
    rng = np.random.default_rng([seed, 7051])

    def near(value: float, factor: float) -> float:
        return float(value * factor ** rng.uniform(-1, 1))

    def pick(*values):
        return values[int(rng.integers(len(values)))]

    return Machine(
        clock_ghz=near(1.05, 1.3),
        hbm_bytes_per_ns=near(600, 1.6),
        burst_bytes=near(4096, 2.0),
        channel_registers=pick(16, 32),
        channel_share=near(0.65, 1.2),
        dma_ns=near(120, 1.6),
        vector_memory_bytes=pick(8, 16, 32) * 2**20,
        matrix_units=pick(1, 2, 4),
        matrix_side=128,
        passes_f32=pick(2.0, 3.0),
        slots_per_cycle=pick(2.0, 4.0),
        registers=pick(32, 64),
        unroll=pick(8, 16),
        latency_cycles=near(5, 1.4),
        banks=pick(8, 16),
        bank_factor=near(1.6, 1.2),
        code_limit=pick(512, 1024),
        code_cycles=near(0.4, 1.5),
        lane_cycles=near(18, 1.4),
        sublane_cycles=near(7, 1.4),
        step_ns=near(90, 1.6),
        launch_ns=near(1500, 1.4),
        noise=0.004,
    )
