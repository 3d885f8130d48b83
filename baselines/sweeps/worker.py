"""A worker of a sweep: takes trials, one after the other, until none is left.

Each trial is a process of its own, so whatever becomes of it, the next one starts.
"""

import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence

from baselines import command_line
from baselines import config as config_lib
from baselines import files
from baselines import text
from baselines.sweeps import results
from baselines.sweeps import space as space_lib
from baselines.sweeps import study as study_lib
from baselines.sweeps import trial as trial_lib

# A sweep in which every one of so many trials ended with the same words is wrong.
_ALIKE = 3


@dataclasses.dataclass(frozen=True)
class Order:
    """What a worker has to do; plain values, for another process."""

    storage: str  # of the study
    name: str  # of the study
    trials: int  # that the sweep is to have
    base: Dict[str, Any]  # the settings of all trials
    seed: int = 0  # of the draws, and of the first training of each trial
    minutes: float = 0  # that a trial may take; 0 for any
    memory_gb: float = 0  # that it may take; 0 for any
    cores: Sequence[int] = ()  # that it may use
    program: str = trial_lib.__name__  # the module that trains


class Failed(Exception):
    """A trial went wrong; the text says how."""


def work(order: Order) -> None:
    """Runs trials until the sweep has as many as were ordered.

    Raises:
        ValueError: the storage cannot be used, or no trial can be trained.
    """
    if order.cores and hasattr(os, 'sched_setaffinity'):
        os.sched_setaffinity(0, order.cores)
    study = study_lib.Study(order.storage, order.name)
    task = study.definition.collection.partition(':')[0]
    base = config_lib.CONFIGS[task](**order.base)
    space = space_lib.of(study.definition.space, type(base))
    epochs = space.most_epochs(base)
    study.prune_from(epochs)
    while True:
        _check_failures(study)
        trial, settings = study.claim(order.trials, space, base, order.seed)
        if trial is None:
            return
        _Attempt(study, trial, order, settings, epochs).run()
        results.write_best(study, base.out_dir)


def _check_failures(study: study_lib.Study) -> None:
    """Raises ValueError where the first trials all failed in the same way."""
    ended = study.of_state('COMPLETE', 'PRUNED', 'FAIL')
    reasons = [trial.user_attrs.get(study_lib.REASON) for trial in ended]
    if len(ended) >= _ALIKE and reasons[0] and len(set(reasons)) == 1:
        raise ValueError(f'all of the first {len(ended)} trials failed: {reasons[0]}')


