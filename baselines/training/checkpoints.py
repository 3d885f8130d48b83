"""Saves the state of a training after each epoch, so that it can be resumed."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import dataclasses
import json
import os
import re
import signal
import time
import uuid

import numpy as np

from baselines import config as config_lib
from baselines.core import exits
from baselines.core import files
from baselines.core import npz
from baselines.core import text
from baselines.core import untrusted
from baselines.data.packed import splits
from baselines.runs import code_files
from baselines.runs import finding
from baselines.runs import run_files
from baselines.runs import saved
from baselines.training import progress

_NAMES = 'arrays'  # key of the arrays' names in the JSON
_MAX_STATE_BYTES = 1 << 40  # 1 TiB: larger than any model


class Unfinished:
    """An unfinished run, identified by its settings and data, with its state on disk.

    As a context manager it prevents other processes from running the same training,
    and raises for Ctrl-C an `Interrupted` with the number of saved epochs.

    Attributes:
        key: hash of the settings and data.
        code: the user's own files that the training uses.
        run_hash: hash of the run once it is finished.
        started: start time, milliseconds since 1970.
        is_chief: False in a worker that writes nothing.

    Raises:
        UsageError: a shorter run of the same settings cannot be trained on.
        ValueError: a run is to be resumed, and its file is damaged, it has more epochs
            than the settings ask for, or one of the user's files has changed since it
            began.
    """

    def __init__(
        self,
        config: config_lib.AnyConfig,
        stores: Mapping[str, splits.PackedSplit],
        code: Sequence[code_files.CodeFile] = (),
        command: str = '',
        is_chief: bool = True,
    ):
        prints = stores['train'].fingerprint, stores['valid'].fingerprint
        self._key_of = lambda config: config_lib.hash_training(config, *prints)
        self.key = self._key_of(config)
        self.code, self.is_chief = code, is_chief
        self.run_hash = uuid.uuid4().hex
        self.started = time.time_ns() // 1_000_000
        self._folder = files.expand(config.out_dir)
        self._path = os.path.join(self._folder, f'unfinished_{self.key}.npz')
        self._config = config
        self._command = command  # shown by `tpugraphs runs`
        self._keeps = False  # True where the file holds a state of this run
        self._resumed_at, self._seconds_before = time.monotonic(), 0.0
        self._held = contextlib.ExitStack()  # the lock, and the handler of Ctrl-C
        self._is_interrupted = self._delays = False
        self._state, self._finished = progress.State(), None
        kept = read_state(self._path) if config.resume else None
        if config.resume and kept is None:
            self._finished = self._find_longest_run()
        if self._finished is not None and _wants_more(self._finished, config):
            kept = read_state(run_files.make_state_path(self._finished.model_dir))
        self._resumes = kept is not None
        if kept is not None:
            arrays, described = kept
            try:
                run_hash = str(described.pop('run_hash'))
                started = int(described.pop('started'))
                self._seconds_before = float(described.pop('seconds'))
                described.pop('command', None)  # the one of this process replaces it
                epochs = len(described['curve']['epoch'])
            except untrusted.DAMAGE as error:
                raise _make_damage_error(self._path, str(error)) from None
            # It becomes part of a path, so nothing but a hash is taken.
            if not re.fullmatch('[0-9a-f]{32}', run_hash):
                raise _make_damage_error(self._path, 'run_hash')
            if epochs > config.epochs:
                raise ValueError(
                    f'--resume: {self._path} has {epochs} epochs: --epochs must be at '
                    f'least {epochs}, not {config.epochs}'
                )
            if self._finished is None:  # a run that trains on becomes another one
                self.run_hash, self.started = run_hash, started
            self._check_code(arrays, described.pop('code', []))
            self._state = self._restore_state(arrays, described)

    def __enter__(self) -> 'Unfinished':
        if not self.is_chief:
            return self
        saved.remove_leftovers(self._folder)
        lock = run_files.lock_file(self._folder, self.key)
        refusal = (
            f'--out_dir {self._folder}: another training of these settings writes '
            'there; wait for it, or choose another --seed or --out_dir'
        )
        self._held.enter_context(files.hold_lock(lock, refusal))
        # TensorFlow loses a KeyboardInterrupt now and then, or raises another error.
        default = signal.default_int_handler
        if signal.getsignal(signal.SIGINT) is default:
            with contextlib.suppress(ValueError):  # not in the main thread
                signal.signal(signal.SIGINT, self._note_interrupt)
                self._held.callback(signal.signal, signal.SIGINT, default)
        if not os.path.isdir(self._model_dir):
            # `saved.save_run` writes the run file before it renames the directory, so
            # this one is left over from an interruption.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(run_files.run_file(self._model_dir))
        return self

    @property
    def _model_dir(self) -> str:
        """Where the run is saved once it is finished."""
        return os.path.join(self._folder, f'model_{self.run_hash}')

    def __exit__(
        self, unused_kind: object, error: BaseException | None, unused_traceback: object
    ) -> None:
        self._held.close()
        if error is None or not (self._is_interrupted or text.is_interrupt(error)):
            return
        # Ctrl-C may have come while the file was renamed, so only the file says.
        kept = read_state(self._path) if self._keeps else None
        if kept is not None:
            epochs = text.count(len(kept[1]['curve']['epoch']), 'epoch')
            raise text.Interrupted(f'kept {epochs}', '--resume') from None
        if not isinstance(error, KeyboardInterrupt):  # a library's, in its place
            raise KeyboardInterrupt from None

    def _note_interrupt(self, *unused: object) -> None:
        """Notes the first Ctrl-C, and raises KeyboardInterrupt unless it is delayed."""
        is_first, self._is_interrupted = not self._is_interrupted, True
        if not (is_first and self._delays):
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def delay_interrupts(self) -> Iterator[None]:
        """Raises KeyboardInterrupt at the end of the block for Ctrl-C before or in it.

        A database whose transaction is interrupted stays locked.
        """
        self._delays = True
        try:
            yield
        finally:
            self._delays = False
        if self._is_interrupted:
            raise KeyboardInterrupt

    def _check_code(
        self, arrays: Mapping[str, np.ndarray], stored: Sequence[Sequence[str]]
    ) -> None:
        """Raises ValueError if a file of the user, (flag, path), has changed."""
        for number, (flag, path) in enumerate(stored):
            content = arrays[f'code_{number:04d}'].tobytes()
            if code_files.CodeFile(flag, path, content) not in self.code:
                # The content that the training began with, for the user to go back to.
                copy = f'unfinished_{self.key}_{os.path.basename(path)}'
                copy = os.path.join(self._folder, copy)
                with files.write_atomically(copy, 'wb') as stream:
                    stream.write(content)
                code_files.refuse(path, copy)

    @property
    def seconds(self) -> float:
        """Time spent on this run, including before interruptions."""
        return self._seconds_before + time.monotonic() - self._resumed_at

    def find_finished(self) -> run_files.RunFile | None:
        """Returns the run that --resume asks for, if nothing is left to do.

        A training may have been killed between saving its run and removing its state.
        """
        if not self._resumes:
            run = self._finished
            if run is not None:
                code_files.check_unchanged(run, self.code)
                if _wants_more(run, self._config):
                    print(f'note: {run.model_dir} has no state to train on')
            return run
        is_saved = os.path.isdir(self._model_dir)
        return finding.load(self._model_dir) if is_saved else None

    def _find_longest_run(self) -> run_files.RunFile | None:
        """Returns the run with these settings and data that has the most epochs.

        Runs with more epochs than the settings ask for are left out.

        Raises:
            UsageError: there is none, but a shorter one that cannot be trained on.
        """
        longest = shorter = None
        for model_dir in run_files.list_dirs(self._folder):
            with contextlib.suppress(ValueError, OSError):  # or damaged: left out
                run = finding.load(model_dir)
                is_ours = run.info.get('training_key') == self.key
                done = _count_epochs(run)
                # Trees alone have no epochs.
                is_ours &= not run.has_model or done <= self._config.epochs
                if is_ours and (longest is None or done > _count_epochs(longest)):
                    longest = run
                epochs = run.args['epochs']
                # The key of a schedule depends on --epochs; see `config.hash_training`.
                as_long = dataclasses.replace(self._config, epochs=epochs)
                if run.info.get('training_key') == self._key_of(as_long):
                    shorter = run if epochs < self._config.epochs else shorter
        flags = config_lib.format_epoch_flags(self._config)
        if longest is None and shorter is not None and flags:
            raise exits.UsageError(
                f'--resume: {shorter.model_dir} has --epochs={shorter.args["epochs"]}, '
                f'by which {" ".join(flags)} shapes every step; without --resume, a '
                'training starts over'
            )
        return longest

    def write_state(self, state: progress.State) -> None:
        """Writes the state from which a training resumes after this epoch."""
        if not self.is_chief:
            return
        arrays = {f'now_{i:04d}': w for i, w in enumerate(state.variables)}
        arrays.update({f'best_{i:04d}': w for i, w in enumerate(state.best_weights)})
        without_arrays = dataclasses.replace(state, best_weights=[], variables=[])
        described = dataclasses.asdict(without_arrays)
        described.update(
            run_hash=self.run_hash,
            started=self.started,
            seconds=self.seconds,
            command=self._command,
            code=[[file.flag, file.path] for file in self.code],
        )
        for number, file in enumerate(self.code):
            arrays[f'code_{number:04d}'] = np.frombuffer(file.content, np.uint8)
        self._keeps = True
        write_state_file(self._path, arrays, described)

    def move_state(self, run: run_files.RunFile) -> None:
        """Moves the state, if there is one, into its saved run, which can train on."""
        with contextlib.suppress(FileNotFoundError):
            os.replace(self._path, run_files.make_state_path(run.model_dir))

    def find_state(self) -> progress.State:
        """Returns a new state, or that of the interrupted run.

        Prints which.
        """
        if not self._config.resume:
            if os.path.exists(self._path):
                print('note: starting over; --resume continues the interrupted run')
        elif not self._resumes:
            where = f'there is no interrupted run of these settings in {self._folder}'
            print(f'note: --resume: {where}; starting over')
        else:
            self._keeps = True
            print(f'resuming after epoch {self._state.epochs_done}')
        return self._state

    def _restore_state(
        self, arrays: Mapping[str, np.ndarray], described: text.JsonObject
    ) -> progress.State:
        """Returns the state in a file; raises ValueError for that of other code."""
        # Numbered keys sort in the order of the variables.
        now, best = (
            [arrays[key] for key in sorted(arrays) if key.startswith(part)]
            for part in ('now_', 'best_')
        )
        try:
            return progress.State(
                **{**described, 'best_weights': best, 'variables': now}
            )
        except TypeError as error:
            raise self.make_misfit_error(error) from None

    def make_misfit_error(self, error: Exception) -> ValueError:
        """Returns the error for a state that other code has written."""
        return ValueError(
            f'{self._path} does not fit this code ({error}); delete it to start over'
        )


def _count_epochs(run: run_files.RunFile) -> int:
    """Returns the number of epochs of a run."""
    return len(run.curve.get('epoch', []))


def _wants_more(run: run_files.RunFile, config: config_lib.AnyConfig) -> bool:
    """Returns whether settings ask for more epochs than a finished run has."""
    stopped_early = _count_epochs(run) < run.args['epochs']
    patience = run.args['early_stop'] if stopped_early else 0
    return config.epochs > _count_epochs(run) and config.early_stop > patience


def write_state_file(
    path: str, arrays: dict[str, np.ndarray], described: text.JsonObject
) -> None:
    """Atomically replaces the file of a state: named arrays and JSON."""
    # The names, as a damaged zip directory may leave a member out.
    listed = {**described, _NAMES: sorted(arrays)}
    described_json = np.frombuffer(json.dumps(listed).encode(), np.uint8)
    # Not compressed: weights hardly shrink, and every epoch writes them.
    npz.write_arrays(path, {'json': described_json, **arrays}, save=np.savez)


def read_state(path: str) -> tuple[dict[str, np.ndarray], text.JsonObject] | None:
    """Returns arrays and JSON of a state; None without a file; raises ValueError."""
    if not os.path.exists(path):
        return None
    try:
        arrays = npz.read_all(path, _MAX_STATE_BYTES)
        # Not finite: the best score is -inf before there is one.
        described = untrusted.loads(arrays.pop('json').tobytes(), finite=False)
        # Arrays that are listed and not there, or there and not listed.
        missing = set(described.pop(_NAMES)) ^ set(arrays)
        if missing:
            raise ValueError(f'without {min(missing)}')
    except Exception as error:  # zip, zlib, header, JSON: all the same
        reason = str(error).removeprefix(f'{path}: ')
        raise _make_damage_error(path, reason) from None
    return arrays, described


def _make_damage_error(path: str, reason: str) -> ValueError:
    """Returns the error for a damaged file."""
    return ValueError(f'{path} is damaged ({reason}); delete it to start over')
