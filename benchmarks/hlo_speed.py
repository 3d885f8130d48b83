"""Times the extraction of raw files: real ones, and one of 100,000 instructions.

  python benchmarks/hlo_speed.py                  # with ../shared/data/hlo
  python benchmarks/hlo_speed.py --folder DIR

The large module is the real layout program over and over: its computations with new
ids.  Every row comes from a process of its own, whose whole memory it has; seconds are
the best of three.
"""

import os
import tempfile
from typing import Tuple

import results

from baselines.hlo import graph
from baselines.hlo import protos
from baselines.hlo import reading
from tpugraphs.extract import extractor

_LARGE = 100_000
_ROUNDS = 3
_SHARED = str(results.ROOT / '../shared/data/hlo')


def make_large(program: str, path: str) -> None:
    """Writes a program of many instructions, by repetition."""
    tuning = reading.read_tuning(program).modules[0]
    large = protos.protos().ModuleTuningData(
        fingerprint=1,
        config_index_to_node=tuning.config_index_to_node,
        runs=tuning.runs[:2],
    )
    large.module.name = 'large'
    count, shift = 0, 0
    step = 1 + max(i.id for i in graph.list_instructions(tuning.module))
    while count < _LARGE:
        for computation in tuning.module.computations:
            added = large.module.computations.add()
            added.CopyFrom(computation)
            _renumber(added, shift)
            count += len(added.instructions)
        shift += step
    with open(path, 'wb') as stream:
        stream.write(large.SerializeToString())


def _renumber(computation, shift: int) -> None:
    """Moves a computation's ids, and what refers to them."""
    computation.id += shift
    computation.root_id += shift
    for instruction in computation.instructions:
        instruction.id += shift
        for field in ('operand_ids', 'called_computation_ids'):
            ids = getattr(instruction, field)
            ids[:] = [i + shift for i in ids]


def _extract(path: str) -> Tuple[float, float]:
    """Extracts a file into npz, as the command does; returns seconds and MB."""
    with tempfile.TemporaryDirectory() as folder:
        options = extractor.Options(output=folder, overwrite=True)

        def extract():
            failed = extractor.extract_file(path, options).failed
            if failed:
                raise ValueError(failed[0])

        times, _ = results.timed(extract, _ROUNDS, warm_up=False)
    return times[0], results.peak_mb()


def main() -> None:
    """Measures and prints."""
    parser = results.parser(__doc__)
    about = 'has module_tuning_data_layout.pb and op_tuning_data.pb'
    parser.add_argument('--folder', default=_SHARED, help=about)
    args = parser.parse_args()
    program = os.path.join(args.folder, 'module_tuning_data_layout.pb')
    kernels = os.path.join(args.folder, 'op_tuning_data.pb')
    results.head('file', 'MB', 'seconds', 'most memory, MB')
    with tempfile.TemporaryDirectory() as scratch:
        large = os.path.join(scratch, 'large.pb')
        results.alone(make_large, program, large)
        for path in (kernels, program, large):
            seconds, memory = results.alone(_extract, path)
            size = os.path.getsize(path) / 1e6
            name = os.path.basename(path)
            results.row(name, f'{size:.1f}', f'{seconds:.2f}', f'{memory:,.0f}')


if __name__ == '__main__':
    results.run(main)
