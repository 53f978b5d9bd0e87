"""Moves that were dry runs, taken as done: or the next plan would begin where the last one did, day in, day out."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import known, plus
from equipoise.contracts.messages.descheduling import DryRunMove
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.state.cluster import FleetNode, MovablePod
from equipoise.descheduler.state.lazy import Later

MOST = 5_000
"""More are not kept, the oldest go first. A day of default settings proposes at most 2,880."""


class Assumption(msgspec.Struct, frozen=True, kw_only=True):
    """One pod that is on its node, and counts on another."""

    pod_uid: str
    namespace: str
    pod: str
    workload: Workload | None
    node: str
    target: str
    relief: Resources
    """What it used when it was proposed; its present usage counts where that is known."""

    since: float
    until: float


Assumptions = Mapping[str, Assumption]
"""By pod UID, in the order in which they were made."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pod really is."""

    node: str
    workload: Workload | None


def after_outcome(
    assumptions: Assumptions, outcome: EvictionOutcome, *, life: float, now: float
) -> dict[str, Assumption]:
    """The assumptions once an intent's outcome is known; only a dry run makes one. `life`: seconds for which it holds.

    A real eviction of the pod ends its own: from then on the pod is where its replacement is seen.
    """
    rest = {uid: each for uid, each in assumptions.items() if uid != outcome.pod_uid}
    if outcome.outcome is Outcome.EVICTED:
        return rest
    until = outcome.settled_at + life
    if outcome.outcome is not Outcome.DRY_RUN or not outcome.target or until <= now:
        return dict(assumptions)
    rest[outcome.pod_uid] = Assumption(
        pod_uid=outcome.pod_uid,
        namespace=outcome.namespace,
        pod=outcome.pod,
        workload=outcome.workload,
        node=outcome.node,
        target=outcome.target,
        relief=outcome.expected_reduction,
        since=outcome.settled_at,
        until=until,
    )
    return dict(list(rest.items())[-MOST:])


def standing(
    assumptions: Assumptions, places: Mapping[str, Place], nodes: Collection[str], now: float
) -> dict[str, Assumption]:
    """Without those that hold no longer: their time is over, the pod has left or is leaving, belongs to another
    workload, or the node that it was meant for is gone.

    `places`: by UID, of pods that run and are not leaving.
    """

    def holds(uid: str, each: Assumption) -> bool:
        there = Place(node=each.node, workload=each.workload)
        return each.until > now and places.get(uid) == there and each.target in nodes

    return {uid: each for uid, each in assumptions.items() if holds(uid, each)}


def applied(nodes: Sequence[FleetNode], assumptions: Assumptions) -> list[FleetNode]:
    """The nodes as they would be: each assumed pod, with its usage and what it needs, on its target.

    It stays there: an intent has to name the node on which a pod really is.
    """
    changed = {node.name: node for node in nodes}
    for each in assumptions.values():
        source, target = changed.get(each.node), changed.get(each.target)
        pod = None if source is None else next((pod for pod in source.pods if pod.uid == each.pod_uid), None)
        if source is None or target is None or pod is None:
            continue
        usage = _usage(pod, each)
        changed[source.name] = _without(source, pod, usage)
        moved = msgspec.structs.replace(
            pod, node=target.name, usage=usage, protection=f"assumed moved in dry run, from {source.name}"
        )
        changed[target.name] = _with(target, moved)
    return [changed[node.name] for node in nodes]


def told(assumptions: Assumptions) -> list[DryRunMove]:
    """For people, the newest first."""
    return [
        DryRunMove(
            namespace=each.namespace,
            pod=each.pod,
            workload=each.workload,
            node=each.node,
            target=each.target,
            since=each.since,
            until=each.until,
        )
        for each in sorted(assumptions.values(), key=lambda each: (-each.since, each.namespace, each.pod))
    ]


def _usage(pod: MovablePod, assumption: Assumption) -> Resources:
    def of(name: str) -> float | None:
        measured = known(getattr(pod.usage, name))
        return known(getattr(assumption.relief, name)) if measured is None else measured

    return Resources(cpu=of("cpu"), memory=of("memory"))


def _without(node: FleetNode, pod: MovablePod, usage: Resources) -> FleetNode:
    production = None if node.production is None else list(node.production)
    if production is not None and pod.production and pod.usage in production:
        production.remove(pod.usage)
    return msgspec.structs.replace(
        node,
        usage=_shifted(node, usage, -1.0),
        pods=Later(lambda: [other for other in node.pods if other.uid != pod.uid]),
        production=production,
        fit=msgspec.structs.replace(node.fit, pods=[other for other in node.fit.pods if other.uid != pod.uid]),
    )


def _with(node: FleetNode, pod: MovablePod) -> FleetNode:
    production = node.production
    if production is not None and pod.production:
        production = [*production, pod.usage]
    return msgspec.structs.replace(
        node,
        usage=_shifted(node, pod.usage, 1.0),
        pods=Later(lambda: [*node.pods, pod]),
        production=production,
        fit=msgspec.structs.replace(node.fit, pods=[*node.fit.pods, pod.fit]),
    )


def _shifted(node: FleetNode, usage: Resources, sign: float) -> dict[str, Resources]:
    """In every window as a whole: what is assumed was always so."""
    return {window: plus(value, usage, sign) for window, value in node.usage.items()}