class _Attempt:
    """One trial, in a process of its own."""

    def __init__(
        self,
        study: study_lib.Study,
        trial: Any,
        order: Order,
        settings: Dict[str, Any],
        epochs: int,
    ):
        self._study = study
        self._trial = trial
        self._order = order
        self._settings = settings
        self._epochs = epochs
        self._finished: List[float] = []
        self._runs: List[Dict[str, Any]] = []
        self._reported = 0
        self._parent = os.getppid()
        self._folder = study_lib.folder_of(trial)
        self._path = os.path.join(files.expand(order.base['out_dir']), self._folder)
        self._log = os.path.join(self._path, 'log.txt')

    def run(self) -> None:
        """Trains, and records what came of it."""
        began = time.monotonic()
        attrs = {study_lib.FOLDER: self._folder}
        try:
            ended = self._train()
        except (KeyboardInterrupt, Exception) as error:
            if text.is_interrupt(error):
                self._study.give_back(self._trial, 'interrupted')
                raise
            if not isinstance(error, Failed):
                raise
            ended, attrs[study_lib.REASON] = 'FAIL', str(error)
        value = None
        if ended == 'COMPLETE':
            value = sum(self._finished) / len(self._finished)
        attrs[study_lib.SECONDS] = time.monotonic() - began
        attrs[study_lib.RUNS] = self._runs
        self._study.finish(self._trial, ended, value, **attrs)
        print(results.line(self._study.frozen(self._trial)), flush=True)

    def _train(self) -> str:
        """Returns the state that the trial ended in.

        Raises:
            Failed: it did not end well; says how.
        """
        os.makedirs(self._path, exist_ok=True)
        limit = self._order.minutes * 60 or float('inf')
        deadline = time.monotonic() + limit
        start = {
            'task': self._study.definition.collection.partition(':')[0],
            'runs': list(self._all_runs()),
            'memory_gb': self._order.memory_gb,
        }
        with open(self._log, 'ab') as log:
            process = subprocess.Popen(
                [sys.executable, '-m', self._order.program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=files.environment(),
                start_new_session=True,  # Ctrl-C is ours to handle
            )
        patience = 0.0
        try:
            self._send(process, json.dumps(start))
            for message in self._messages(process, deadline):
                if 'error' in message:
                    raise Failed(message['error'])
                if self._is_bad(message):
                    self._send(process, 'stop')
                    patience = 20.0
                    return 'PRUNED'
                self._send(process, 'go')
            if len(self._finished) < len(start['runs']):
                raise Failed(self._how_it_ended(process))
            return 'COMPLETE'
        finally:
            _end(process, patience)

    def _all_runs(self) -> Iterator[Dict[str, Any]]:
        """The settings of every training of the trial."""
        definition = self._study.definition
        folds = range(1, definition.folds + 1)
        for seed in range(definition.seeds):
            for fold in [f'{i}/{definition.folds}' for i in folds] or ['']:
                yield {
                    **self._order.base,
                    **self._settings,
                    'seed': self._order.seed + seed,
                    'fold': fold,
                    'out_dir': self._path,
                    'run_id': f'{self._study.name} {self._folder}',
                    'resume': True,
                }

    def _is_bad(self, message: Dict[str, Any]) -> bool:
        """Takes in how a run stands; whether the trial should end.

        What is compared is the mean over the finished runs and the best of this one
        so far; the same step is the same epoch of the same run in every trial.
        """
        number, scores = message['run'], message['scores']
        for epoch, score in enumerate(scores, 1):
            step = number * self._epochs + epoch
            if step > self._reported:
                mean = (sum(self._finished) + score) / (number + 1)
                self._trial.report(mean, step)
                self._reported = step
        if 'model_dir' in message:
            self._finished.append(scores[-1])
            name = os.path.basename(message['model_dir'])
            self._runs.append({'model': name, 'score': scores[-1]})
            return False
        return self._trial.should_prune()

    def _messages(
        self, process: subprocess.Popen, deadline: float
    ) -> Iterator[Dict[str, Any]]:
        """Yields what the process says, and gives signs of life meanwhile."""
        buffer, beat = b'', 0.0
        while True:
            now = time.monotonic()
            if now > deadline:
                raise Failed(f'out of time: more than {self._order.minutes:g} minutes')
            if now - beat > study_lib.BEAT:
                beat = now
                if os.getppid() != self._parent:
                    raise KeyboardInterrupt  # the sweep that started this has ended
                if not self._study.alive(self._trial):
                    raise Failed('taken over by another worker')
            wait = max(min(study_lib.BEAT, deadline - now), 0.01)
            if not select.select([process.stdout], [], [], wait)[0]:
                continue
            content = os.read(process.stdout.fileno(), 1 << 16)
            if not content:
                return
            *lines, buffer = (buffer + content).split(b'\n')
            for line in lines:
                yield json.loads(line)

    def _send(self, process: subprocess.Popen, line: str) -> None:
        try:
            process.stdin.write(line.encode() + b'\n')
            process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._how_it_ended(process)) from None

    def _how_it_ended(self, process: subprocess.Popen) -> str:
        """Says how a process ended that was not asked to."""
        code = process.wait()
        with open(self._log, encoding='utf-8', errors='replace') as stream:
            lines = stream.read().strip().splitlines()
        last = text.printable(lines[-1])[:200] if lines else 'it said nothing'
        if 'bad_alloc' in last or 'MemoryError' in last:
            return 'out of memory'
        if code >= 0:
            return f'the process ended with exit code {code}: {last}'
        name = signal.Signals(-code).name
        why = ' (out of memory?)' if name == 'SIGKILL' else ''
        return f'the process was ended by {name}{why}'


def _end(process: subprocess.Popen, patience: float) -> None:
    """Ends a process; one that was asked to stop has some seconds for it."""
    process.stdin.close()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def start(order: Order) -> subprocess.Popen:
    """Starts a process that works on an order."""
    return subprocess.Popen(
        [sys.executable, '-m', 'baselines.sweeps.worker', json.dumps(vars(order))],
        env=files.environment(),
        stdin=subprocess.DEVNULL,
    )


def main(argv: Optional[List[str]] = None) -> int:
    """Works on the order that is the only argument, as JSON."""
    order = Order(**json.loads((argv or sys.argv[1:])[0]))
    return command_line.guarded(lambda: work(order))


if __name__ == '__main__':
    sys.exit(main())
