"""How fast the Python interface answers: three figures, on the machine that runs it.

    python benchmarks/api_speed.py --dir latest

    warm     scoring one kernel of 40 nodes with 500 configurations, the model in
             memory: `run.ranker()`, against the plain way, which compiles the model
             for each kernel anew; both give the same scores
    start    from starting the process `tpugraphs rank examples/kernels.pb` to its end
    import   `import tpugraphs`, in a fresh process that ends without TensorFlow

Wall time, the median and the least of --repeats, and the time that all cores worked
together, which hardly changes on a busy machine.
"""

import dataclasses
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))


import results  # noqa: E402

from baselines.data.tile import memory_store  # noqa: E402
from baselines.simulated.tile import generate  # noqa: E402
import tpugraphs  # noqa: E402

NODES, CONFIGS = 40, 500


def make_kernel():
    """A simulated kernel of 40 nodes, with 500 of its configurations."""
    for index in range(1000):
        record = generate.generate_kernel('valid', index, configs_mean=1000)
        if record.num_nodes == NODES and record.num_configs >= CONFIGS:
            columns = ('config_feat', 'config_runtime', 'config_runtime_normalizers')
            return dataclasses.replace(
                record, **{name: getattr(record, name)[:CONFIGS] for name in columns}
            )
    raise ValueError('no simulated kernel is of that size')


def timed(function, repeats):
    """Wall and worked milliseconds of calls: two sorted lists."""
    walls, worked = [], []
    for _ in range(repeats):
        began, before = time.perf_counter(), time.process_time()
        function()
        walls.append((time.perf_counter() - began) * 1e3)
        worked.append((time.process_time() - before) * 1e3)
    return sorted(walls), sorted(worked)


def processes(command, repeats):
    """Wall and worked seconds of processes: two sorted lists."""
    walls, worked = [], []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        walls.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        worked.append(
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        )
    return sorted(walls), sorted(worked)


def show(name, walls, unit, worked=()):
    """Prints a line of a figure."""
    more = f', worked {statistics.median(worked):.2f} {unit}' if worked else ''
    print(
        f'{name:8} median {statistics.median(walls):8.3f} {unit}, '
        f'least {walls[0]:8.3f} {unit}{more}'
    )


def main():
    parser = results.parser(__doc__)
    parser.add_argument('--dir', default='latest', help='a run of a tile model')
    parser.add_argument('--repeats', type=int, default=7)
    args = parser.parse_args()
    command = [sys.executable, '-c', 'import tpugraphs']
    bare = processes([sys.executable, '-c', 'pass'], args.repeats)
    with_import = processes(command, args.repeats)
    walls, worked = ([w - b for w, b in zip(*pair)] for pair in zip(with_import, bare))
    show('import', walls, 's', worked)
    command = [sys.executable, '-m', 'baselines.commands.rank', 'examples/kernels.pb']
    run = tpugraphs.load(args.dir)
    walls, worked = processes([*command, '--dir', run.dir], args.repeats)
    show('start', walls, 's', worked)
    record, ranker = make_kernel(), run.ranker()
    resident = ranker(record)
    warm = timed(lambda: ranker(record), 10 * args.repeats)
    show('warm', warm[0], 'ms', warm[1])
    predictor = run._predictor()

    def plain():
        from baselines.tiles import scoring

        store = memory_store.tile_store(record.graph_id, [record])
        scorer = scoring.TileScorer(predictor.model, predictor.scaled(store))
        return next(scorer.score_all())

    np.testing.assert_array_equal(plain(), resident)
    cold = timed(plain, args.repeats)
    show('plain', cold[0], 'ms', cold[1])
    ratio = statistics.median(cold[1]) / statistics.median(warm[1])
    print(f'resident: 1/{ratio:.0f} of the work; {run}; {os.cpu_count()} cores')


if __name__ == '__main__':
    main()
