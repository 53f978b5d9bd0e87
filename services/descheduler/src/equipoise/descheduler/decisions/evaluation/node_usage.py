"""What nodes and pods use at present, as far as that can be trusted."""

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
from equipoise.descheduler.state.lazy import LaterEach
from equipoise.descheduler.state.pod_lifetimes import Departure, PodStays

WorkloadOf = Callable[[Pod], Workload | None]
RequestsOf = Callable[[Pod], Amounts]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """A node's usage, or why it is not known."""

    base: Resources = Resources()
    usage: Mapping[str, Resources] = {}
    sampled_at: Mapping[str, float] = {}
    """By window: the newest raw sample in it."""

    pods: Mapping[str, Resources] = {}
    """By UID; unknown of pods that did not run through the shortest window."""

    unknown: str = ""


class Measures:
    """Utilization as heard, read with the freshness that an eviction needs."""

    def __init__(
        self,
        *,
        nodes: Mapping[str, NodeUtilization],
        workloads: Mapping[Workload, WorkloadUtilization],
        stays: PodStays,
        settings: LoadSettings,
        skew: float,
    ) -> None:
        self._nodes = nodes
        self._workloads = workloads
        self._stays = stays
        self._settings = settings
        self._skew = skew
        self._departures: dict[str, list[Departure]] = {}
        for departure in stays.departures():
            self._departures.setdefault(departure.node, []).append(departure)

    def recent(self, now: float) -> set[str]:
        """UIDs of the pods that some window may not hold as a whole."""
        longest = self._settings.longest
        return self._stays.recent(now - longest.length - self._settings.lifetime(longest))

    def of_node(
        self, node: Node, changing: Sequence[Pod], workload_of: WorkloadOf, requests_of: RequestsOf, now: float
    ) -> Measured:
        """What the node and its pods use; its means corrected for pods that came and went.

        `changing`: those of its pods that are recent or leaving. The others change no mean.
        """
        heard = self._nodes.get(node.metadata.name)
        why = self._unknown(node, heard, now)
        if why or heard is None:
            return Measured(unknown=why)
        windows = {
            window: value
            for window in self._settings.windows
            if (value := usable_window(heard, window, self._settings, now, skew=self._skew)) is not None
        }
        if self._settings.shortest not in windows:
            return Measured(unknown=f"no value over {self._settings.shortest.name}")
        by_name = {window.name: (window, value) for window, value in windows.items()}

        def mean(name: str) -> Resources:
            window, value = by_name[name]
            stays = self._stays_within(value.sampled_at - window.length, changing, workload_of, requests_of, now)
            return self._compensated(window, value, stays + self._gone(node.metadata.name))

        ended = windows[self._settings.shortest].sampled_at
        return Measured(
            base=heard.base,
            usage=LaterEach(by_name, mean),
            sampled_at={name: value.sampled_at for name, (_, value) in by_name.items()},
            pods=LaterEach(heard.pods, lambda uid: self._of_pod(uid, heard.pods[uid], ended)),
        )

    def _stays_within(
        self, begin: float, pods: Sequence[Pod], workload_of: WorkloadOf, requests_of: RequestsOf, now: float
    ) -> list[PodLifetime]:
        """Of the pods that did not run since before `begin`, or are leaving: a mean since then shows the others."""
        changing = (pod for pod in pods if not self._stays.settled(pod, begin))
        present = (self._stay(pod, workload_of(pod), requests_of(pod), now) for pod in changing)
        return [stay for stay in present if stay is not None]

    def _compensated(self, window: Window, value: WindowUsage, stays: Sequence[PodLifetime]) -> Resources:
        return corrected(value.mean, stays, sampled_at=value.sampled_at, length=window.length, load=self._settings)

    def _unknown(self, node: Node, heard: NodeUtilization | None, now: float) -> str:
        if heard is None:
            return "the collector has said nothing of it"
        if heard.uid and node.metadata.uid and heard.uid != node.metadata.uid:
            return "what was measured is another node of that name"
        freshness = self._settings.freshness
        if not is_fresh(heard.sampled_at, now, freshness.eviction, skew=self._skew, skew_limit=freshness.skew_unknown):
            return f"its newest sample is {age_of(heard.sampled_at, now):.1f} s old"
        return ""

    def _stay(self, pod: Pod, workload: Workload | None, amounts: Amounts, now: float) -> PodLifetime | None:
        workload = workload or workload_from_pod(pod)
        usage, _ = expected_usage(
            requests=Resources(cpu=amounts.get("cpu"), memory=amounts.get("memory")),
            limits=Resources(),
            workload=fresh_windows(self._workloads.get(workload), self._settings, now)
            if workload is not None
            else None,
            window=self._settings.shortest.name,
        )
        return self._stays.stay(pod, usage)

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
        """A pod's usage, if it ran through enough of the shortest window for its mean to be that; else unknown."""
        stay = self._stays.stay_of(uid, Resources())
        if stay is None or not _whole(usage):
            return Resources()
        window: Window = self._settings.shortest
        share = share_measured(stay, sampled_at, window.length, pod_start_timeout=self._settings.pod_start_timeout)
        return usage if share >= self._settings.coverage.window else Resources()


def _whole(usage: Resources) -> bool:
    return known(usage.cpu) is not None and known(usage.memory) is not None
