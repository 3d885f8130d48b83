"""How long commands take from the start of their process to its end.

    python benchmarks/start_time.py

    help, runs, mistyped    they read no data
    estimate                `tpugraphs rank examples/kernels.pb --dir estimate`
    trees, graph model      the same with runs of Trees and of an MLP, trained for it

Wall time, the median and the least of --repeats, and the time that all cores worked
together, which hardly changes on a busy machine; next to them the wall time of a Python
that does nothing.  Trees and the estimate need no TensorFlow, whose import is most of
what a graph model waits for.

Below, for `tpugraphs tune`: seconds until a model has scored 1,000 candidates of a
kernel, those of the first kernel, with its compiling, and of the next ones.
"""

import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import results

from baselines import config
from baselines.hlo import reading
from tpugraphs.kernels import cutting
from tpugraphs.kernels import tile_choices
from tpugraphs.ranking import tile_scores

_CANDIDATES = 1000


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


def score(model_dir, repeats):
    """Returns the seconds of scoring candidates as `tune` does: the first, the next."""
    raw = reading.read_tuning(os.path.join(results.ROOT, 'examples', 'kernels.pb'))
    module = max((t.module for t in raw.modules), key=lambda m: m.ByteSize())
    kernel = cutting.Kernel(f'kernel_{0:016x}', 'kernel', module, '')
    rng = np.random.default_rng(0)
    configs = tile_choices.candidates_of(kernel, rng, _CANDIDATES).configs
    scores = tile_scores.load(model_dir, 'cpu').score
    tuning = tile_choices.tuning_data(
        kernel, configs * (_CANDIDATES // len(configs) + 1)
    )
    del tuning.runs[_CANDIDATES:]
    [first], _ = results.timed(lambda: scores(tuning), 1, warm_up=False)
    others, _ = results.timed(lambda: scores(tuning), repeats, warm_up=False)
    return first, statistics.median(others)


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
        print(
            f'\n{"":12} {"first":>8} {"next":>8}  seconds, {_CANDIDATES:,} candidates'
        )
        for name in ('estimate', 'trees', 'graph model'):
            first, other = score(commands[name][-1], args.repeats)
            print(f'{name:12} {first:8.2f} {other:8.2f}')


if __name__ == '__main__':
    results.run(main)
