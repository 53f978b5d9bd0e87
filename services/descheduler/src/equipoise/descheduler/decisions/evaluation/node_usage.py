"""Current usage of nodes and pods, as far as it is fresh enough for an eviction."""

from collections.abc import Mapping, Sequence

import msgspec

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.load.correction import (
    PodLifetime,
    UsageOf,
    age_of,
    base_problem,
    corrected,
    is_fresh,
    known,
    measured_usage,
    partial_lifetimes,
    plus,
    skew_of,
    usable_window,
)
from equipoise.contracts.load.demand import pod_usage
from equipoise.contracts.load.further_load import resource_problems, with_fresh_resources
from equipoise.contracts.load.pressure import fresh_pressure
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.pressure import NodePressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.evaluation.snapshot import Snapshot
from equipoise.descheduler.state.lazy import LazyMapping, LazySequence


class MeasuredNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node's usage, or why it is not known."""

    base: Resources = Resources()
    usage: Mapping[str, Resources] = {}
    expected: Mapping[str, Resources] = {}
    """The part of `usage` that is only expected, because pods are not measured yet; by window. An absent window has
    none."""

    sampled_at: Mapping[str, float] = {}
    """The time of the newest raw sample, by window."""

    pods: Mapping[str, Resources] = {}
    """The usage of pods by UID, over the shortest window; unknown unless both resources are known."""

    pressure: NodePressure | None = None
    """None if it is not known, or not fresh enough."""

    resources: Mapping[str, str] = {}
    """See `ClusterNode.resources`."""

    unknown: str = ""


class NodeUsageReader:
    """Reads the messages of the collector."""

    def __init__(self, snapshot: Snapshot, load: LoadSettings) -> None:
        self._snapshot = snapshot
        self._load = load
        self._skew = skew_of(snapshot.cycles)
        self._usage_of = pod_usage(snapshot.workloads, load=load, now=snapshot.now)

    def of_node(self, node: Node) -> MeasuredNode:
        """Usage of the node and its pods; the means are corrected for pods that started or left."""
        name, load = node.metadata.name, self._load
        utilization, placement = self._snapshot.nodes.get(name), self._snapshot.placements.get(name)
        if utilization is None or placement is None:
            missing = "utilization" if utilization is None else "placement"
            return MeasuredNode(unknown=f"the collector has not published its {missing}")
        base = utilization.base
        no_base = not known(base.cpu) and not known(base.memory)
        if why := self._unknown(node, utilization) or (base_problem(base) if no_base else ""):
            return MeasuredNode(unknown=why)
        windows = {
            window.name: (window, value)
            for window in load.windows
            if (value := usable_window(utilization, window, load, self._snapshot.now, skew=self._skew)) is not None
        }
        if load.shortest.name not in windows:
            return MeasuredNode(unknown=f"no value over {load.shortest.name}")

        def fresh(usage: Resources) -> Resources:
            return with_fresh_resources(usage, utilization, self._snapshot.now, load.freshness.eviction)

        def lifetimes(usage_of: UsageOf) -> Sequence[PodLifetime]:
            return LazySequence(
                lambda: [lifetime for _, lifetime in partial_lifetimes(utilization, placement, usage_of, load=load)]
            )

        def mean(name: str, pods: Sequence[PodLifetime]) -> Resources:
            window, value = windows[name]
            least = measured_usage(utilization, placement)
            return corrected(
                fresh(value.mean), pods, sampled_at=value.sampled_at, length=window.length, load=load, least=least
            )

        as_expected = lifetimes(self._usage_of)
        usage = LazyMapping(windows, lambda name: mean(name, as_expected))
        expected: Mapping[str, Resources] = {}
        if not all(_is_complete(utilization.pods.get(pod.uid)) for pod in placement.pods):
            as_measured = lifetimes(lambda _, measured: measured)
            expected = LazyMapping(windows, lambda name: plus(usage[name], mean(name, as_measured), sign=-1.0))
        return MeasuredNode(
            base=base,
            usage=usage,
            expected=expected,
            sampled_at={name: value.sampled_at for name, (_, value) in windows.items()},
            pods=LazyMapping(utilization.pods, lambda uid: _complete_or_unknown(utilization.pods[uid])),
            pressure=fresh_pressure(utilization, load.freshness, self._snapshot.now, skew=self._skew),
            resources=resource_problems(utilization, node.metadata.labels, load, self._snapshot.now),
        )

    def _unknown(self, node: Node, utilization: NodeUtilization) -> str:
        if node.metadata.unreadable:
            return f"it cannot be read: {node.metadata.unreadable}"
        if utilization.uid and node.metadata.uid and utilization.uid != node.metadata.uid:
            return "its utilization is that of an earlier node of the same name"
        freshness, now = self._load.freshness, self._snapshot.now
        if not is_fresh(
            utilization.sampled_at, now, freshness.eviction, skew=self._skew, skew_limit=freshness.skew_unknown
        ):
            return f"its newest sample is {age_of(utilization.sampled_at, now):.1f} s old"
        return ""


def _is_complete(usage: Resources | None) -> bool:
    return usage is not None and known(usage.cpu) is not None and known(usage.memory) is not None


def _complete_or_unknown(usage: Resources) -> Resources:
    return usage if _is_complete(usage) else Resources()
