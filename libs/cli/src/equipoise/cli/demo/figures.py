"""The figures of a demo. Loads come from Prometheus; evictions and placements, from the audit log of the API server."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from pathlib import Path
from statistics import pstdev
from typing import Any

import msgspec

from equipoise.cli.demo.colocation.figures import ColocationResult, sentences
from equipoise.cli.demo.manifests import DAEMON_SET, EXCLUDED_NAMESPACE
from equipoise.cli.demo.surge.figures import SurgeResult, surge_sentence
from equipoise.cli.terminal import FittedTable, count, table
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.testbed import audit


class AuditedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A binding, or an eviction that the API server executed (dry runs are none).

    The node of an eviction is that of the binding of the pod in the log. It is empty if the pod was bound before the
    log began.
    """

    at: float
    """Unix seconds. If a pod was moved without a gap, the time at which it was detached, from which the limits count
    it, and after which its replacement is placed."""

    namespace: str
    pod: str
    node: str
    without_gap: bool = False
    """Whether the pod was detached from its ReplicaSet before it was evicted."""

    @property
    def workload(self) -> str:
        """The name of the Deployment: pod names are `<deployment>-<template hash>-<suffix>`."""
        return self.pod.rsplit("-", 2)[0]


class AuditedEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Evictions and bindings of an audit log."""

    evictions: tuple[AuditedEvent, ...]
    bindings: tuple[AuditedEvent, ...]

    def burst(self, namespace: str, pods: int) -> tuple[AuditedEvent, ...]:
        """The first `pods` bindings of a namespace. Later bindings are those of replacements."""
        bindings = [binding for binding in self.bindings if binding.namespace == namespace]
        return tuple(sorted(bindings, key=lambda binding: binding.at)[:pods])

    def evictions_in(self, namespace: str) -> int:
        return sum(eviction.namespace == namespace for eviction in self.evictions)

    def same_node_returns(self) -> int:
        """Evictions whose replacement was bound to the node of the evicted pod.

        Replacements have new names: the first binding of the workload after an eviction counts as its replacement.
        """
        returns = 0
        evicted: dict[tuple[str, str], list[str]] = defaultdict(list)
        events = [*((eviction, True) for eviction in self.evictions), *((binding, False) for binding in self.bindings)]
        for event, is_eviction in sorted(events, key=lambda event: event[0].at):
            nodes = evicted[event.namespace, event.workload]
            if is_eviction:
                nodes.append(event.node)
            elif nodes and nodes.pop(0) == event.node:
                returns += 1
        return returns

    def protected_evictions(self) -> int:
        return sum(
            eviction.namespace == EXCLUDED_NAMESPACE or eviction.pod.startswith(f"{DAEMON_SET}-")
            for eviction in self.evictions
        )


def by_node(bindings: Sequence[AuditedEvent]) -> Counter[str]:
    """The number of bindings by node."""
    return Counter(binding.node for binding in bindings)


def max_share(bindings: Sequence[AuditedEvent]) -> float:
    """The largest share of these bindings on one node."""
    return max(by_node(bindings).values()) / len(bindings) if bindings else 0.0


def read_audit_log(audit_log: Path) -> AuditedEvents:
    """The evictions and bindings of an audit log."""
    evictions: list[AuditedEvent] = []
    bindings: list[AuditedEvent] = []
    bound: dict[tuple[str, str], str] = {}
    detached = detached_at(audit_log)
    events: list[audit.Binding | audit.LoggedEviction] = [*audit.bindings(audit_log), *audit.evictions(audit_log)]
    for event in sorted(events, key=lambda event: event.time):
        at, name = event.time.timestamp(), (event.namespace, event.pod)
        if isinstance(event, audit.Binding):
            bound[name] = event.node
            bindings.append(AuditedEvent(at=at, namespace=event.namespace, pod=event.pod, node=event.node))
        elif event.succeeded:
            evictions.append(
                AuditedEvent(
                    at=detached.get(name, at),
                    namespace=event.namespace,
                    pod=event.pod,
                    node=bound.get(name, ""),
                    without_gap=name in detached,
                )
            )
    return AuditedEvents(evictions=tuple(evictions), bindings=tuple(bindings))


def detached_at(audit_log: Path) -> dict[tuple[str, str], float]:
    """The Unix time at which a service last detached a pod from its ReplicaSet, by namespace and name."""
    return {
        (write.namespace, write.name): write.time.timestamp()
        for write in audit.writes_to(audit_log, "pods")
        if write.verb == "patch" and _labels(write).get(TEMPLATE_HASH, "") is None
    }


def _labels(write: audit.LoggedWrite) -> dict[str, Any]:
    """The labels that a patch sets, and those that it removes with None."""
    return (write.body.get("metadata") or {}).get("labels") or {}


class WindowLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of `count` evictions within any `seconds`, for each workload, each namespace or the whole cluster."""

    scope: str
    count: int
    share: float | None = None
    """A second limit, which is this share (0..1) of the pods bound at that time, but at least one pod; None if there is
    none.
    """

    seconds: float

    def maximum(self, pods: int) -> int:
        return self.count if self.share is None else min(self.count, max(1, int(self.share * pods)))


