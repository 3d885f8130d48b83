"""How long commands take from the start of their process to its end.

    python benchmarks/start_time.py

    help, runs, mistyped    they read no data
    estimate                `tpugraphs rank examples/kernels.pb --dir estimate`
    trees, graph model      the same with runs of Trees and of an MLP, trained for it

Wall time, the median and the least of --repeats, and the time that all cores worked
together, which hardly changes on a busy machine; next to them the wall time of a Python
that does nothing.  Trees and the estimate need no TensorFlow, whose import is most of
what a graph model waits for.
"""

import os
import statistics
import subprocess
import sys
import tempfile

import results

from baselines import config


def train(folder, model):
    """Trains a model on a little of the measured data; returns its folder."""
    settings = config.TileConfig(
        model=model,
        sample_data=True,
        toy_data=True,
        epochs=1,
        out_dir=folder,
        cache_dir=os.path.join(folder, 'cache'),
    )
    return results.train(settings)[0]


def process(*words):
    """Runs Python with these words in a process of its own, whatever its exit code."""
    command = [sys.executable, *words]
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(command, cwd=results.ROOT, **quiet)


def main():
    """Measures and prints."""
    parser = results.parser(__doc__)
    parser.add_argument('--repeats', type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rank = ('-m', 'tpugraphs', 'rank', 'examples/kernels.pb', '--dir')
        commands = {
            'python': ('-c', 'pass'),
            'help': ('-m', 'tpugraphs', '--help'),
            'mistyped': ('-m', 'tpugraphs', 'rnak'),
            'trees': (*rank, train(folder, 'Trees')),
            'graph model': (*rank, train(folder, 'MLP')),
            'runs': ('-m', 'tpugraphs', 'runs', '--out_dir', folder),
            'estimate': (*rank, 'estimate'),
        }
        print(f'{"":12} {"median":>8} {"least":>8} {"worked":>8}  seconds')
        for name, words in commands.items():
            walls, worked = results.timed(
                lambda words=words: process(*words), args.repeats
            )
            figures = statistics.median(walls), min(walls), statistics.median(worked)
            print(f'{name:12} ' + ' '.join(f'{figure:8.2f}' for figure in figures))


if __name__ == '__main__':
    results.run(main)
