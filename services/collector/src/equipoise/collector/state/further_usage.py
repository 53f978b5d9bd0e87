"""The usage of further resources of every node and pod: kept until it is replaced or too old."""

from collections.abc import Iterable, Mapping

import msgspec

from equipoise.collector.decisions.further.readings import FurtherReading
from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.messages.utilization import NodeUtilization, ResourceStatus
from equipoise.contracts.messages.values.resources import Resources

NOT_MEASURED = "not measured yet"

Capacity = tuple[float | None, str]
"""A capacity, or None and why it is unknown."""


class FurtherUsage:
    """Readings by node UID, capacities by node UID, and amounts by pod UID; each by resource.

    A failed query changes nothing here: the previous values remain until they are too old.
    """

    def __init__(self, load: LoadSettings) -> None:
        self._load = load
        self._readings: dict[str, dict[tuple[str, str], FurtherReading]] = {}
        """The readings by node UID, then by window and resource."""

        self._capacities: dict[str, dict[str, Capacity]] = {}
        self._failures: dict[tuple[str, str], str] = {}
        """Why the last queries about a resource in a window had no result, by window and resource."""

        self._pods: dict[str, tuple[float, Mapping[str, float]]] = {}
        """The time of the query, and the amounts by pod UID; by resource."""

    def record(self, window: Window, resource: str, readings: Mapping[str, FurtherReading]) -> None:
        """Records readings by node UID."""
        self._failures.pop((window.name, resource), None)
        for uid, reading in readings.items():
            self._readings.setdefault(uid, {})[(window.name, resource)] = reading

    def record_failure(self, window: Window, resource: str, why: str) -> None:
        """Records why a query failed: the reason of nodes that were never measured."""
        self._failures[(window.name, resource)] = f"its query fails: {why}"

    def record_capacities(self, resource: str, capacities: Mapping[str, Capacity]) -> None:
        """Records capacities by node UID."""
        for uid, capacity in capacities.items():
            self._capacities.setdefault(uid, {})[resource] = capacity

    def record_pods(self, resource: str, amounts: Mapping[str, float], at: float) -> None:
        """Records the usage by pod UID from a query at `at`."""
        self._pods[resource] = at, amounts

    def retain(self, uids: Iterable[str]) -> None:
        """Deletes every node but these."""
        kept = set(uids)
        self._readings = {uid: value for uid, value in self._readings.items() if uid in kept}
        self._capacities = {uid: value for uid, value in self._capacities.items() if uid in kept}

    def with_further(self, usage: Resources, pod_uid: str, now: float) -> Resources:
        """The usage of a pod with its further resources, as far as they are known."""
        if not self._pods:
            return usage  # a cluster has 150,000 pods, and most have no further resource
        max_age = self._load.lifetime(self._load.shortest)
        further = {
            resource: amount
            for resource, (at, amounts) in self._pods.items()
            if now - at <= max_age and (amount := amounts.get(pod_uid)) is not None
        }
        return msgspec.structs.replace(usage, further=further) if further else usage

    def message(self, message: NodeUtilization, labels: Mapping[str, str], now: float) -> NodeUtilization:
        """The message of a node with its further resources. `labels`: those of the node; `now`: the source's clock."""
        expected = [name for name, resource in self._load.resources.items() if resource.is_on(labels)]
        if not expected:
            return message
        base = {
            name: amount
            for name in expected
            if (amount := self._capacities.get(message.uid, {}).get(name, (None, ""))[0]) is not None
        }
        statuses = {name: self._status(message.uid, name, now) for name in expected}
        # What a pod uses of a resource is as old as the value of its node.
        known = {name for name, status in statuses.items() if not status.unknown}
        windows = {
            name: msgspec.structs.replace(
                usage, mean=msgspec.structs.replace(usage.mean, further=self._means(message.uid, name, expected, now))
            )
            for name, usage in message.windows.items()
        }
        return msgspec.structs.replace(
            message,
            base=msgspec.structs.replace(message.base, further=base or None),
            windows=windows,
            pods={uid: _limited(usage, known) for uid, usage in message.pods.items()},
            resources=statuses,
        )

    def _means(self, uid: str, window: str, expected: Iterable[str], now: float) -> dict[str, float] | None:
        """The known usage in a window by resource; None if there is none."""
        readings = ((name, self._reading(uid, window, name, now)) for name in expected)
        return {name: reading.mean for name, reading in readings if reading.mean is not None} or None

    def _reading(self, uid: str, window: str, resource: str, now: float) -> FurtherReading:
        reading = self._readings.get(uid, {}).get((window, resource)) or FurtherReading(
            unknown=self._failures.get((window, resource), NOT_MEASURED)
        )
        settings = self._load.window(window)
        if reading.mean is None or (settings and now - reading.sampled_at <= self._load.lifetime(settings)):
            return reading
        return msgspec.structs.replace(
            reading, mean=None, unknown=f"newest sample is {now - reading.sampled_at:.0f} s old"
        )

    def _status(self, uid: str, resource: str, now: float) -> ResourceStatus:
        reading = self._reading(uid, self._load.shortest.name, resource, now)
        capacity, why = self._capacities.get(uid, {}).get(resource, (None, NOT_MEASURED))
        # A newer sample of a longer window would make an old value of this one look fresh.
        return ResourceStatus(
            sampled_at=reading.sampled_at, unknown=reading.unknown or ("" if capacity is not None else why)
        )


def _limited(usage: Resources, known: Iterable[str]) -> Resources:
    """The usage of a pod without the resources that are unknown of its node."""
    if usage.further is None:
        return usage
    further = {name: usage.further[name] for name in known if name in usage.further}
    return msgspec.structs.replace(usage, further=further or None)
