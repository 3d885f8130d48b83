"""The process of one trial: its trainings, one after the other.

The settings come as a line of JSON on stdin.  After each epoch a line goes out, and
one word is awaited: go or stop.  A worker that has ended closes stdin, which ends
this process, too.
"""

import glob
import json
import os
import queue
import sys
import threading
import traceback
from typing import Any, Callable, Dict, List

from baselines import command_line
from baselines import config as config_lib


class Stopped(Exception):
    """The worker has ended the trial early."""


def score_of(curve: Dict[str, List[Any]]) -> List[float]:
    """The best validation score so far, after each epoch of a curve.

    Raises:
        ValueError: nothing was validated.
    """
    scores = curve.get('val_tau') or curve['val_opa']
    if None in scores:
        raise ValueError(
            'a sweep compares validation scores, and the validation split gives none: '
            'its runtimes are 0, or --validate_batches is'
        )
    return [max(scores[: count + 1]) for count in range(len(scores))]


def train(
    task: str, runs: List[Dict[str, Any]], exchange: Callable[[Dict], str]
) -> None:
    """Trains every run of a trial, resuming what another process has begun.

    Args:
        task: 'tile' or 'layout'.
        runs: the settings of each.
        exchange: sends a message, returns the answer.

    Raises:
        Stopped: by an answer; what is unfinished is removed.
        ValueError: the settings or the data are unusable.
        OSError: something cannot be written.
    """
    from baselines.runs import saved as runs_lib
    from baselines.training import jobs

    for number, settings in enumerate(runs):
        config = config_lib.checked(config_lib.CONFIGS[task](**settings))

        def after_epoch(state: Any, number: int = number) -> None:
            scores = score_of(state.curve)
            if exchange({'run': number, 'scores': scores}) != 'go':
                raise Stopped

        try:
            model_dir = jobs.train(config, after_epoch=after_epoch)
        except Stopped:
            for path in glob.glob(os.path.join(config.out_dir, 'unfinished_*.npz')):
                os.unlink(path)
            raise
        curve = runs_lib.load(model_dir).info['train_curve']
        message = {'run': number, 'scores': score_of(curve), 'model_dir': model_dir}
        if exchange(message) != 'go':
            raise Stopped


def _limit_memory(gigabytes: float) -> None:
    import resource

    if gigabytes:
        size = int(gigabytes * (1 << 30))
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def main() -> int:
    """Serves the trial that stdin describes; returns the exit code."""
    messages = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)  # what a training prints is for the log
    # Unbuffered: a thread that waits in sys.stdin keeps Python from ending.
    stdin = open(0, 'rb', buffering=0, closefd=False)
    answers: 'queue.Queue[str]' = queue.Queue()
    start = json.loads(stdin.readline())

    def listen() -> None:
        for line in stdin:
            answers.put(line.decode().strip())
            if line == b'stop\n':
                return
        os._exit(3)  # the worker is gone, so nobody wants what comes of this

    def exchange(message: Dict[str, Any]) -> str:
        messages.write(json.dumps(message) + '\n')
        messages.flush()
        return answers.get()

    threading.Thread(target=listen, daemon=True).start()
    try:
        _limit_memory(start['memory_gb'])
        command_line.start_tensorflow()
        train(start['task'], start['runs'], exchange)
    except Stopped:
        pass
    except Exception as error:
        traceback.print_exc()  # into the log
        exchange({'error': ' '.join(_words(error).split())[:2000]})
    return 0


def _words(error: Exception) -> str:
    if isinstance(error, MemoryError) or 'ResourceExhausted' in type(error).__name__:
        return 'out of memory'
    if isinstance(error, (ValueError, OSError)):
        return str(error) or type(error).__name__
    return f'{type(error).__name__}: {error}'


if __name__ == '__main__':
    sys.exit(main())
