"""The second simulator's rules, against numbers worked out by hand."""

import numpy as np
import pytest

from baselines.simulated.hlo import Fusion, tensor
from baselines.simulated.tile.tiles import space_of
from baselines.simulated.tile_other import machine
from baselines.simulated.tile_other import work

# Round numbers; what is not looked at is switched off.
PLAIN = machine.Machine(
    clock_ghz=1.0,
    hbm_bytes_per_ns=1024.0,
    burst_bytes=0.0,
    channel_registers=1000,
    channel_share=1.0,
    dma_ns=100.0,
    vector_memory_bytes=2**18,
    matrix_units=1,
    matrix_side=128,
    passes_f32=1.0,
    slots_per_cycle=1.0,
    registers=1000,
    unroll=1,
    latency_cycles=0.0,
    banks=1000,
    bank_factor=1.0,
    code_limit=1000,
    code_cycles=0.0,
    lane_cycles=0.0,
    sublane_cycles=0.0,
    step_ns=10.0,
    launch_ns=1000.0,
    noise=0.0,
)


def sum_of_two(**changes) -> float:
    """Time of z = x + y, f32 [16, 128], in two tiles of one register."""
    shape = tensor('f32', (16, 128))
    fusion = Fusion()
    _ = fusion.parameter(shape) + fusion.parameter(shape)
    job = work.Job(fusion.finish(), space_of(shape), PLAIN._replace(**changes))
    return job.runtime_ns(np.array([[8, 128]]))[0]


# A register of f32 is 4,096 bytes: 100 + 4 ns.  A step adds once, loads twice and
# stores once: 4 cycles.
MOVE, COMPUTE = 104.0, 4.0


def test_two_buffers_overlap():
    # Launch, the first load, two steps; loads and stores hide the computation
    # but for the first one.
    expected = 1000 + 2 * MOVE + COMPUTE + MOVE + 3 * MOVE + 2 * 10
    assert sum_of_two() == pytest.approx(expected)


def test_one_buffer_takes_turns():
    # 3 registers fit into 16 KiB once, not twice.
    expected = 1000 + 2 * (3 * MOVE + COMPUTE) + 2 * 10
    assert sum_of_two(vector_memory_bytes=2**14) == pytest.approx(expected)


def test_small_operands_are_loaded_once():
    # 8 KiB are below 1/64 of 1 MiB: all of x and y at once, 100 + 8 ns each, and
    # z, which looks like them, is stored at once.
    expected = 1000 + 2 * 108 + COMPUTE + 108 + COMPUTE + 2 * 10
    assert sum_of_two(vector_memory_bytes=2**20) == pytest.approx(expected)


def test_short_pieces_move_slowly():
    # Pieces of 4,096 bytes at 4096 / (4096 + 4096) of the bandwidth.
    slow = 100 + 8
    expected = 1000 + 2 * slow + COMPUTE + slow + 3 * slow + 2 * 10
    assert sum_of_two(burst_bytes=4096.0) == pytest.approx(expected)


def test_a_chain_of_operations_waits():
    # One addition of 200 cycles each; a step then takes longer than its loads.
    expected = 1000 + 2 * MOVE + 400 + MOVE + 400 + 2 * 10
    assert sum_of_two(latency_cycles=400.0) == pytest.approx(expected)
