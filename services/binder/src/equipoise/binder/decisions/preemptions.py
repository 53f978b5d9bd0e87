"""Pods that kube-scheduler preempted on the target of an eviction count as if Equipoise had evicted them."""

from collections.abc import Iterable

import msgspec

from equipoise.binder.state.cluster_state import PreemptedPod
from equipoise.binder.state.ledger import Ledger
from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.message import converted

_RESOLUTION = 2.0
"""Seconds by which the API's time of a preemption may be too early."""


def with_preempted(
    ledger: Ledger, pods: Iterable[PreemptedPod], now: float, *, within: float, retention: float
) -> Ledger:
    """The ledger with an entry for every preempted pod for which it does not have one yet.

    A pod counts when an eviction with its node as target was reserved at most `within` seconds before. Pods older than
    `retention` are left out: no limit reads them.
    """
    recorded = {entry.intent_id for entry in ledger.entries}
    evictions = [entry for entry in ledger.entries if entry.counted and not entry.dry_run and not entry.preempted_for]
    added = []
    for node, pod in pods:
        name, at = f"preempted-{pod.uid}", pod.preempted_at
        if at is None or name in recorded or now - at > retention:
            continue
        causes = {
            entry.workload
            for entry in evictions
            if entry.target == node
            and entry.workload is not None
            and entry.reserved_at - _RESOLUTION <= at <= entry.latest + within
        }
        if not causes:
            continue
        added.append(
            converted(
                pod,
                LedgerEntry,
                intent_id=name,
                pod=pod.name,
                node=node,
                pod_uid=pod.uid,
                reserved_at=at,
                expires_at=at,
                settled_at=at,
                outcome=Outcome.EVICTED,
                detail="kube-scheduler preempted it on the intended target of an eviction",
                preempted_for=tuple(sorted(causes)),
            )
        )
    return msgspec.structs.replace(ledger, entries=(*ledger.entries, *added)) if added else ledger
