"""The state of a training after each epoch, to go on from."""

import contextlib
import dataclasses
import io
import json
import os
import re
import time
from typing import Any, Dict, Mapping, Optional, Tuple

import numpy as np

from baselines import config as config_lib
from baselines import files
from baselines import text
from baselines.data import npz
from baselines.data.packed import splits
from baselines.runs import finding
from baselines.runs import run_files
from baselines.runs import saved
from baselines.training import loop

_NAMES = 'arrays'  # of the arrays beside the JSON
_MAX_STATE_BYTES = 1 << 40


class Unfinished:
    """The unfinished run of settings and data, whose state is a file.

    As a context manager it keeps other processes from the same training, and says
    on Ctrl-C how many epochs are kept.

    Args:
        config: the settings.
        stores: the splits, by name.

    Attributes:
        key: of the settings and data.
        run_hash: of the run when it is finished.
        started: milliseconds since 1970, when it was begun.

    Raises:
        ValueError: a run is to be resumed, and its file is damaged.
    """

    def __init__(
        self, config: config_lib.AnyConfig, stores: Mapping[str, splits.PackedSplit]
    ):
        self.key = config_lib.training_key(
            config, stores['train'].fingerprint, stores['valid'].fingerprint
        )
        self.run_hash = saved.new_hash()
        self.started = time.time_ns() // 1_000_000
        self._folder = files.expand(config.out_dir)
        self._path = os.path.join(self._folder, f'unfinished_{self.key}.npz')
        self._config = config
        self._keeps = False  # whether the file, if there is one, is of this run
        self._began, self._before = time.monotonic(), 0.0
        self._lock = contextlib.ExitStack()
        self._interrupted = read(self._path) if config.resume else None
        if self._interrupted is not None:
            described = self._interrupted[1]
            # Earlier versions kept none of them.
            self.run_hash = str(described.pop('run_hash', self.run_hash))
            self.started = int(described.pop('started', self.started))
            self._before = float(described.pop('seconds', 0.0))
            if not re.fullmatch('[0-9a-f]{32}', self.run_hash):
                raise ValueError(
                    f'{self._path} is damaged (run_hash); delete it to start anew'
                )

    def __enter__(self) -> 'Unfinished':
        saved.remove_leftovers(self._folder)
        lock = os.path.join(self._folder, f'.unfinished_{self.key}.lock')
        refusal = (
            f'--out_dir {self._folder}: another training of these settings writes there'
        )
        self._lock.enter_context(files.locked(lock, refusal))
        return self

    def __exit__(
        self, unused_kind: Any, error: Optional[BaseException], unused_traceback: Any
    ) -> None:
        self._lock.close()
        if not text.is_interrupt(error):
            return
        # Ctrl-C may have come as the file took its name: it alone knows.
        kept = read(self._path) if self._keeps else None
        if kept is not None:
            epochs = text.count(len(kept[1]['curve']['epoch']), 'epoch')
            raise text.Interrupted(f'kept {epochs}', '--resume') from None
        if not isinstance(error, KeyboardInterrupt):  # Keras has failed cleaning up
            raise KeyboardInterrupt from None

    @property
    def seconds(self) -> float:
        """The time of work on this run, also before it was interrupted."""
        return self._before + time.monotonic() - self._began

    def finished(self) -> Optional[run_files.Run]:
        """Returns the run to resume, if it was finished.

        A training may have been killed between saving its run and removing its
        state, or be asked to go on where there is nothing left to do.
        """
        if not self._config.resume:
            return None
        if self._interrupted is None:
            return self._saved_run()
        model_dir = os.path.join(self._folder, f'model_{self.run_hash}')
        if os.path.isdir(model_dir):
            return finding.load(model_dir)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(run_files.run_file(model_dir))  # `save` writes it first
        return None

    def _saved_run(self) -> Optional[run_files.Run]:
        """Returns a whole run of these settings and data in the folder, or None."""
        for model_dir in run_files.list_dirs(self._folder):
            with contextlib.suppress(ValueError, OSError):
                run = finding.load(model_dir)
                if run.info.get('training_key') == self.key:
                    return run
        return None

    def keep(self, state: loop.State) -> None:
        """Writes everything that it takes to go on after this epoch."""
        arrays = {f'now_{i:04d}': w for i, w in enumerate(state.variables)}
        arrays.update({f'best_{i:04d}': w for i, w in enumerate(state.best_weights)})
        without_arrays = dataclasses.replace(state, best_weights=[], variables=[])
        described = dataclasses.asdict(without_arrays)
        described.update(
            run_hash=self.run_hash, started=self.started, seconds=self.seconds
        )
        self._keeps = True
        write(self._path, arrays, described)

    def remove(self) -> None:
        """Removes the state, if there is one: the run is saved."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def state(self) -> loop.State:
        """Returns the state to go on from: of an interrupted run, or a new one.

        Raises:
            ValueError: the file is of other code.
        """
        if not self._config.resume:
            if os.path.exists(self._path):
                print(
                    'note: a run of these settings was interrupted; --resume would '
                    'go on with it.\nStarting anew'
                )
            return loop.State()
        if self._interrupted is None:
            print(
                'note: --resume: there is no interrupted run of these settings in\n'
                f'{self._config.out_dir}; starting anew'
            )
            return loop.State()
        arrays, described = self._interrupted
        now, best = (
            [arrays[key] for key in sorted(arrays) if key.startswith(part)]
            for part in ('now_', 'best_')
        )
        try:
            state = loop.State(**{**described, 'best_weights': best, 'variables': now})
        except TypeError as error:
            raise self.misfit(error) from None
        self._keeps = True
        print(f'resuming after epoch {state.epochs_done}')
        return state

    def misfit(self, error: Exception) -> ValueError:
        """Returns the error to raise where the state is of other code."""
        return ValueError(
            f'{self._path} does not fit this code ({error}); delete it to start anew'
        )


def write(path: str, arrays: Dict[str, np.ndarray], described: Dict[str, Any]) -> None:
    """Replaces the file of a state, whole or not at all: named arrays, and JSON."""
    # The names, as a damaged zip directory may leave a member out.
    listed = {**described, _NAMES: sorted(arrays)}
    described_json = np.frombuffer(json.dumps(listed).encode(), np.uint8)
    # In memory first: on a full disk a zip file complains once more, on
    # stderr, when it is collected.
    content = io.BytesIO()
    np.savez(content, json=described_json, **arrays)
    with files.write_atomically(path, 'wb') as stream:
        stream.write(content.getbuffer())


def read(path: str) -> Optional[Tuple[Dict[str, np.ndarray], Dict[str, Any]]]:
    """Returns the arrays and the JSON of a state, or None where there is no file.

    Raises:
        ValueError: the file is damaged.
    """
    if not os.path.exists(path):
        return None
    try:
        arrays = npz.read_all(path, _MAX_STATE_BYTES)
        described = json.loads(arrays.pop('json').tobytes())
        missing = set(described.pop(_NAMES)) ^ set(arrays)
        if missing:
            raise ValueError(f'without {min(missing)}')
    except Exception as error:  # zip, zlib, header, JSON: all the same
        reason = str(error).removeprefix(f'{path}: ')
        raise ValueError(
            f'{path} is damaged ({reason}); delete it to start anew'
        ) from None
    return arrays, described
