"""Defines callbacks of a training, and silences a training."""

import contextlib
import io
import sys
from typing import Any, Dict, Iterator, List, Protocol


class Training:
    """A running training, as callbacks see it.

    Attributes:
        settings: of the training, by the names of the scripts' flags.
        curve: that of `Run`, for the epochs so far.
    """

    def __init__(self, settings: Dict[str, Any]):
        self.settings = settings
        self.curve: Dict[str, List[Any]] = {}

    def __repr__(self) -> str:
        epochs = len(self.curve.get('epoch', ()))
        return f'<Training of {self.settings["model"]} after {epochs} epochs>'


class Callback(Protocol):
    """An object that `train` calls after its epochs."""

    def on_epoch(self, run: Training, metrics: Dict[str, float]) -> None:
        """Handles the end of an epoch of a graph model.

        Args:
            run: the training.
            metrics: of the epoch, by the names of `Run.curve`: epoch (from 0),
                train_loss, val_opa, ...; without those that were not measured.
        """


class _NoTerminal(io.TextIOBase):
    """A stream that is no terminal, so that no progress bars are written to it."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, content: str) -> int:
        return self._stream.write(content)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Silences stdout and progress bars; notes on stderr are still printed."""
    with contextlib.redirect_stdout(io.StringIO()):
        with contextlib.redirect_stderr(_NoTerminal(sys.stderr)):
            yield
