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

import os
import statistics
import subprocess
import sys

import numpy as np
import results

from baselines.data.tile import store as tile_store
from tests.helpers import synthetic
import tpugraphs

NODES, CONFIGS = 40, 500


def process(*words):
    """Runs Python in a process of its own."""
    command = [sys.executable, *words]
    subprocess.run(command, cwd=results.ROOT, check=True, stdout=subprocess.DEVNULL)


def show(name, walls, worked, unit='s'):
    """Prints a line of a figure: seconds, in a unit."""
    scale = {'s': 1, 'ms': 1e3}[unit]
    print(
        f'{name:8} median {scale * statistics.median(walls):8.3f} {unit}, '
        f'least {scale * walls[0]:8.3f} {unit}, '
        f'worked {scale * statistics.median(worked):.2f} {unit}'
    )


def main():
    parser = results.parser(__doc__)
    parser.add_argument('--dir', default='latest', help='a run of a tile model')
    parser.add_argument('--repeats', type=int, default=7)
    args = parser.parse_args()

    def of_process(*words):
        return results.timed(lambda: process(*words), args.repeats, warm_up=False)

    bare, imported = of_process('-c', 'pass'), of_process('-c', 'import tpugraphs')
    more = ([w - b for w, b in zip(*pair)] for pair in zip(imported, bare))
    show('import', *more)
    run = tpugraphs.load(args.dir)
    command = ('-m', 'tpugraphs', 'rank', 'examples/kernels.pb')
    show('start', *of_process(*command, '--dir', run.dir))
    ranker = run.ranker()
    record = synthetic.kernel(np.random.default_rng(0), nodes=NODES, configs=CONFIGS)
    resident = ranker(record)
    warm = results.timed(lambda: ranker(record), 10 * args.repeats)
    show('warm', *warm, 'ms')
    predictor = run._predictor()

    def plain():
        from baselines.tiles import scoring

        store = tile_store.TileStore.of_records(record.graph_id, [record])
        scorer = scoring.TileScorer(predictor.model)
        return next(scorer.scores(predictor.graphs(store)))

    np.testing.assert_array_equal(plain(), resident)
    cold = results.timed(plain, args.repeats)
    show('plain', *cold, 'ms')
    ratio = statistics.median(cold[1]) / statistics.median(warm[1])
    print(f'resident: 1/{ratio:.0f} of the work; {run}; {os.cpu_count()} cores')


if __name__ == '__main__':
    results.run(main)
