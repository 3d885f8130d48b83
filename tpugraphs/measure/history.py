"""What was measured of one kernel on one machine, and which of it to believe."""

import collections
import json
import math
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from tpugraphs.measure import records

# Times of two groups are put beside each other if the default's least times differ
# by no more: then the machine was in the same state.
_MOST_DRIFT = 1.1


class History:
    """The measurements of a kernel with one machine and compiler.

    A configuration's time says something beside the default's in the same passes
    alone; without one it is as if it had not been measured.

    Attributes:
        measurements: the oldest first.
    """

    def __init__(self) -> None:
        self.measurements: List[records.Measurement] = []
        self._defaults: Dict[str, records.Measurement] = {}  # of each group

    def add(self, measurement: records.Measurement) -> None:
        """Adds one that is later than the others."""
        self.measurements.append(measurement)
        if measurement.default and measurement.status == records.OK:
            self._defaults[measurement.group] = measurement

    def default_of(
        self, measurement: records.Measurement
    ) -> Optional[records.Measurement]:
        """Returns the default that was timed in the same passes; None without one."""
        return self._defaults.get(measurement.group)

    def log_ratio(self, measurement: records.Measurement) -> float:
        """Returns the log of a least time over that of the default, of `results`."""
        default = self._defaults[measurement.group]
        return math.log(measurement.least_ns / default.least_ns)

    def results(self) -> Dict[str, records.Measurement]:
        """Returns what to believe of each configuration, by `key`.

        That is the time of most passes, of these the latest; if there is none, the
        latest failure.
        """
        believed: Dict[str, records.Measurement] = {}
        for measurement in self.measurements:
            timed = measurement.status == records.OK
            before = believed.get(key(measurement.configuration))
            passes = len(before.times_ns) if before else 0
            if timed and not self.default_of(measurement):
                continue
            if len(measurement.times_ns) >= passes:
                believed[key(measurement.configuration)] = measurement
        return believed

    def latest(self, least: int, most: int) -> Dict[str, records.Measurement]:
        """Returns the latest times that can be put beside each other, by `key`.

        These are times whose default took about as long as in the latest passes.

        Args:
            least: passes of what is used.
            most: passes of what is used.
        """
        believed: Dict[str, records.Measurement] = {}
        first: Optional[records.Measurement] = None
        for measurement in reversed(self.measurements):
            default = self.default_of(measurement)
            if default and least <= len(measurement.times_ns) <= most:
                first = first or default
                if not drifted(first.times_ns, default.times_ns):
                    believed.setdefault(key(measurement.configuration), measurement)
        return believed


def by_kernel(
    measurements: Iterable[records.Measurement],
) -> Dict[Tuple[str, str, str], History]:
    """Returns histories by kernel, task and machine, in the order of their names."""
    histories: Dict[Tuple[str, str, str], History] = collections.defaultdict(History)
    for measurement in sorted(measurements, key=lambda m: (m.name, m.when)):
        place = measurement.kernel, measurement.task, measurement.place
        histories[place].add(measurement)
    return dict(histories)


def drifted(one_ns: Sequence[int], other_ns: Sequence[int]) -> bool:
    """Whether the default took another time in some passes than in others.

    Args:
        one_ns: its times in some passes, nanoseconds.
        other_ns: its times in others.
    """
    least = sorted((min(one_ns), min(other_ns)))
    return least[1] > _MOST_DRIFT * least[0]


def key(configuration: Dict[str, Any]) -> str:
    """Returns the same for a configuration as it is drawn and as a file holds it."""
    return json.dumps(configuration, sort_keys=True)
