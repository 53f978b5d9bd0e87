"""Limits how many pods evicted from one node may wait for their replacements."""

from equipoise.binder.decisions.limits.rule import Count, CountingLimit
from equipoise.binder.state.ledger import LedgerView
from equipoise.binder.state.ledger_entry import LedgerEntry


class MigratingPerNode(CountingLimit, frozen=True, kw_only=True):
    """Pods evicted from one node whose workloads do not have all replicas ready again."""

    per = "node"
    counts = "pods migrating from node {eviction.node}"

    max: Count = 2

    def entries(self, view: LedgerView) -> list[LedgerEntry]:
        return view.migrating()
