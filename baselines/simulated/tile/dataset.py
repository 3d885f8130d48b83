"""Simulated kernels, and folders of them in the published layout."""

import dataclasses
import hashlib
from typing import ClassVar, Iterator, NamedTuple, Sequence, Tuple

import numpy as np

from baselines import files
from baselines.data.collections import SPLITS
from baselines.data.tile import records
from baselines.hlo import protos
from baselines.simulated import folders
from baselines.simulated import raw
from baselines.simulated import tpu
from baselines.simulated.hlo import Computation
from baselines.simulated.tile import kernels
from baselines.simulated.tile import products
from baselines.simulated.tile import programs
from baselines.simulated.tile import tiles
from baselines.simulated.tile.workload import Work
from baselines.simulated.tile.workload import Workload

MIN_CONFIGS = 10

# Relative standard deviation of the simulated measurement.
_NOISE = 0.01
_MAX_CONFIGS_PER_MEAN = 3.46
# What a compiler without measurements would assume: perfect overlap, no
# overheads of transfers.  It picks the configuration that normalises.
_HEURISTIC = tpu.TPU_V3._replace(tile_ns=200.0, dma_ns=0.0, run_ns=0.0, overlap=1.0)


class Simulated(NamedTuple):
    """One kernel."""

    record: records.TileRecord  # what its npz file holds
    computations: Sequence[Computation]  # its HLO, callees before callers
    default: int  # the configuration that the compiler's heuristic would take


