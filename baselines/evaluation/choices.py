"""Ranked configurations, and what choosing by them costs where times are known.

An autotuner that trusts a model runs its first choice, or measures the first few;
without one, the compiler runs its default.  Here both are compared with the fastest
configuration.  This module does not use models or files.
"""

from collections.abc import Callable, Iterator
import dataclasses
import functools

import numpy as np

from baselines.core import arrays
from baselines.core import text
from baselines.evaluation import metrics
from baselines.hlo import protos

TOP_K = (1, 5, 10)
# The members of the strong recipe agree on more pairs in three quarters of the kernels
# of the shipped validation split (benchmarks/uncertainty.py).
LEAST_AGREEMENT = 0.86


@dataclasses.dataclass(eq=False)
class RankedModule:
    """A module's c configurations, the one predicted fastest first."""

    module: str  # its graph id
    source: str  # the file that it is from
    nodes: int  # number of nodes of its graph
    run_index: np.ndarray  # int64 [c], the position of each among the file's runs
    scores: np.ndarray  # float32 [c], ascending; lower = predicted faster
    # from an entry of run_index to the configuration as text
    config_text: Callable[[int], str]
    runtimes: np.ndarray  # int64 [c], nanoseconds; 0 where not measured
    default: int | None  # the index of the compiler's default among the c, or None
    # from an entry of run_index to what JSON says of the configuration
    as_json: Callable[[int], text.JsonObject] = lambda run: {}
    # the share of pairs that the model's members order alike, see
    # `ensembles.agreement`; None of a model without members
    agreement: float | None = None
    # the HloModuleProto that the configurations are of; None of a record
    hlo: protos.HloModuleProto | None = None
    # by position: what `tpugraphs rank --measure` adds to a row
    times: dict[int, text.JsonObject] = dataclasses.field(default_factory=dict)
    untimed: str = ''  # why it timed nothing

    def __post_init__(self):
        """Orders the configurations by score; equal ones stay in order."""
        order = arrays.best_first(self.scores)
        self.run_index = np.asarray(self.run_index)[order]
        self.scores = np.asarray(self.scores)[order]
        self.runtimes = np.asarray(self.runtimes)[order]
        if self.default is not None:
            self.default = order.tolist().index(self.default)

    @property
    def is_unsure(self) -> bool:
        """Whether members disagree, so that the ranking is less reliable."""
        return self.agreement is not None and self.agreement < LEAST_AGREEMENT

    @functools.cached_property
    def fastest(self) -> int | None:
        """The shortest measured time, nanoseconds; None without any."""
        times = self.runtimes[self.runtimes > 0]
        return int(times.min()) if len(times) else None

    def row(self, position: int) -> text.JsonObject:
        """Describes the configuration of a rank, from 0.

        Returns:
            `rank`, from 1, `run_index` and `score`; `runtime_ns` and `slowdown`, over
            the fastest, None where it was not measured; `is_default`; `config`, a text;
            and what `times` has.
        """
        time = int(self.runtimes[position]) or None
        return {
            'rank': position + 1,
            'run_index': int(self.run_index[position]),
            'score': float(self.scores[position]),
            'runtime_ns': time,
            'slowdown': time / self.fastest if time and self.fastest else None,
            'is_default': position == self.default,
            'config': self.config_text(int(self.run_index[position])),
            **self.times.get(position, {}),
        }

    def rows(self, top: int | None = None) -> Iterator[text.JsonObject]:
        """Yields the rows of the `top` configurations ranked first, or of all."""
        return map(self.row, range(len(self.scores))[:top])


def figures(ranked: RankedModule) -> text.JsonObject | None:
    """Measures what the choices of a module cost, as ratios of measured times.

    Returns:
        None if fewer than two runtimes are known; or
          slowdown: k -> the fastest of the k ranked first / the fastest of all,
            both among those measured; at least 1.
          random: k -> the same, expected of k configurations drawn at random.
          default: the compiler's default / the fastest; None if not measured.
          against_default: the model's first choice / the default; below 1 the
            model is better.
        Of equal scores the expectation is taken, see `metrics.expected_best`.
    """
    measured = np.flatnonzero(ranked.runtimes > 0)
    if len(measured) < 2:
        return None
    times, scores = ranked.runtimes[measured], ranked.scores[measured]
    default = None
    if ranked.default is not None:
        default = int(ranked.runtimes[ranked.default]) or None
    return {
        'slowdown': {k: metrics.slowdown(scores, times, k) for k in TOP_K},
        'random': {k: 1 + metrics.random_top_k_error(times, k) for k in TOP_K},
        'default': default and float(default / times.min()),
        'against_default': default
        and metrics.expected_best(scores, times, 1) / default,
    }


@dataclasses.dataclass
class Summary:
    """Collects modules one by one; keeps a few numbers of each.

    Attributes:
        modules: number of modules.
        configurations: number of their configurations.
        unsure: number of modules ranked by members that disagree.
    """

    modules: int = 0
    configurations: int = 0
    unsure: int = 0
    _figures: list[text.JsonObject] = dataclasses.field(default_factory=list)

    def add(self, ranked: RankedModule) -> None:
        """Adds a module."""
        self.modules += 1
        self.configurations += len(ranked.scores)
        self.unsure += ranked.is_unsure
        measured = figures(ranked)
        if measured:
            self._figures.append(measured)

    def to_json(self) -> text.JsonObject:
        """Returns the closing figures.

        Returns:
            A dict: `modules`, `configurations`, `unsure`, `measured_modules` (those
            with two runtimes or more), and, means over these or None without any:
            `slowdown` and `random` {'1', '5', '10'}; and over those among them
            whose default was measured, or None: `default` with `modules`,
            `slowdown` (of the default, mean), `ratio` (first choice / default,
            geometric mean), and how many first choices are `faster`, the
            `same`, `slower`.
        """
        defaults = [f for f in self._figures if f['against_default']]
        default = None
        if defaults:
            # A geometric mean, as half the time and twice the time cancel out.
            against = np.array([f['against_default'] for f in defaults])
            default = {
                'modules': len(against),
                'slowdown': float(np.mean([f['default'] for f in defaults])),
                'ratio': float(np.exp(np.log(against).mean())),
                'faster': int((against < 1).sum()),
                'same': int((against == 1).sum()),
                'slower': int((against > 1).sum()),
            }
        return {
            'modules': self.modules,
            'configurations': self.configurations,
            'unsure': self.unsure,
            'measured_modules': len(self._figures),
            'slowdown': self._means('slowdown'),
            'random': self._means('random'),
            'default': default,
        }

    def _means(self, name: str) -> dict[str, float] | None:
        """Averages a figure over modules, by k; None without any module."""
        if not self._figures:
            return None
        return {
            str(k): float(np.mean([f[name][k] for f in self._figures])) for k in TOP_K
        }
