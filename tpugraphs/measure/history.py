"""Groups tuning records by kernel and machine, and selects the valid ones."""

import collections
import json
import math
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

from tpugraphs.measure import records


class History:
    """The measurements of a kernel with one machine and compiler.

    Times are compared only with the default's in the same passes; a configuration
    whose default is not on record counts as not measured.

    Attributes:
        measurements: the oldest first.
        defaults: group -> the measurement of the default in the group's passes.
    """

    def __init__(self) -> None:
        self.measurements: List[records.Measurement] = []
        self.defaults: Dict[str, records.Measurement] = {}

    def add(self, measurement: records.Measurement) -> None:
        """Adds a measurement that is later than the others."""
        self.measurements.append(measurement)
        if measurement.default and measurement.status == records.OK:
            self.defaults[measurement.group] = measurement

    def log_ratio(self, measurement: records.Measurement) -> float:
        """Returns the log of a measurement's least time over the default's."""
        default = self.defaults[measurement.group]
        return math.log(measurement.least_ns / default.least_ns)

    def results(self) -> Dict[str, records.Measurement]:
        """Returns the valid measurement of every configuration, by `key`.

        It is the latest with times, or else the latest failure.
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
        """Returns the measurements of `results` that have times, the fastest first."""
        times = [m for m in self.results().values() if m.status == records.OK]
        return sorted(times, key=self.log_ratio)


def by_kernel(
    measurements: Iterable[records.Measurement],
) -> Dict[Tuple[str, str], History]:
    """Groups measurements by fingerprint and place, in the order of kernels' names."""
    histories: Dict[Tuple[str, str], History] = collections.defaultdict(History)
    for measurement in sorted(measurements, key=lambda m: m.when):
        histories[measurement.fingerprint, measurement.place].add(measurement)
    names = {place: h.measurements[-1].kernel for place, h in histories.items()}
    return {
        place: histories[place]
        for place in sorted(histories, key=lambda place: names[place])
    }


def key(configuration: Mapping[str, Sequence[int]]) -> str:
    """Returns a configuration's sizes as text, equal for tuples and for JSON lists."""
    return json.dumps([configuration['output'], configuration['kernel']])
