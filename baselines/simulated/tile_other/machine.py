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

import collections

import numpy as np

# Figures of one core, in ns, cycles and bytes: (about, up to so many times more or
# less), [one of], or what they are.
_FIGURES = {
    'clock_ghz': (1.05, 1.3),
    'hbm_bytes_per_ns': (600, 1.6),
    'burst_bytes': (4096, 2.0),
    'channel_registers': [16, 32],
    'channel_share': (0.65, 1.2),
    'dma_ns': (120, 1.6),
    'vector_memory_bytes': [8 << 20, 16 << 20, 32 << 20],
    'matrix_units': [1, 2, 4],
    'matrix_side': 128,
    'passes_f32': [2.0, 3.0],
    'slots_per_cycle': [2.0, 4.0],
    'registers': [32, 64],
    'unroll': [8, 16],
    'latency_cycles': (5, 1.4),
    'banks': [8, 16],
    'bank_factor': (1.6, 1.2),
    'code_limit': [512, 1024],
    'code_cycles': (0.4, 1.5),
    'lane_cycles': (18, 1.4),
    'sublane_cycles': (7, 1.4),
    'step_ns': (90, 1.6),
    'launch_ns': (1500, 1.4),
    'noise': 0.004,
}

Machine = collections.namedtuple('Machine', _FIGURES)


def draw_machine(seed: int) -> Machine:
    """Returns the machine of a collection; another seed is another machine."""
    rng = np.random.default_rng([seed, 7051])

    def drawn(figure):
        if isinstance(figure, list):
            return figure[int(rng.integers(len(figure)))]
        if isinstance(figure, tuple):
            about, factor = figure
            return float(about * factor ** rng.uniform(-1, 1))
        return figure

    return Machine(**{name: drawn(figure) for name, figure in _FIGURES.items()})
