"""The measurements of a kernel on one machine, and which of them to believe."""

import collections
import json
import math
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

from tpugraphs.measure import records


class History:
    """The measurements of a kernel with one machine and compiler.

    A configuration's time says something only beside the default's in the same passes;
    one whose default is not on record counts as not measured.

    Attributes:
        measurements: the oldest first.
        defaults: the default that was timed in a group's passes, by the group.
    """

    def __init__(self) -> None:
        self.measurements: List[records.Measurement] = []
        self.defaults: Dict[str, records.Measurement] = {}

    def add(self, measurement: records.Measurement) -> None:
        """Adds one that is later than the others."""
        self.measurements.append(measurement)
        if measurement.default and measurement.status == records.OK:
            self.defaults[measurement.group] = measurement

    def log_ratio(self, measurement: records.Measurement) -> float:
        """Returns the log of a least time over that of the default, of `results`."""
        default = self.defaults[measurement.group]
        return math.log(measurement.least_ns / default.least_ns)

    def results(self) -> Dict[str, records.Measurement]:
        """Returns the measurement to believe of each configuration, by `key`.

        That is the latest time, or the latest failure of one that has no time.
        """
        times, failures = {}, {}
        for measurement in self.measurements:
            configuration = key(measurement.configuration)
            if measurement.status != records.OK:
                failures[configuration] = measurement
            elif measurement.group in self.defaults:
                times[configuration] = measurement
        return {**failures, **times}

    def timed(self) -> List[records.Measurement]:
        """Returns those of `results` that have times, the fastest first."""
        times = [m for m in self.results().values() if m.status == records.OK]
        return sorted(times, key=self.log_ratio)


def by_kernel(
    measurements: Iterable[records.Measurement],
) -> Dict[Tuple[str, str], History]:
    """Returns histories by fingerprint and place, in the order of kernels' names."""
    histories: Dict[Tuple[str, str], History] = collections.defaultdict(History)
    for measurement in sorted(measurements, key=lambda m: m.when):
        histories[measurement.fingerprint, measurement.place].add(measurement)
    names = {place: one.measurements[-1].kernel for place, one in histories.items()}
    return {
        place: histories[place]
        for place in sorted(histories, key=lambda place: names[place])
    }


def key(configuration: Mapping[str, Sequence[int]]) -> str:
    """Returns the same for a configuration as it is drawn and as a file holds it."""
    return json.dumps([configuration['output'], configuration['kernel']])
