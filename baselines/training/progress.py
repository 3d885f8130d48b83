"""The state of a training after an epoch, and how it is shown.

The table of epochs fits into 80 columns.  A terminal shows bars,
and of many short epochs not every row; a log has all rows.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import math
import sys
from typing import Any

import numpy as np

from baselines.core import text

_BETWEEN = 2.0  # least seconds of training between two rows on a terminal
_RECENT = 5  # epochs whose mean time is expected of the others
# A larger validation loss means nothing: features are outside their range in the
# training split, or the training diverges.
_MOST_LOSS = 1e9
_HUGE_LOSS = (
    'note: the validation loss is {:.1e}: features of the validation split are far\n'
    "outside the training split's; train on more data"
)
_DIVERGED = 'note: losses are huge ({:.1e} in training): lower --lr'

CURVES = (
    'epoch',
    'train_loss',
    'train_opa',
    'val_loss',
    'val_opa',
    'train_seconds',
    'val_seconds',
)


@dataclasses.dataclass
class State:
    """The state of a training after an epoch: everything needed to resume.

    Attributes:
        curve: per finished epoch its number, losses and ordered-pair accuracies,
            and seconds; `val_tau`, where it is measured.
        best_score: highest validation score so far, see `Validation`.
        best_epoch: the epoch of that score; -1: none yet, or the initial weights.
        best_weights: the model's weights at that epoch.
        variables: everything that a step changes, from `Steps.get_state`.
    """

    curve: dict[str, list[float | None]] = dataclasses.field(
        default_factory=lambda: {name: [] for name in CURVES}
    )
    best_score: float = -math.inf
    best_epoch: int = -1
    best_weights: list[np.ndarray] = dataclasses.field(default_factory=list)
    variables: list[np.ndarray] = dataclasses.field(default_factory=list)

    @property
    def epochs_done(self) -> int:
        """Number of finished epochs."""
        return len(self.curve['epoch'])

    def add_epoch(
        self,
        row: Sequence[float | None],
        measured: 'Validation',
        weights: list[np.ndarray],
    ) -> bool:
        """Adds a finished epoch; returns whether it is the best so far.

        Without a validation score every epoch counts as better than the last.

        Args:
            row: values of `CURVES`.
        """
        for name, value in zip(CURVES, row, strict=True):
            self.curve[name].append(value)
        if measured.tau is not None:
            self.curve.setdefault('val_tau', []).append(measured.tau)
        score = -math.inf if measured.score is None else measured.score
        is_better = measured.score is None or score > self.best_score
        if is_better:
            self.best_score, self.best_epoch = score, self.epochs_done - 1
            self.best_weights = weights
        return is_better


AfterEpoch = Callable[[State], None]


class MisfitError(ValueError):
    """Raised for a state that belongs to another model."""


@dataclasses.dataclass(frozen=True, slots=True)
class Validation:
    """Measurements of a model; a value is None where it could not be measured."""

    loss: float | None  # the training loss on validation lists
    opa: float | None  # ordered-pair accuracy
    # Kendall's tau; if given, it chooses the best epoch instead of OPA
    tau: float | None = None

    @property
    def score(self) -> float | None:
        """The value that chooses the best epoch, tau or OPA; None: not measured."""
        return self.opa if self.tau is None else self.tau

    @property
    def measure(self) -> str:
        """The name of `score`, 'OPA' or 'tau'."""
        return 'OPA' if self.tau is None else 'tau'


class Progress:
    """The table of epochs; a context manager that ends it with the last row.

    Args:
        say: prints a line.
        epochs: most epochs of the training.
        patience: epochs without a better one after which it stops.
        then: what follows the epochs, for the line above the table.
    """

    def __init__(
        self, say: Callable[[str], None], epochs: int, patience: int, then: str = ''
    ):
        self._say, self._epochs = say, epochs
        self._legend = f'*: best so far; left: at most{then}'
        if patience < epochs:
            after = f'{text.count(patience, "epoch")} without a better one'
            self._legend += f'; stops after {after}'
        self._headed = False
        self._noted = False  # a huge loss
        self._skipped = ''  # the last row, if it was not printed
        self._since = math.inf  # seconds of training since a row was printed

    def __enter__(self) -> 'Progress':
        return self

    def __exit__(self, *unused_error: object) -> None:
        if self._skipped:
            self._say(self._skipped)

    def show_epoch(self, curve: Mapping[str, Sequence[Any]], is_better: bool) -> None:
        """Prints the row of the last epoch, and the header before the first.

        On a terminal it prints rows of short epochs every few seconds only.

        Args:
            curve: see `State`.
            is_better: whether it is the best epoch so far.
        """
        last = {name: values[-1] for name, values in curve.items()}
        loss = last['val_loss']
        is_huge, diverged = _is_huge(loss), _is_huge(last['train_loss'])
        if is_huge:
            last['val_loss'] = None
        names = {'train_loss': 'loss', 'train_opa': 'train OPA'}
        names.update(val_loss='val loss', val_opa='val OPA')
        if 'val_tau' in curve:
            names['val_tau'] = 'val tau'
        # The columns keep their places when the epoch gets another digit.
        most = len(str(self._epochs))
        first = max(2 * most + 1, len('epoch'))
        widths = [max(len(title), 7) for title in names.values()]
        if not self._headed:
            self._headed = True
            titles = '  '.join(t.rjust(w) for t, w in zip(names.values(), widths))
            self._say(self._legend)
            self._say(f'{"epoch":>{first}}  {titles}     time    left')
        number = f'{last["epoch"] + 1:{most}d}/{self._epochs}'
        row = '  '.join(show_value(last[n]).rjust(w) for n, w in zip(names, widths))
        times = np.add(curve['train_seconds'], curve['val_seconds'])
        left = (self._epochs - 1 - last['epoch']) * times[-_RECENT:].mean()
        row = f'{number:>{first}}  {row}  {times[-1]:5.1f} s  {_show_time(left):>6}'
        self._skipped = f'{row}{" *" * is_better}'
        self._since += times[-1]
        if self._since >= _BETWEEN or not sys.stdout.isatty():
            self._say(self._skipped)
            self._skipped, self._since = '', 0.0
        if (is_huge or diverged) and not self._noted:
            self._noted = True
            train_loss = last['train_loss']
            note = (_DIVERGED, train_loss) if diverged else (_HUGE_LOSS, loss)
            self._say(note[0].format(note[1]))


def _is_huge(loss: float | None) -> bool:
    """Returns whether a loss is too large to mean anything."""
    return loss is not None and abs(loss) > _MOST_LOSS


def format_last_line(state: State, patience: int) -> str:
    """Formats the line below the table: the best epoch, and why training stopped.

    Args:
        patience: epochs without a better one after which training was stopped; 0 if
            it was not.
    """
    measure = 'tau' if state.curve.get('val_tau') else 'OPA'
    best = f'epoch {state.best_epoch + 1}' if state.best_epoch >= 0 else 'the start'
    if math.isfinite(state.best_score):  # else nothing was validated
        best += f' (val {measure} {state.best_score:.3f})'.replace('0.', '.', 1)
    if not patience:
        return f'best: {best}'
    since = text.count(patience, 'epoch')
    return f'stopped early: best was {best}, none better in {since}'


def _show_time(seconds: float) -> str:
    """Formats a time in six characters at most: '45 s', '48 min', '5.2 h'."""
    if seconds < 99.5:
        return f'{seconds:.0f} s'
    minutes = seconds / 60
    return f'{minutes:.0f} min' if minutes < 99.5 else f'{minutes / 60:.3g} h'


def show_value(value: float | None) -> str:
    """Formats a number in seven characters."""
    if value is None:
        return '-'
    return f'{value:.4f}' if abs(value) < 100 else f'{value:.6g}'
