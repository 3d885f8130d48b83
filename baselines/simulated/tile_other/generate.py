"""One kernel of the second simulator; as `tile.generate`, with other rules."""

from typing import Tuple

import numpy as np

from baselines.data.tile import records
from baselines.simulated.tile import generate
from baselines.simulated.tile.kernels import pick
from baselines.simulated.tile_other import kernels
from baselines.simulated.tile_other import machine as machine_lib
from baselines.simulated.tile_other import programs
from baselines.simulated.tile_other import work

# Raise it whenever the same parameters give other arrays.
GENERATOR_VERSION = 1

_MIN_CONFIGS = 10


def generate_kernel(
    split: str, index: int, *, seed: int = 0, configs_mean: float = 577.0
) -> records.TileRecord:
    """Returns one simulated kernel; its machine and programs come from the seed.

    Arguments as in `tile.generate.generate_kernel`.
    """
    program = programs.program(split, index, seed)
    machine = machine_lib.draw_machine(seed)
    rng = np.random.default_rng([seed, 4513, programs.SPLITS.index(split), index])
    while True:
        nodes = min(3 + int(rng.gamma(2.0, 9.0)), 70)
        kind = kernels.KINDS[pick(rng, program.kinds)]
        kernel = kind(kernels.Draft(program, rng), nodes)
        job = work.Job(kernel.computations, kernel.space, machine)
        drawn = configs_mean * rng.lognormal(-0.5, 1.0)
        wanted = int(np.clip(drawn, _MIN_CONFIGS, 5 * configs_mean))
        chosen = _draw_tiles(kernel, job, machine, rng, wanted)
        if len(chosen) >= _MIN_CONFIGS:
            break
    runtimes, default = _measure(job, machine, chosen, rng)
    origin = 'other', seed, split, index
    return generate.record_of(program.name, origin, kernel, chosen, runtimes, default)


def _draw_tiles(kernel, job, machine, rng, wanted: int) -> np.ndarray:
    """Distinct tiles that fit once, in random order: int64 [c, axes], elements.

    Along an axis a tile is a power of two, a part of the whole, or any size.
    """
    sizes, steps = kernel.space.sizes, kernel.space.steps
    draws = max(6 * wanted, 400)
    columns = []
    for axis, (size, step) in enumerate(zip(sizes, steps)):
        most = -(-size // step)
        if axis in kernel.whole or most == 1:
            columns.append(np.full(draws, size))
            continue
        power = 2 ** rng.integers(0, most.bit_length(), draws)
        part = -(-most // rng.integers(1, min(most, 12) + 1, draws))
        free = np.floor(np.exp(rng.uniform(0, np.log(most + 1), draws)))
        way = rng.random(draws)
        count = np.where(way < 0.45, power, np.where(way < 0.85, part, free))
        columns.append(np.minimum(np.clip(count, 1, most).astype(int) * step, size))
    tiles = np.unique(np.stack(columns, axis=1).astype(np.int64), axis=0)
    tiles = tiles[job.vector_memory(tiles)[0] <= machine.vector_memory_bytes]
    trips = (-(-np.array(sizes) // np.maximum(tiles, 1))).prod(axis=1)
    tiles = tiles[trips <= 100_000] if len(tiles) else tiles
    return tiles[rng.permutation(len(tiles))[:wanted]]


def _measure(job, machine, tiles, rng) -> Tuple[np.ndarray, int]:
    """Noisy runtimes, int64 [c] ns, and the default: the largest that fits twice."""
    exact = job.runtime_ns(tiles)
    noise = np.exp(machine.noise * np.clip(rng.standard_normal(len(tiles)), -3, 3))
    runtimes = np.maximum(np.rint(exact * noise), 2).astype(np.int64)
    twice = job.vector_memory(tiles)[1]
    fitting = np.where(twice <= machine.vector_memory_bytes, twice, -twice)
    return runtimes, int(np.argmax(fitting))
