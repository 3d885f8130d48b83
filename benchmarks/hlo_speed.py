"""Times the extraction of raw files: real ones, and one of 100,000 instructions.

    python benchmarks/hlo_speed.py                  with ../shared/data/hlo
    python benchmarks/hlo_speed.py --folder DIR

The large module is the real layout program over and over: its computations with
new ids, and its runs.  Every figure comes from a process of its own; peak memory
is that of the whole process.  Times are the best of three.
"""

import os
import tempfile
import time

import results

from baselines.hlo import graph
from baselines.hlo import layout
from baselines.hlo import protos
from baselines.hlo import reading
from tpugraphs.extract import extractor

_LARGE = 100_000
_MANY_RUNS = 10_000
_ROUNDS = 3
_SHARED = str(results.ROOT / '../shared/data/hlo')


def make_large(program: str, path: str, instructions: int, runs: int) -> None:
    """Writes a program of that many instructions and runs, by repetition."""
    tuning = reading.read_tuning(program).modules[0]
    classes = protos.protos()
    large = classes.ModuleTuningData(
        fingerprint=1, config_index_to_node=tuning.config_index_to_node
    )
    large.module.name = 'large'
    count, shift = 0, 0
    step = 1 + max(i.id for i in graph.list_instructions(tuning.module))
    while count < instructions:
        for computation in tuning.module.computations:
            added = large.module.computations.add()
            added.CopyFrom(computation)
            _renumber(added, shift)
            count += len(added.instructions)
        shift += step
    while len(large.runs) < runs:
        large.runs.extend(tuning.runs)
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


def _measure(path: str) -> dict:
    """Reads a layout file, makes its arrays, and writes its npz."""
    figures = {}
    for _ in range(_ROUNDS):
        marks = [time.perf_counter()]
        tuning = reading.read_tuning(path).modules[0]
        marks.append(time.perf_counter())
        found = graph.extract_graph(tuning.module)
        marks.append(time.perf_counter())
        configs = layout.extract_configs(tuning, len(found.node_opcode))
        marks.append(time.perf_counter())
        names = ('read_s', 'graph_s', 'configs_s')
        times = [b - a for a, b in zip(marks, marks[1:])] + [marks[-1] - marks[0]]
        for name, value in zip(names + ('arrays_s',), times):
            figures[name] = min(value, figures.get(name, value))
    figures.update(
        nodes=len(found.node_opcode),
        edges=len(found.edge_index),
        columns=found.node_feat.shape[1],
        runs=len(configs.config_runtime),
    )
    return dict(figures, peak_mb=results.peak_mb())


def _extract(path: str) -> dict:
    """Extracts a file into npz, as the command does."""
    with tempfile.TemporaryDirectory() as folder:
        options = extractor.Options(output=folder, overwrite=True)

        def extract():
            failed = extractor.extract_file(path, options).failed
            if failed:
                raise ValueError(failed[0])

        times, _ = results.timed(extract, _ROUNDS, warm_up=False)
    return {'npz_s': times[0], 'npz_peak_mb': results.peak_mb()}


def main() -> None:
    """Measures and prints."""
    parser = results.parser(__doc__)
    parser.add_argument(
        '--folder',
        default=_SHARED,
        help='has module_tuning_data_layout.pb and op_tuning_data.pb',
    )
    args = parser.parse_args()
    program = os.path.join(args.folder, 'module_tuning_data_layout.pb')
    kernels = os.path.join(args.folder, 'op_tuning_data.pb')
    figures = {}
    with tempfile.TemporaryDirectory() as scratch:
        large = os.path.join(scratch, 'large.pb')
        runs = os.path.join(scratch, 'runs.pb')
        results.alone(make_large, program, large, _LARGE, 1)
        results.alone(make_large, program, runs, 1, _MANY_RUNS)
        for name, path in (('program', program), ('large', large), ('many runs', runs)):
            row = results.alone(_measure, path)
            row.update(results.alone(_extract, path))
            figures[name] = dict(row, pb_mb=os.path.getsize(path) / 1e6)
    figures['kernels'] = results.alone(_extract, kernels)
    for name, row in figures.items():
        for key, value in row.items():
            print(f'{name + " " + key:<32}{value:>16,.6g}')


if __name__ == '__main__':
    results.run(main)
