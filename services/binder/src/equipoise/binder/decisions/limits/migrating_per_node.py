"""Limits how many pods evicted from one node may wait for their replacements."""

from equipoise.binder.decisions.limits.rule import Count, CountingLimit, ProposedEviction
from equipoise.binder.state.ledger import LedgerEntry, LedgerView


class MigratingPerNode(CountingLimit, frozen=True, kw_only=True):
    """Pods evicted from one node whose workloads do not have all replicas ready again."""

    max: Count = 2

    def entries(self, view: LedgerView) -> list[LedgerEntry]:
        return view.migrating()

    def key(self, of: ProposedEviction | LedgerEntry) -> str:
        return f"node {of.node}"

    def describe(self, eviction: ProposedEviction, view: LedgerView) -> str:
        return f"pods migrating from node {eviction.node}"
