"""The usage of every node: the readings of each window, kept until they are replaced or too old.

When a query fails, the previous reading is kept: it is older, and its age shows it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

import msgspec

from equipoise.collector.decisions.query import ResourceName
from equipoise.collector.decisions.validation.nodes import STATISTICS, NodeReading
from equipoise.collector.decisions.validation.usage import Reason, UnknownUsage
from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.load.correction import FUTURE_TOLERANCE, RESOURCES
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, RecentUsage, UtilizationCycle, WindowUsage
from equipoise.contracts.messages.values.resources import Resources, cpu_and_memory

MAX_MISSING = 20
"""The maximum number of nodes without data that a cycle names."""

MAX_NAMES = 3
"""The maximum number of nodes that a summary names for each reason."""

NOT_MEASURED = UnknownUsage("no result", "not measured yet")

KEPT_WINDOWS = 3
"""The number of shortest windows for which the usage outside of pods is kept while pods come and go. On some nodes they
always do."""


class UtilizationStore:
    """Readings by node UID, window and resource; usage by pod UID."""

    def __init__(self, load: LoadSettings) -> None:
        self._load = load
        self._max_ages = [(window.name, load.lifetime(window)) for window in load.windows]
        self._readings: dict[str, dict[tuple[str, ResourceName], NodeReading]] = {}
        self._pods: Mapping[str, Resources] = {}
        self._pods_at = dict.fromkeys(RESOURCES, 0.0)
        self._recent: Mapping[str, RecentUsage] = {}
        self._system: dict[str, tuple[float, Resources]] = {}
        self.queried_at = 0.0
        """Time of the last query, on the source's clock; on ours while the source's is wrong."""

    def start_round(self, at: float) -> None:
        """Begins a round at the time `at`. If the clock went back, measurements that are in the future now are
        forgotten.

        Otherwise they would look fresh until their time, and subscribers would drop the next messages because of it. A
        measurement that is ahead by at most twice `skewUnknown` is kept: the clock of the source may differ by
        `skewUnknown` in both directions.
        """
        before, self.queried_at = self.queried_at, at
        if at >= before:
            return
        latest = at + 2 * self._load.freshness.skew_unknown + FUTURE_TOLERANCE
        self._readings = {
            uid: {key: reading for key, reading in readings.items() if (reading.sampled_at or 0.0) <= latest}
            for uid, readings in self._readings.items()
        }
        self._pods_at = {resource: time if time <= latest else 0.0 for resource, time in self._pods_at.items()}
        self._recent = {uid: recent for uid, recent in self._recent.items() if recent.sampled_at <= latest}
        self._system = {uid: system for uid, system in self._system.items() if system[0] <= latest}

    def record(self, window: Window, resource: ResourceName, readings: Mapping[str, NodeReading], at: float) -> None:
        """Readings by node UID from a query at `at`. A reading without a sample keeps the time of the previous one."""
        self.queried_at = max(self.queried_at, at)
        for uid, reading in readings.items():
            kept = self._readings.setdefault(uid, {})
            before = kept.get((window.name, resource))
            if reading.sampled_at is None and before is not None:
                reading = msgspec.structs.replace(reading, sampled_at=before.sampled_at)  # noqa: PLW2901
            kept[(window.name, resource)] = reading

    def record_pods(
        self, usage: Mapping[str, Resources], at: float, failed: Collection[ResourceName] = ()
    ) -> Mapping[str, Resources]:
        """Usage by pod UID in the shortest window. A resource whose query failed keeps its previous value.

        Returns what is known now.
        """
        self._pods_at |= {resource: at for resource in RESOURCES if resource not in failed}
        for resource in failed:
            usage = {
                uid: msgspec.structs.replace(used, **{resource: getattr(self._pods.get(uid), resource, None)})
                for uid, used in usage.items()
            }
        self._pods = usage
        return usage

    def record_recent(self, usage: Mapping[str, Resources], length: float) -> None:
        """Records usage by node UID over the last `length` seconds. The recent usage of all other nodes becomes
        unknown.

        Its age is that of the readings of the same round, which are recorded first.
        """
        self._recent = {
            uid: RecentUsage(length=length, sampled_at=sampled_at, mean=used)
            for uid, used in usage.items()
            if (sampled_at := self.sampled_at(uid)) is not None
        }

    def retain(self, uids: Iterable[str]) -> None:
        """Deletes every node but these."""
        kept = set(uids)
        self._readings = {uid: value for uid, value in self._readings.items() if uid in kept}
        self._system = {uid: value for uid, value in self._system.items() if uid in kept}

    def windows(self, uid: str, now: float) -> dict[str, WindowUsage]:
        """The windows of a node that are known at `now` (source's clock)."""
        return {name: _window_usage(known) for name, known in self._current(uid, now)}

    def _current(self, uid: str, now: float) -> Iterator[tuple[str, dict[ResourceName, NodeReading]]]:
        readings = self._readings.get(uid, {})
        for window, max_age in self._max_ages:
            known: dict[ResourceName, NodeReading] = {}
            for resource in RESOURCES:
                reading = readings.get((window, resource))
                if reading and reading.mean is not None and now - (reading.sampled_at or 0.0) <= max_age:
                    known[resource] = reading
            if known:
                yield window, known

    def sampled_at(self, uid: str) -> float | None:
        """Time of the newest raw sample of a node; None when it never had one."""
        times = [reading.sampled_at for reading in self._readings.get(uid, {}).values() if reading.sampled_at]
        return max(times, default=None)

    def message(
        self,
        node: Node,
        base: Resources,
        placed: Sequence[PlacedPod],
        now: float,
        *,
        left_at: float = 0.0,
        epoch: int,
        sequence: int,
    ) -> NodeUtilization | None:
        """The message of a node on which these pods are placed; None when it never had a sample.

        `left_at`: the time at which the last pod left the node.
        """
        uid = node.metadata.uid
        if (sampled_at := self.sampled_at(uid)) is None:
            return None
        windows = self.windows(uid, now)
        pods = self._fresh_pods(placed, now)
        return NodeUtilization(
            node=node.metadata.name,
            uid=uid,
            base=base,
            memory_kind=self._load.memory,
            sampled_at=sampled_at,
            queried_at=self.queried_at,
            windows=windows,
            system=self._system_usage(uid, windows.get(self._load.shortest.name), placed, pods, now, left_at),
            pods=pods,
            recent=self._fresh_recent(uid, now),
            epoch=epoch,
            sequence=sequence,
        )

    def _fresh_recent(self, uid: str, now: float) -> RecentUsage | None:
        recent = self._recent.get(uid)
        return recent if recent is not None and now - recent.sampled_at <= self._load.freshness.score else None

    def _fresh_pods(self, placed: Sequence[PlacedPod], now: float) -> dict[str, Resources]:
        max_age = self._load.lifetime(self._load.shortest)
        old = {resource: None for resource, at in self._pods_at.items() if now - at > max_age}
        if len(old) == len(RESOURCES):
            return {}
        pods = {pod.uid: used for pod in placed if (used := self._pods.get(pod.uid)) is not None}
        return {uid: msgspec.structs.replace(used, **old) for uid, used in pods.items()} if old else pods

    def _system_usage(
        self,
        uid: str,
        shortest: WindowUsage | None,
        placed: Sequence[PlacedPod],
        pods: Mapping[str, Resources],
        now: float,
        left_at: float,
    ) -> Resources:
        """The usage of the node minus that of its pods. The last known value is returned while a pod that ran
        throughout the shortest window is not measured, and for some windows while pods come and go: a window has a part
        of their usage, which would count as usage of the system, too. A pod that does not run yet may use something:
        its init containers do."""
        length = self._load.shortest.length
        begin = now - length
        settled = {pod.uid for pod in placed if pod.running_since and pod.running_since <= begin}
        changed = left_at > begin or any((pod.running_since or pod.placed_at) > begin for pod in placed)
        at, system = self._system.get(uid, (0.0, Resources()))
        keeps = changed and self.queried_at - at <= KEPT_WINDOWS * length
        if shortest is not None and settled <= pods.keys() and not keeps:
            usage = {
                resource: _difference(
                    getattr(shortest.mean, resource), [getattr(used, resource) for used in pods.values()]
                )
                for resource in RESOURCES
            }
            at, system = self._system[uid] = (shortest.sampled_at, cpu_and_memory(usage))
        return system if self.queried_at - at <= self._load.lifetime(self._load.longest) else Resources()

    def why_unknown(self, uid: str, now: float) -> UnknownUsage | None:
        """Why a node has no fresh load; None when it has one. The shortest window's reason comes first."""
        limit = self._load.freshness.score
        if any(now - _oldest(known) <= limit for _, known in self._current(uid, now)):
            return None
        sampled_at = self.sampled_at(uid)
        if sampled_at is not None and now - sampled_at > limit:
            return UnknownUsage("stale", f"newest sample is {now - sampled_at:.0f} s old")
        readings = self._readings.get(uid, {})
        keys = ((window.name, resource) for window in self._load.windows for resource in RESOURCES)
        reasons = (reading.unknown for key in keys if (reading := readings.get(key)) is not None)
        return next((unknown for unknown in reasons if unknown is not None), NOT_MEASURED)

    def why_incomplete(self, uid: str) -> UnknownUsage | None:
        """Why a resource of the shortest window is unknown; None when all that were measured are known."""
        readings, window = self._readings.get(uid, {}), self._load.shortest.name
        shortest = (readings.get((window, resource)) for resource in RESOURCES)
        return next((item.unknown for item in shortest if item is not None and item.unknown is not None), None)

    def cycle(
        self, expected: int, unknown: Mapping[str, UnknownUsage], *, shard: str, cycle: int, skew: float, problem: str
    ) -> UtilizationCycle:
        """The end of a round: how many nodes are expected to have data, and which of them have none."""
        too_skewed = abs(skew) > self._load.freshness.skew_unknown
        return UtilizationCycle(
            shard=shard,
            cycle=cycle,
            expected=expected,
            fresh=0 if too_skewed else expected - len(unknown),
            queried_at=self.queried_at,
            skew=skew,
            missing={name: why.text for name, why in islice(unknown.items(), MAX_MISSING)},
            reasons=dict(Counter(why.reason for why in unknown.values())),
            problem=problem,
        )


def unknown_summary(unknown: Mapping[str, UnknownUsage]) -> str:
    """`unknown load: no sample (12 nodes: a, b, c, …), stale (1 node: d)`; empty when there is none."""
    by_reason: dict[Reason, list[str]] = {}
    for name, why in unknown.items():
        by_reason.setdefault(why.reason, []).append(name)
    parts = []
    for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        nodes = "1 node" if len(names) == 1 else f"{len(names)} nodes"
        more = ", …" if len(names) > MAX_NAMES else ""
        parts.append(f"{reason} ({nodes}: {', '.join(names[:MAX_NAMES])}{more})")
    return f"unknown load: {', '.join(parts)}" if parts else ""


def _oldest(known: Mapping[ResourceName, NodeReading]) -> float:
    """The time of the older sample: a window has one time for both resources."""
    return min(reading.sampled_at or 0.0 for reading in known.values())


def _window_usage(known: Mapping[ResourceName, NodeReading]) -> WindowUsage:
    def resources_of(statistic: Literal["p95", "max", "deviation"]) -> Resources:
        return cpu_and_memory({resource: reading.statistics.get(statistic) for resource, reading in known.items()})

    return WindowUsage(
        sampled_at=_oldest(known),
        mean=cpu_and_memory({resource: reading.mean for resource, reading in known.items()}),
        **{statistic: resources_of(statistic) for statistic in STATISTICS},
    )


def _difference(total: float | None, parts: Iterable[float | None]) -> float | None:
    values = list(parts)
    if total is None or any(part is None for part in values):
        return None
    return max(0.0, total - sum(part for part in values if part is not None))
