"""Pods that kube-scheduler preempted where we wanted a replacement to go: they count as if we had evicted them."""

from collections.abc import Iterable, Sequence

import msgspec

from equipoise.binder.state.ledger import Entry, Ledger
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.placement import GonePod, NodePlacement, PlacedPod

_RESOLUTION = 2.0
"""Seconds by which the API's time of a preemption may be too early."""


class Preempted(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that had to leave its node for another of higher priority."""

    uid: str
    namespace: str
    pod: str
    workload: Workload | None
    node: str
    at: float
    """Unix seconds at the API server."""


def preempted_on(placement: NodePlacement) -> tuple[Preempted, ...]:
    """As the node's placement tells it: those on their way out, and those gone."""
    pods: Sequence[PlacedPod | GonePod] = (*placement.pods, *placement.gone)
    return tuple(
        Preempted(
            uid=pod.uid,
            namespace=pod.namespace,
            pod=pod.name,
            workload=pod.workload,
            node=placement.node,
            at=pod.preempted_at,
        )
        for pod in pods
        if pod.preempted_at is not None
    )


def with_preempted(ledger: Ledger, pods: Iterable[Preempted], now: float, *, within: float, memory: float) -> Ledger:
    """The ledger with an entry for every such pod that it does not have yet.

    A pod counts when a move to its node was reserved at most `within` seconds before. Older ones than `memory` are
    left out: no limit would look at them.
    """
    known = {entry.intent_id for entry in ledger.entries}
    moves = [entry for entry in ledger.entries if entry.counted and not entry.dry_run and not entry.stops]
    added = []
    for pod in pods:
        name = f"preempted-{pod.uid}"
        blamed = {
            move.workload
            for move in moves
            if move.target == pod.node
            and move.workload is not None
            and move.reserved_at - _RESOLUTION <= pod.at <= move.latest + within
        }
        if name in known or not blamed or now - pod.at > memory:
            continue
        added.append(
            Entry(
                intent_id=name,
                pod_uid=pod.uid,
                namespace=pod.namespace,
                pod=pod.pod,
                node=pod.node,
                workload=pod.workload,
                reserved_at=pod.at,
                expires_at=pod.at,
                settled_at=pod.at,
                outcome=Outcome.EVICTED,
                detail="kube-scheduler preempted it where a replacement was to go",
                stops=tuple(sorted(blamed)),
            )
        )
    return msgspec.structs.replace(ledger, entries=(*ledger.entries, *added)) if added else ledger
