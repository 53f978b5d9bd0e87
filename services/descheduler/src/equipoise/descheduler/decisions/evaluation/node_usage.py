"""Current usage of nodes and pods, as far as it is fresh enough for an eviction."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.kubernetes.objects import Node, Pod
from equipoise.contracts.kubernetes.owners import workload_from_pod
from equipoise.contracts.kubernetes.requests import Amounts
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import (
    PodLifetime,
    age_of,
    corrected,
    is_fresh,
    known,
    share_measured,
    usable_window,
)
from equipoise.contracts.load.demand import expected_usage, fresh_windows
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, WindowUsage, WorkloadUtilization
from equipoise.descheduler.state.lazy import LazyMapping
from equipoise.descheduler.state.pod_lifetimes import Departure, PodLifetimes

WorkloadOf = Callable[[Pod], Workload | None]
RequestsOf = Callable[[Pod], Amounts]


class MeasuredNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node's usage, or why it is not known."""

    base: Resources = Resources()
    usage: Mapping[str, Resources] = {}
    sampled_at: Mapping[str, float] = {}
    """By window: the newest raw sample in it."""

    pods: Mapping[str, Resources] = {}
    """By UID; unknown for pods that did not run through the shortest window."""

    unknown: str = ""


class NodeUsageReader:
    """Reads the utilization messages, with the freshness that an eviction needs."""

    def __init__(
        self,
        *,
        nodes: Mapping[str, NodeUtilization],
        workloads: Mapping[Workload, WorkloadUtilization],
        lifetimes: PodLifetimes,
        settings: LoadSettings,
        skew: float,
    ) -> None:
        self._nodes = nodes
        self._workloads = workloads
        self._lifetimes = lifetimes
        self._settings = settings
        self._skew = skew
        self._departures: dict[str, list[Departure]] = {}
        for departure in lifetimes.departures():
            self._departures.setdefault(departure.node, []).append(departure)

    def recent(self, now: float) -> set[str]:
        """UIDs of the pods that started within the longest window."""
        longest = self._settings.longest
        return self._lifetimes.recent(now - longest.length - self._settings.lifetime(longest))

    def of_node(
        self, node: Node, changing: Sequence[Pod], workload_of: WorkloadOf, requests_of: RequestsOf, now: float
    ) -> MeasuredNode:
        """Usage of the node and its pods; the means are corrected for pods that arrived or left.

        `changing`: the recent and the terminating pods of the node. The others need no correction.
        """
        utilization = self._nodes.get(node.metadata.name)
        why = self._unknown(node, utilization, now)
        if why or utilization is None:
            return MeasuredNode(unknown=why)
        windows = {
            window: value
            for window in self._settings.windows
            if (value := usable_window(utilization, window, self._settings, now, skew=self._skew)) is not None
        }
        if self._settings.shortest not in windows:
            return MeasuredNode(unknown=f"no value over {self._settings.shortest.name}")
        by_name = {window.name: (window, value) for window, value in windows.items()}

        def mean(name: str) -> Resources:
            window, value = by_name[name]
            arrived = self._arrived(value.sampled_at - window.length, changing, workload_of, requests_of, now)
            return self._corrected(window, value, arrived + self._gone(node.metadata.name))

        ended = windows[self._settings.shortest].sampled_at
        return MeasuredNode(
            base=utilization.base,
            usage=LazyMapping(by_name, mean),
            sampled_at={name: value.sampled_at for name, (_, value) in by_name.items()},
            pods=LazyMapping(utilization.pods, lambda uid: self._of_pod(uid, utilization.pods[uid], ended)),
        )

    def _arrived(
        self, begin: float, pods: Sequence[Pod], workload_of: WorkloadOf, requests_of: RequestsOf, now: float
    ) -> list[PodLifetime]:
        """The pods that started after `begin` or are terminating: a mean since then contains the others wholly."""
        changing = (pod for pod in pods if not self._lifetimes.settled(pod, begin))
        lifetimes = (self._lifetime(pod, workload_of(pod), requests_of(pod), now) for pod in changing)
        return [lifetime for lifetime in lifetimes if lifetime is not None]

    def _corrected(self, window: Window, value: WindowUsage, lifetimes: Sequence[PodLifetime]) -> Resources:
        return corrected(value.mean, lifetimes, sampled_at=value.sampled_at, length=window.length, load=self._settings)

    def _unknown(self, node: Node, utilization: NodeUtilization | None, now: float) -> str:
        if utilization is None:
            return "the collector has published nothing about it"
        if utilization.uid and node.metadata.uid and utilization.uid != node.metadata.uid:
            return "its utilization is that of an earlier node of the same name"
        freshness = self._settings.freshness
        if not is_fresh(
            utilization.sampled_at, now, freshness.eviction, skew=self._skew, skew_limit=freshness.skew_unknown
        ):
            return f"its newest sample is {age_of(utilization.sampled_at, now):.1f} s old"
        return ""

    def _lifetime(self, pod: Pod, workload: Workload | None, amounts: Amounts, now: float) -> PodLifetime | None:
        workload = workload or workload_from_pod(pod)
        usage, _ = expected_usage(
            requests=Resources(cpu=amounts.get("cpu"), memory=amounts.get("memory")),
            limits=Resources(),
            workload=fresh_windows(self._workloads.get(workload), self._settings, now)
            if workload is not None
            else None,
            window=self._settings.shortest.name,
        )
        return self._lifetimes.lifetime(pod, usage)

    def _gone(self, node: str) -> list[PodLifetime]:
        return [
            PodLifetime(
                placed_at=departure.times.placed_at,
                running_since=departure.times.running_since,
                gone_at=departure.gone_at,
                usage=departure.usage,
            )
            for departure in self._departures.get(node, ())
        ]

    def _of_pod(self, uid: str, usage: Resources, sampled_at: float) -> Resources:
        """A pod's usage if it ran through enough of the shortest window, else unknown."""
        lifetime = self._lifetimes.lifetime_of(uid, Resources())
        if lifetime is None or known(usage.cpu) is None or known(usage.memory) is None:
            return Resources()
        window = self._settings.shortest
        share = share_measured(lifetime, sampled_at, window.length, pod_start_timeout=self._settings.pod_start_timeout)
        return usage if share >= self._settings.coverage.window else Resources()
