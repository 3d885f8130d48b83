"""The second simulator's kernels; folders of them look like the first one's."""

import dataclasses
from typing import ClassVar, Tuple

import numpy as np

from baselines.simulated import folders
from baselines.simulated.tile import dataset
from baselines.simulated.tile.kernels import Draft, Kernel, pick
from baselines.simulated.tile_other import kernels
from baselines.simulated.tile_other import machine
from baselines.simulated.tile_other import programs
from baselines.simulated.tile_other.work import Job


@dataclasses.dataclass(frozen=True)
class Kernels(dataset.Kernels):
    """As those of the first simulator; here the seed draws the machine, too."""

    train: int = 600
    valid: int = 100
    test: int = 100

    collection: ClassVar[str] = 'tile_other'
    version: ClassVar[int] = 1
    default_root: ClassVar[str] = '~/data/tpugraphs/sample_other/npz/tile/xla'
    about: ClassVar[str] = (
        'Kernels are random fusions over the shapes of drawn programs (names begin\n'
        'with sim_other_), and every runtime comes from a drawn machine that works\n'
        'tile by tile, plus 0.4 % noise.'
    )
    mark: ClassVar[Tuple[str, ...]] = ('other',)
    salt: ClassVar[Tuple[int, ...]] = (4513,)

    def program(self, split: str, index: int) -> programs.Program:
        """Returns the program of a kernel."""
        return programs.program(split, index, self.seed)

    def draw_kernel(
        self, program: programs.Program, rng: np.random.Generator
    ) -> Kernel:
        """Draws a kernel of `program`."""
        nodes = min(3 + int(rng.gamma(2.0, 9.0)), 70)
        kind = kernels.KINDS[pick(rng, program.kinds)]
        return kind(Draft(program, rng), nodes)

    def work(self, kernel: Kernel) -> Job:
        """Returns what the machine does for a kernel."""
        figures = machine.draw_machine(self.seed)
        return Job(kernel.computations, kernel.space, figures)

    def draw_tiles(self, work: Job, rng: np.random.Generator) -> np.ndarray:
        """Draws distinct tiles that fit once, in random order: int64 [c, axes].

        Along an axis a tile is a power of two, a part of the whole, or any size.
        """
        drawn = self.configs_mean * rng.lognormal(-0.5, 1.0)
        wanted = int(np.clip(drawn, dataset.MIN_CONFIGS, 5 * self.configs_mean))
        draws = max(6 * wanted, 400)
        columns = []
        for axis, (size, step) in enumerate(zip(work.space.sizes, work.space.steps)):
            most = -(-size // step)
            if axis in work.space.whole or most == 1:
                columns.append(np.full(draws, size))
                continue
            power = 2 ** rng.integers(0, most.bit_length(), draws)
            part = -(-most // rng.integers(1, min(most, 12) + 1, draws))
            free = np.floor(np.exp(rng.uniform(0, np.log(most + 1), draws)))
            way = rng.random(draws)
            count = np.where(way < 0.45, power, np.where(way < 0.85, part, free))
            columns.append(np.minimum(np.clip(count, 1, most).astype(int) * step, size))
        tiles = np.unique(np.stack(columns, axis=1).astype(np.int64), axis=0)
        memory = work.machine.vector_memory_bytes
        tiles = tiles[work.vector_memory(tiles)[0] <= memory]
        trips = -(-np.array(work.space.sizes) // tiles)
        tiles = tiles[trips.prod(axis=1) <= 100_000]
        return tiles[rng.permutation(len(tiles))[:wanted]]

    def measure(
        self, work: Job, chosen: np.ndarray, rng: np.random.Generator
    ) -> Tuple[np.ndarray, int]:
        """Returns noisy runtimes, int64 [c] ns, and the default: the largest tile that
        fits twice."""
        exact = work.runtime_ns(chosen)
        noise = np.exp(work.machine.noise * folders.noise(rng, len(chosen)))
        runtimes = np.maximum(np.rint(exact * noise), 2).astype(np.int64)
        twice = work.vector_memory(chosen)[1]
        fits = twice <= work.machine.vector_memory_bytes
        return runtimes, int(np.argmax(np.where(fits, twice, -twice)))