_SCOPES: Mapping[str, Callable[[AuditedEvent], str]] = {
    "workload": lambda event: f"{event.namespace}/{event.workload}",
    "namespace": lambda event: event.namespace,
    "cluster": lambda event: "",
}


def limit_violations(events: AuditedEvents, limits: Sequence[WindowLimit]) -> int:
    """Evictions that exceed a limit in the sliding window that ends with them."""
    violations = 0
    bound = sorted(binding.at for binding in events.bindings)
    for limit in limits:
        counted: dict[str, list[float]] = defaultdict(list)
        for evicted_before, eviction in enumerate(sorted(events.evictions, key=lambda eviction: eviction.at)):
            times = counted[_SCOPES[limit.scope](eviction)]
            times.append(eviction.at)
            recent = [at for at in times if at > eviction.at - limit.seconds]
            # All pods that were bound until then, without those that were evicted before.
            pods = bisect_right(bound, eviction.at) - evicted_before
            violations += len(recent) > limit.maximum(pods)
    return violations


def spread(loads: Mapping[str, float]) -> float:
    """Highest minus lowest load, in points of percent."""
    return max(loads.values()) - min(loads.values())


def deviation(loads: Mapping[str, float]) -> float:
    """Standard deviation of the loads, in points of percent."""
    return pstdev(loads.values())


def same_time_of_day(earliest: float, first: float, period: float) -> float:
    """The first time at or after `earliest` that is one or more whole periods after `first`.

    All values are in seconds.
    """
    return first + max(1, ceil((earliest - first) / period)) * period


class DemoResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a demo. `spread_…` and `std_…` are percentage points of the CPU load of nodes."""

    nodes: int
    pods: int
    workloads: int
    placement: str
    """How scores reached kube-scheduler."""

    time_factor: float
    limits: dict[str, Any]
    spread_before: float
    spread_after: float
    std_before: float
    std_after: float
    burst_max_share: float
    evictions: int
    pods_moved_share: float
    same_node_returns: int
    replacements: dict[str, int]
    """The number of placed replacements by result: as_planned, elsewhere or returned. Pending ones are not counted."""

    outcomes: dict[str, int]
    rejected: int
    limit_violations: int
    protected_evictions: int
    seconds: float
    """Duration of the whole run, without building the testbed."""

    colocation: ColocationResult | None = None
    """None without batch pods; the JSON object then has no such key."""

    surge: SurgeResult | None = None
    """None without moves without a gap; the JSON object then has no such key."""

    def encoded(self) -> str:
        """One JSON object on one line."""
        return msgspec.json.encode(self).decode()


def load_table(before: Mapping[str, float], after: Mapping[str, float]) -> FittedTable:
    """Loads in percent of each node's cores."""
    rows = table("CPU load of the nodes at the same time of day, in percent of their cores", "before>", "after>")
    for name, figure in (
        ("hottest node", lambda loads: max(loads.values())),
        ("idlest node", lambda loads: min(loads.values())),
        ("spread (max − min)", spread),
        ("standard deviation", deviation),
    ):
        rows.add_row(name, f"{figure(before):.1f}", f"{figure(after):.1f}")
    return rows


def result_sentences(
    result: DemoResult, burst: Sequence[AuditedEvent], loads_before_burst: Mapping[str, float]
) -> list[str]:
    """The sentences below the table of loads. `burst`: its bindings, ordered by time. Loads are percentages by node."""
    lines = [
        f"{result.evictions} of {result.pods} pods were evicted ({result.pods_moved_share:.1%}), "
        f"{count(result.same_node_returns, 'replacement')} returned to the same node, and limits were violated "
        f"{count(result.limit_violations, 'time')}, by the audit log of the API server"
    ]
    if placed := sum(result.replacements.values()):
        planned = result.replacements.get("as_planned", 0)
        lines.append(
            f"{planned} of {count(placed, 'replacement')} ({planned / placed:.0%}) were placed on the planned node"
        )
    if burst and loads_before_burst:
        nodes = by_node(burst).most_common()
        most = ", ".join(f"{pods} on {node} ({loads_before_burst.get(node, 0):.0f} %)" for node, pods in nodes[:5])
        mean = sum(loads_before_burst.values()) / len(loads_before_burst)
        lines.append(
            f"burst: {len(burst)} pods placed on {len(nodes)} nodes within {burst[-1].at - burst[0].at:.1f} s; "
            f"most: {most}; in parentheses the load before (mean {mean:.0f} %)"
        )
    if result.colocation is not None:
        lines += sentences(result.colocation)
    return lines if result.surge is None else [*lines, surge_sentence(result.surge)]
