"""What is known of every node's usage: the readings of each window, kept until they are renewed or too old.

A question that failed leaves the reading of before in place: older, and its age says so.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Literal

import msgspec

from equipoise.collector.decisions.query import Resource
from equipoise.collector.decisions.sample_validation import STATISTICS, Doubt, Reading, Reason
from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage

MISSING_LIMIT = 20
"""Nodes without data that a cycle names at most."""

NAMED = 3
"""Nodes that a summary names for each reason."""

NOT_MEASURED: Doubt = ("not answered", "not measured yet")


class MeasuredNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the cluster knows it at the moment of telling."""

    name: str
    uid: str
    base: Resources
    pods: tuple[str, ...]
    """UIDs of the pods on it."""

    settled_pods: frozenset[str] = frozenset()
    """Those that ran through the shortest window: without their usage the rest of the node's is unknown."""


class Utilization:
    """Readings by node UID, window and resource; usage by pod UID."""

    def __init__(self, load: LoadSettings) -> None:
        self._load = load
        self._lives = [(window.name, load.lifetime(window)) for window in load.windows]
        self._readings: dict[str, dict[tuple[str, Resource], Reading]] = {}
        self._pods: Mapping[str, Resources] = {}
        self._pods_at = dict.fromkeys(RESOURCES, 0.0)
        self._systems: dict[str, tuple[float, Resources]] = {}
        self.queried_at = 0.0
        """When was last asked, on the source's clock."""

    def record(self, window: Window, resource: Resource, readings: Mapping[str, Reading], at: float) -> None:
        """Readings by node UID from a query at `at`. One without a sample keeps the time of the last one."""
        self.queried_at = max(self.queried_at, at)
        for uid, reading in readings.items():
            known = self._readings.setdefault(uid, {})
            before = known.get((window.name, resource))
            if reading.sampled_at is None and before is not None:
                reading = msgspec.structs.replace(reading, sampled_at=before.sampled_at)  # noqa: PLW2901
            known[(window.name, resource)] = reading

    def record_pods(
        self, usage: Mapping[str, Resources], at: float, failed: Collection[Resource] = ()
    ) -> Mapping[str, Resources]:
        """By pod UID what it used in the shortest window; of what could not be asked the older value stays.

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

    def keep(self, uids: Iterable[str]) -> None:
        """Forget every node but these."""
        kept = set(uids)
        self._readings = {uid: value for uid, value in self._readings.items() if uid in kept}
        self._systems = {uid: value for uid, value in self._systems.items() if uid in kept}

    def windows(self, uid: str, now: float) -> dict[str, WindowUsage]:
        """The windows of a node that are known at `now` (source's clock)."""
        return {name: _window_usage(known) for name, known in self._living(uid, now)}

    def _living(self, uid: str, now: float) -> Iterator[tuple[str, dict[Resource, Reading]]]:
        """The windows of a node with what is known of each."""
        readings = self._readings.get(uid, {})
        for window, life in self._lives:
            known: dict[Resource, Reading] = {}
            for resource in RESOURCES:
                reading = readings.get((window, resource))
                if reading and reading.mean is not None and now - (reading.sampled_at or 0.0) <= life:
                    known[resource] = reading
            if known:
                yield window, known

    def sampled_at(self, uid: str) -> float | None:
        """The newest raw sample of a node; None when it never had one."""
        times = [reading.sampled_at for reading in self._readings.get(uid, {}).values() if reading.sampled_at]
        return max(times, default=None)

    def message(self, node: MeasuredNode, now: float, *, epoch: int, sequence: int) -> NodeUtilization | None:
        """What is to be told of a node; None when no sample of it was ever seen."""
        sampled_at = self.sampled_at(node.uid)
        if sampled_at is None:
            return None
        windows = self.windows(node.uid, now)
        pods = self._fresh_pods(node, now)
        return NodeUtilization(
            node=node.name,
            uid=node.uid,
            base=node.base,
            memory_kind=self._load.memory,
            sampled_at=sampled_at,
            queried_at=self.queried_at,
            windows=windows,
            system=self._system(node, windows.get(self._load.shortest.name), pods),
            pods=pods,
            epoch=epoch,
            sequence=sequence,
        )

    def _fresh_pods(self, node: MeasuredNode, now: float) -> dict[str, Resources]:
        life = self._load.lifetime(self._load.shortest)
        old = {resource: None for resource, at in self._pods_at.items() if now - at > life}
        if len(old) == len(RESOURCES):
            return {}
        pods = {uid: used for uid in node.pods if (used := self._pods.get(uid)) is not None}
        return {uid: msgspec.structs.replace(used, **old) for uid, used in pods.items()} if old else pods

    def _system(self, node: MeasuredNode, shortest: WindowUsage | None, pods: Mapping[str, Resources]) -> Resources:
        """Node − Σ pods; the last known one while a pod that ran through the window is not measured."""
        if shortest is not None and node.settled_pods <= pods.keys():
            rest = {
                resource: _rest(getattr(shortest.mean, resource), [getattr(used, resource) for used in pods.values()])
                for resource in RESOURCES
            }
            self._systems[node.uid] = (shortest.sampled_at, Resources(**rest))
        at, system = self._systems.get(node.uid, (0.0, Resources()))
        return system if self.queried_at - at <= self._load.lifetime(self._load.longest) else Resources()

    def doubt(self, uid: str, now: float) -> Doubt | None:
        """Why a node has no fresh load, as its shortest window says it; None when it has."""
        limit = self._load.freshness.score
        if any(now - _oldest(known) <= limit for _, known in self._living(uid, now)):
            return None
        sampled_at = self.sampled_at(uid)
        if sampled_at is not None and now - sampled_at > limit:
            return "stale", f"newest sample is {now - sampled_at:.0f} s old"
        readings = self._readings.get(uid, {})
        keys = ((window.name, resource) for window in self._load.windows for resource in RESOURCES)
        found = (reading for key in keys if (reading := readings.get(key)) is not None and reading.reason is not None)
        return next(((reading.reason, reading.why) for reading in found if reading.reason), NOT_MEASURED)

    def cycle(
        self, expected: int, unknown: Mapping[str, Doubt], *, shard: str, cycle: int, skew: float, problem: str
    ) -> UtilizationCycle:
        """The end of a round: how many nodes should have data, and which of them have none."""
        too_skewed = abs(skew) > self._load.freshness.skew_unknown
        return UtilizationCycle(
            shard=shard,
            cycle=cycle,
            expected=expected,
            fresh=0 if too_skewed else expected - len(unknown),
            queried_at=self.queried_at,
            skew=skew,
            missing={name: why for name, (_, why) in islice(unknown.items(), MISSING_LIMIT)},
            reasons=dict(Counter(reason for reason, _ in unknown.values())),
            problem=problem,
        )


def summed_up(unknown: Mapping[str, Doubt]) -> str:
    """`unknown load: no sample (12 nodes: a, b, c, …), stale (1 node: d)`; empty when there is none."""
    by_reason: dict[Reason, list[str]] = {}
    for name, (reason, _) in unknown.items():
        by_reason.setdefault(reason, []).append(name)
    parts = []
    for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        nodes = "1 node" if len(names) == 1 else f"{len(names)} nodes"
        parts.append(f"{reason} ({nodes}: {', '.join(names[:NAMED])}{', …' if len(names) > NAMED else ''})")
    return f"unknown load: {', '.join(parts)}" if parts else ""


def _oldest(known: Mapping[Resource, Reading]) -> float:
    """The older sample stands for both resources."""
    return min(reading.sampled_at or 0.0 for reading in known.values())


def _window_usage(known: Mapping[Resource, Reading]) -> WindowUsage:
    """The readings of one window."""

    def each(what: Literal["p95", "max", "deviation"]) -> Resources:
        return Resources(**{resource: reading.statistics.get(what) for resource, reading in known.items()})

    return WindowUsage(
        sampled_at=_oldest(known),
        mean=Resources(**{resource: reading.mean for resource, reading in known.items()}),
        **{what: each(what) for what in STATISTICS},
    )


def _rest(whole: float | None, parts: Iterable[float | None]) -> float | None:
    values = list(parts)
    if whole is None or any(part is None for part in values):
        return None
    return max(0.0, whole - sum(part for part in values if part is not None))