@dataclasses.dataclass(frozen=True)
class Kernels(folders.Dataset):
    """`<root>/{train,valid,test}/<program>_<hash>.npz`.

    All randomness of a kernel derives from (seed, split, index), so that a kernel
    does not depend on how many others are made.
    """

    train: int = 1400
    valid: int = 200
    test: int = 200
    configs_mean: float = 577.0  # configurations per kernel, about, on average

    collection: ClassVar[str] = 'tile'
    version: ClassVar[int] = 1
    default_root: ClassVar[str] = '~/data/tpugraphs/sample/npz/tile/xla'
    about: ClassVar[str] = (
        'Kernels are random fusions over the shapes of invented programs (names begin\n'
        'with sim_), and every runtime comes from an analytical model of a TPU v3\n'
        'core plus 1 % noise.'
    )
    document: ClassVar[str] = 'docs/simulated-data.md'
    noun: ClassVar[str] = 'kernels'
    # What keeps one simulator's ids and random numbers apart from another's.
    mark: ClassVar[Tuple[str, ...]] = ()
    salt: ClassVar[Tuple[int, ...]] = ()

    def __post_init__(self):
        super().__post_init__()
        if not 20 <= self.configs_mean <= 20000:
            raise ValueError(
                f'configs_mean is {self.configs_mean:g}: use a number from 20 to 20000'
            )

    def kernel(self, split: str, index: int) -> Simulated:
        """Makes one kernel.

        Its id is `<program>_<16 hex digits>`, runtimes are in simulated nanoseconds,
        the normaliser is the runtime of the default configuration.

        Args:
            split: 'train', 'valid' or 'test'; decides which programs are possible.
            index: which kernel of the split; programs take turns.
        """
        program = self.program(split, index)
        place = SPLITS.index(split), index
        rng = np.random.default_rng([self.seed, *self.salt, *place])
        while True:
            kernel = self.draw_kernel(program, rng)
            work = self.work(kernel)
            chosen = self.draw_tiles(work, rng)
            if len(chosen) >= MIN_CONFIGS:
                break
        runtimes, default = self.measure(work, chosen, rng)
        arrays = raw.graph_arrays(kernel.computations)
        arrays['config_feat'] = tiles.config_features(kernel.space, chosen)
        origin = (*self.mark, self.seed, split, index)
        digest = hashlib.sha256(repr(origin).encode())
        for array in arrays.values():
            digest.update(array.tobytes())
        record = records.TileRecord(
            graph_id=f'{program.name}_{digest.hexdigest()[:16]}',
            config_runtime=runtimes,
            config_runtime_normalizers=np.full(len(runtimes), runtimes[default]),
            **arrays,
        )
        return Simulated(record, kernel.computations, default)

    def program(self, split: str, index: int) -> programs.Program:
        """Returns the program of a kernel."""
        choice = [p for p in programs.programs() if p.split == split]
        return choice[index % len(choice)]

    def draw_kernel(
        self, program: programs.Program, rng: np.random.Generator
    ) -> kernels.Kernel:
        """Draws a kernel of `program`: its kind, length and everything else."""
        kind = kernels.pick(rng, program.kinds)
        # Lengths lean to the short side; with the entry and the reducers most
        # kernels have 10 to 70 nodes.
        nodes = 3 + int(57 * rng.random() ** 1.3)
        kinds = {**kernels.KINDS, **products.KINDS}
        return kinds[kind](kernels.Draft(program, rng), nodes)

    def work(self, kernel: kernels.Kernel) -> Work:
        """Returns what the machine does for a kernel."""
        return Workload(kernel.computations, kernel.space)

    def draw_tiles(self, work: Work, rng: np.random.Generator) -> np.ndarray:
        """Draws distinct tiles that fit in memory, int64 [c, axes], in random order."""
        most = _MAX_CONFIGS_PER_MEAN * self.configs_mean
        # Many kernels have fewer tiles than a large mean asks for: lean to the limit.
        lean = max(2.2 - self.configs_mean / 1000.0, 0.2)
        wanted = MIN_CONFIGS + int((most - MIN_CONFIGS) * rng.random() ** lean)
        drawn = tiles.candidates(work.space, rng, max(3 * wanted, 200))
        _, twice = work.vector_memory(drawn)
        drawn = drawn[twice <= tpu.TPU_V3.vector_memory_bytes]
        order = np.argsort(rng.random(len(drawn)), kind='stable')
        return drawn[order[:wanted]]

    def measure(
        self, work: Work, chosen: np.ndarray, rng: np.random.Generator
    ) -> Tuple[np.ndarray, int]:
        """Returns noisy runtimes, int64 [c] ns, and the default configuration."""
        noise = 1.0 + _NOISE * folders.noise(rng, len(chosen))
        runtimes = np.maximum(np.rint(work.runtime_ns(chosen) * noise), 2)
        default = np.argmin(work.runtime_ns(chosen, _HEURISTIC))
        return runtimes.astype(np.int64), int(default)

    def write_raw(self, path: str) -> str:
        """Writes the test kernels as one raw file (.pb); says what it is.

        Raises:
            OSError: it cannot be written.
        """
        found = protos.protos().TuningData()
        for index in range(self.test):
            found.modules.append(raw.tuning_of(*self.kernel('test', index)))
        content = found.SerializeToString(deterministic=True)
        with files.write_atomically(path, 'wb') as stream:
            stream.write(content)
        return f'SIMULATED kernels in {path}: {self.test}, {len(content):,} bytes'

    def _graphs(self) -> Iterator[folders.Graphs]:
        for split in SPLITS:
            for index in range(getattr(self, split)):
                yield {(split,): self.kernel(split, index).record}

    def _described(self, record: records.TileRecord) -> Tuple[float, ...]:
        slow = record.config_runtime / record.config_runtime.min()
        return record.num_nodes, record.num_configs, np.median(slow), slow.max()

    def _words(self, rows: folders.Rows) -> str:
        nodes, configs, medians, worst = np.transpose(rows[()])
        return (
            f'train {self.train}, valid {self.valid}, test {self.test} kernels\n'
            f'{len(nodes):,} kernels, {configs.sum():,.0f} configurations '
            f'({configs.mean():.0f} per kernel), {nodes.mean():.1f} nodes per kernel\n'
            f'runtimes, median over kernels: median / best {np.median(medians):.2f}, '
            f'worst / best {np.median(worst):.1f}'
        )
