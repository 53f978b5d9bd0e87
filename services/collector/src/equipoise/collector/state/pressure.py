"""The pressure of every node and pod, as it was measured last."""

import math
from collections.abc import Iterable, Mapping

from equipoise.collector.decisions.pressure.pressure_readings import PressureReading, without_unit
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure, NodePressure, Pressure

UNIT_MEMORY = 86_400.0
"""Seconds for which the counters of a node are unknown after a value showed another unit: at low pressure, a wrong
unit looks like a possible value."""


POD_PERIOD = 0.3
"""The share of the lifetime of a reading after which pods are measured again: five more queries about all pods in every
round would be expensive."""


class PressureStore:
    """Readings by node UID, pressure by pod UID."""

    def __init__(self, max_age: float) -> None:
        """`max_age`: seconds for which a reading may be used."""
        self._max_age = max_age
        self._readings: dict[str, PressureReading] = {}
        self._wrong_units: dict[str, tuple[float, str]] = {}
        """What shows a wrong unit, and when it was seen, by node UID."""

        self._pods: Mapping[str, MeasuredPodPressure] = {}
        self._pods_at = -math.inf

    def record(self, readings: Mapping[str, PressureReading], at: float) -> None:
        """Replaces the readings, by node UID, with those of a query at `at`."""
        self._wrong_units |= {uid: (at, item.wrong_unit) for uid, item in readings.items() if item.wrong_unit}
        self._wrong_units = {uid: seen for uid, seen in self._wrong_units.items() if 0.0 <= at - seen[0] <= UNIT_MEMORY}
        self._readings = {
            uid: without_unit(reading.sampled_at, self._wrong_units[uid][1]) if uid in self._wrong_units else reading
            for uid, reading in readings.items()
        }

    def record_pods(self, pods: Mapping[str, MeasuredPodPressure], at: float) -> None:
        """Replaces the pressure of pods, by pod UID, with that of a query at `at`."""
        self._pods, self._pods_at = pods, at

    def pods_due(self, at: float) -> bool:
        """Whether pods should be measured at this time, so that what is known of them never becomes too old."""
        return not 0.0 <= at - self._pods_at < POD_PERIOD * self._max_age

    def message(self, uid: str, placed: Iterable[PlacedPod], now: float) -> NodePressure | None:
        """The pressure of a node and of these pods of it; None if it was not measured, or too long ago."""
        reading = self._readings.get(uid)
        if reading is None or now - reading.sampled_at > self._max_age:
            return None
        pods_known = now - self._pods_at <= self._max_age
        fresh = self._pods if pods_known else {}
        return NodePressure(
            sampled_at=reading.sampled_at,
            waiting=reading.waiting,
            unknown=dict(reading.unknown),
            pods={pod.uid: pressure for pod in placed if (pressure := fresh.get(pod.uid)) is not None},
            pods_known=pods_known,
        )

    def waiting(self, now: float) -> list[Pressure]:
        """The known pressure of each node."""
        return [
            reading.waiting
            for reading in self._readings.values()
            if reading.waiting != Pressure() and now - reading.sampled_at <= self._max_age
        ]

    @property
    def readings(self) -> Mapping[str, PressureReading]:
        """The readings by node UID."""
        return self._readings
