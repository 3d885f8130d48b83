"""Shows the progress of long work: a bar on a terminal, plain lines in a log.

    with phases.Phase('packing train', 2242, 'kernel') as phase:
        for kernel in kernels:
            ...
            phase.update()

A log has a line every 30 seconds and one when a phase that long has ended, as INFO; and
as DEBUG one when a phase begins, and when a short one has ended.  They go to the logger
`tpugraphs`, which is silent unless it is listened to: long commands do
(`exits.log_progress`), and Python does with `logging.basicConfig(level=logging.INFO)`.
"""

from collections.abc import Iterable, Iterator
import logging
import time
from typing import TypeVar

import tqdm

from baselines.core import text

_Item = TypeVar('_Item')
_EVERY = 30.0  # seconds between the lines of a log


def get_logger() -> logging.Logger:
    """Returns the logger of progress lines."""
    return logging.getLogger('tpugraphs')


class Phase:
    """Work on a known number of items; a context manager.

    Args:
        title: name of the work, such as 'ranking test'.
        unit: an item; 'B' for bytes, which a bar shows in megabytes.
        delay: seconds after which the bar appears; a log has no lines of short work.

    Attributes:
        done: the number of items that are done.
    """

    def __init__(
        self, title: str, total: int, unit: str, done: int = 0, delay: float = 0
    ):
        self._title, self._unit, self.done = title, unit, done
        self._least_level = logging.INFO if delay else logging.DEBUG
        self._total, self._remark = total, ''
        self._bar = tqdm.tqdm(
            desc=title,
            total=total,
            initial=done,
            unit=unit,
            unit_scale=unit == 'B',
            leave=False,
            disable=None,  # unless stderr is a terminal
            delay=delay,
        )
        self._is_logged = self._bar.disable  # tqdm disables a bar without a terminal

    def __enter__(self) -> 'Phase':
        self._began = self._said = time.monotonic()
        if self._least_level == logging.DEBUG:
            self._log(logging.DEBUG, self._format_total())
        return self

    def __exit__(self, error: type[BaseException] | None, *unused: object) -> None:
        self._bar.close()
        if error is None:
            level = logging.DEBUG if self._said == self._began else logging.INFO
            self._log(level, f'done in {time.monotonic() - self._began:.1f} s')

    def update(self, count: int = 1) -> None:
        """Adds to the number of items done."""
        self.done += count
        self._bar.update(count)
        now = time.monotonic()
        if now - self._said >= _EVERY:
            self._said = now
            done = self.done / 1e6 if self._unit == 'B' else self.done
            seconds = now - self._began
            progress = f'{done:,.0f} of {self._format_total()} in {seconds:.0f} s'
            self._log(logging.INFO, f'{progress}{self._remark}')

    def set_remark(self, remark: str) -> None:
        """Sets the text shown after the numbers, by the next update."""
        self._remark = f', {remark}'
        self._bar.set_postfix_str(remark, refresh=False)

    def _format_total(self) -> str:
        """Returns the number of all items as text."""
        if self._unit == 'B':
            return f'{self._total / 1e6:,.0f} MB'
        return text.count(self._total, self._unit)

    def _log(self, level: int, message: str) -> None:
        if self._is_logged and level >= self._least_level:
            get_logger().log(level, '%s: %s', self._title, message)


def each(
    items: Iterable[_Item], title: str, total: int, unit: str, delay: float = 0
) -> Iterator[_Item]:
    """Yields items, and shows how many were taken; see `Phase`."""
    with Phase(title, total, unit, delay=delay) as phase:
        for item in items:
            yield item
            phase.update()
