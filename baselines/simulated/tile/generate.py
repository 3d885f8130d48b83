"""One simulated kernel: HLO graph, tile configurations, simulated runtimes.

All randomness of a kernel derives from (seed, split, index), so that a kernel
does not depend on how many others are made.
"""

import hashlib
from typing import Callable, Dict, Sequence, Tuple

import numpy as np

from baselines.data.collections import SPLITS
from baselines.data.tile import records
from baselines.simulated import raw
from baselines.simulated import tpu
from baselines.simulated.hlo import Computation
from baselines.simulated.tile import kernels
from baselines.simulated.tile import products
from baselines.simulated.tile import tiles
from baselines.simulated.tile.programs import Program, programs
from baselines.simulated.tile.workload import Workload

# Raise it whenever the same parameters give other arrays.
GENERATOR_VERSION = 1

# Relative standard deviation of the simulated measurement.
NOISE = 0.01

MIN_CONFIGS = 10
MAX_CONFIGS_PER_MEAN = 3.46

KINDS: Dict[str, Callable] = {
    kind.__name__.rstrip('_'): kind
    for kind in (
        kernels.elementwise, kernels.reduce_rows, kernels.reduce_features,
        kernels.softmax, kernels.update, kernels.copy, kernels.transpose,
        kernels.concatenate, kernels.pad, kernels.slice_, kernels.gates,
        products.matmul, products.convolve, products.attention,
    )
}  # fmt: skip

# What a compiler without measurements would assume: perfect overlap, no
# overheads of transfers.  It picks the configuration that normalises.
_HEURISTIC = tpu.TPU_V3._replace(tile_ns=200.0, dma_ns=0.0, run_ns=0.0, overlap=1.0)


def generate_kernel(
    split: str, index: int, *, seed: int = 0, configs_mean: float = 577.0
) -> records.TileRecord:
    """Returns one simulated kernel, see `generate`."""
    return generate(split, index, seed=seed, configs_mean=configs_mean)[0]


def generate(
    split: str, index: int, *, seed: int = 0, configs_mean: float = 577.0
) -> Tuple[records.TileRecord, Sequence[Computation], int]:
    """Makes one simulated kernel.

    Its id is `<program>_<16 hex digits>`, runtimes are in simulated nanoseconds,
    the normaliser is the runtime of the configuration that a compiler's heuristic
    would take.

    Args:
        split: 'train', 'valid' or 'test'; decides which programs are possible.
        index: which kernel of the split; programs take turns.
        seed: of the whole data set.
        configs_mean: configurations per kernel, about, on average.

    Returns:
        What its npz file holds, its HLO, and the default configuration, which the
        compiler's heuristic would take.
    """
    choice = [p for p in programs() if p.split == split]
    if not choice:
        raise ValueError(f'split {split!r} is not one of {", ".join(SPLITS)}')
    program = choice[index % len(choice)]
    rng = np.random.default_rng([seed, SPLITS.index(split), index])
    while True:
        kernel = draw_kernel(program, rng)
        workload = Workload(kernel.computations, kernel.space)
        chosen = draw_tiles(workload, rng, configs_mean)
        if len(chosen) >= MIN_CONFIGS:
            break
    runtimes, default = measure(workload, chosen, rng)
    origin = seed, split, index
    record = record_of(program.name, origin, kernel, chosen, runtimes, default)
    return record, kernel.computations, default


def record_of(
    name: str,
    origin: Tuple,
    kernel: kernels.Kernel,
    chosen: np.ndarray,
    runtimes: np.ndarray,
    default: int,
) -> records.TileRecord:
    """Puts a record together; its id is `<name>_<hash of origin and arrays>`."""
    arrays = raw.graph_arrays(kernel.computations)
    arrays['config_feat'] = tiles.config_features(kernel.space, chosen)
    digest = hashlib.sha256(repr(origin).encode())
    for array in arrays.values():
        digest.update(array.tobytes())
    return records.TileRecord(
        graph_id=f'{name}_{digest.hexdigest()[:16]}',
        config_runtime=runtimes,
        config_runtime_normalizers=np.full(len(runtimes), runtimes[default]),
        **arrays,
    )


def draw_kernel(program: Program, rng: np.random.Generator) -> kernels.Kernel:
    """Draws a kernel of `program`: its kind, length and everything else."""
    kind = kernels.pick(rng, program.kinds)
    # Lengths lean to the short side; with the entry and the reducers most
    # kernels have 10 to 70 nodes.
    nodes = 3 + int(57 * rng.random() ** 1.3)
    return KINDS[kind](kernels.Draft(program, rng), nodes)


def draw_tiles(
    workload: Workload, rng: np.random.Generator, configs_mean: float
) -> np.ndarray:
    """Draws distinct tiles that fit in memory, int64 [c, axes], in random order."""
    most = MAX_CONFIGS_PER_MEAN * configs_mean
    # Many kernels have fewer tiles than a large mean asks for: lean to the limit.
    lean = max(2.2 - configs_mean / 1000.0, 0.2)
    wanted = MIN_CONFIGS + int((most - MIN_CONFIGS) * rng.random() ** lean)
    drawn = tiles.candidates(workload.space, rng, max(3 * wanted, 200))
    _, twice = workload.vector_memory(drawn)
    drawn = drawn[twice <= tpu.TPU_V3.vector_memory_bytes]
    order = np.argsort(rng.random(len(drawn)), kind='stable')
    return drawn[order[:wanted]]


def measure(
    workload: Workload, chosen: np.ndarray, rng: np.random.Generator
) -> Tuple[np.ndarray, int]:
    """Returns noisy runtimes, int64 [c] ns, and the default configuration."""
    exact = workload.runtime_ns(chosen)
    noise = np.clip(rng.standard_normal(len(chosen)), -3.0, 3.0)
    runtimes = np.maximum(np.rint(exact * (1.0 + NOISE * noise)), 2).astype(np.int64)
    return runtimes, int(np.argmin(workload.runtime_ns(chosen, _HEURISTIC)))
