"""What the processor time of a training of tiles is spent on, cold and warm.

  python benchmarks/training_phases.py --data_root ~/data/tpugraphs/npz/tile/xla

trains for --epochs twice, in a process each: the first packs the splits, the second
finds them packed.  Printed are seconds of all cores; a phase leaves out those inside
it.
"""

from collections.abc import Callable
import contextlib
import functools
import io
import subprocess
import sys
import tempfile
import time

import results

from baselines import config
from baselines.core import starting

_PHASES = 'import open scaling model tracing steps validation measuring saving'.split()


def main() -> None:
    """Prints a row for each of the two trainings."""
    parser = results.parser(__doc__)
    parser.add_argument('--data_root', required=True)
    parser.add_argument('--model', default='EarlyJoinSAGE')
    parser.add_argument('--epochs', type=int, default=5)
    parser.add_argument('--folder', help='of one training, in this process')
    args = parser.parse_args()
    if args.folder:
        measure(args.data_root, args.model, args.epochs, args.folder)
        return
    results.head('training', *_PHASES, 'other', 'all')
    with tempfile.TemporaryDirectory() as folder:
        for name in ('cold', 'warm'):
            words = [sys.executable, __file__, *sys.argv[1:], '--folder', folder]
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            results.row(name, *done.stdout.split())


def measure(data_root: str, model: str, epochs: int, folder: str) -> None:
    """Trains, and prints the seconds of each phase."""
    seconds = dict.fromkeys(_PHASES, 0.0)
    inside = [0.0]  # seconds of the phases in each phase that has begun

    def timed(owner: object, name: str, phase: str) -> None:
        work: Callable = getattr(owner, name)

        @functools.wraps(work)
        def call(*args, **kwargs):
            start = time.process_time()
            inside.append(0.0)
            try:
                return work(*args, **kwargs)
            finally:
                taken = time.process_time() - start
                seconds[phase] += taken - inside.pop()
                inside[-1] += taken

        setattr(owner, name, call)

    timed(starting, 'start_tensorflow', 'import')
    starting.start_tensorflow()
    from baselines.runs import saved
    from baselines.training import checkpoints
    from baselines.training import final_errors
    from baselines.training import graph_model
    from baselines.training import loop
    from baselines.training import opening
    from baselines.training import run_training
    from baselines.training import task_data

    for owner, name, phase in (
        (opening, 'open_splits', 'open'),
        (task_data, 'make_data', 'scaling'),
        (graph_model.GraphModel, 'make_trainer', 'model'),
        (loop.Trainer, 'compile_steps', 'tracing'),
        (loop.Trainer, '_train_epoch', 'steps'),
        (loop.Trainer, 'make_validator', 'validation'),
        (loop.Trainer, '_validate', 'validation'),
        (final_errors, 'measure_run', 'measuring'),
        (checkpoints.Unfinished, 'write_state', 'saving'),
        (saved, 'save_run', 'saving'),
    ):
        timed(owner, name, phase)
    settings = config.TileConfig(
        model=model,
        epochs=epochs,
        data_root=data_root,
        cache_dir=f'{folder}/cache',
        out_dir=f'{folder}/out',
    )
    with contextlib.redirect_stdout(io.StringIO()):
        run_training.train(settings)
    whole = time.process_time()
    columns = [*seconds.values(), whole - sum(seconds.values()), whole]
    print(*(f'{column:.1f}' for column in columns))


if __name__ == '__main__':
    results.run(main)
