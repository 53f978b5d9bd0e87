"""Ledgers, entries and proposed evictions with defaults."""

from typing import Any

from builders import NOW, a_workload

from equipoise.binder.decisions.limits.rule import ProposedEviction
from equipoise.binder.state.ledger import Ledger
from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.contracts.messages.eviction import Outcome


def an_entry(pod: str = "web-1", **fields: Any) -> LedgerEntry:
    """An eviction that has just been settled."""
    defaults: dict[str, Any] = {
        "intent_id": f"intent-{pod}",
        "pod_uid": f"uid-{pod}",
        "namespace": "shop",
        "pod": pod,
        "node": "node-a",
        "workload": a_workload(),
        "reserved_at": NOW - 1,
        "expires_at": NOW + 180,
        "settled_at": NOW,
        "outcome": Outcome.EVICTED,
    }
    return LedgerEntry(**(defaults | fields))


def an_eviction(**fields: Any) -> ProposedEviction:
    defaults: dict[str, Any] = {
        "namespace": "shop",
        "node": "node-a",
        "workload": a_workload(),
        "replicas": 10,
        "unready": 0,
        "cluster_pods": 1_000,
    }
    return ProposedEviction(**(defaults | fields))


def a_ledger(*entries: LedgerEntry, **fields: Any) -> Ledger:
    defaults: dict[str, Any] = {"created_at": NOW - 7_200, "started_at": NOW - 7_200, "entries": entries}
    return Ledger(**(defaults | fields))
