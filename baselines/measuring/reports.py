"""What a collection says while it runs, and at the end."""

import sys
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import tqdm

from baselines.measuring import collection
from baselines.measuring import layouts
from baselines.measuring import tiles


def collect(loaders: Sequence[Callable], options: collection.Options) -> int:
    """Collects, says what came of it, and returns an exit code."""
    bar = _Bar()
    items_of = tiles.items_of if options.task == 'tile' else layouts.items_of
    try:
        report = collection.collect(loaders, options, items_of, bar.update)
    except KeyboardInterrupt:
        bar.close()
        print(f'\nstopped; --resume goes on with {options.output}', file=sys.stderr)
        return 130
    finally:
        bar.close()
    for line in summary(report, options.output):
        print(line)
    return 0


class _Bar:
    """Kernels done, configurations a minute, time left."""

    def __init__(self):
        self._bar = None
        self._first, self._began = 0, 0.0

    def update(self, report, total, seconds) -> None:
        """Shows where a collection stands."""
        if self._bar is None:
            self._bar = tqdm.tqdm(total=total, unit='kernel', file=sys.stderr)
            # What was there before is no work of this call.
            self._bar.initial = report.kernels - 1
            self._first, self._began = report.configs, seconds
        rate = (report.configs - self._first) / max(seconds - self._began, 1e-9) * 60
        self._bar.n = report.kernels
        self._bar.set_postfix_str(f'{rate:.0f} configurations/min')

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def summary(report: Any, output: str) -> Iterator[str]:
    """Yields the lines that a collection ends with.

    Args:
        report: a `collection.Report`.
        output: the folder.
    """
    yield (
        f'{report.kernels} kernels or programs with {report.configs:,} '
        f'configurations in {output}'
    )
    yield (
        f"Kendall's tau between halves of the passes: median "
        f'{np.median(report.taus):.2f}; {report.noisy} noisy ones set apart'
    )
    if report.left:
        yield f'{report.left} left for lack of time; --resume goes on'
    for title, counts in (('skipped', report.skipped), ('dropped', report.dropped)):
        if counts:
            parts = ', '.join(f'{n} {why}' for why, n in sorted(counts.items()))
            yield f'{title}: {parts}'
    for line in report.failed:
        yield f'program skipped: {line}'
