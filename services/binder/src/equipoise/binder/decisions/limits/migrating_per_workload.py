"""Limits how many evicted replicas of one workload may wait for their replacements."""

from equipoise.binder.decisions.limits.rule import CountingLimit, ProposedEviction, ShareOrCount, replicas_amount
from equipoise.binder.state.ledger import LedgerEntry, LedgerView
from equipoise.contracts.kubernetes.workload import Workload


class MigratingPerWorkload(CountingLimit, frozen=True, kw_only=True):
    """Evicted replicas of one workload whose replacements are not ready."""

    max: ShareOrCount | None = None
    """Default: 10%, but 2 of 4 to 10 replicas and 1 of fewer."""

    def entries(self, view: LedgerView) -> list[LedgerEntry]:
        return view.migrating()

    def key(self, of: ProposedEviction | LedgerEntry) -> Workload | None:
        return of.workload

    def maximum(self, eviction: ProposedEviction, view: LedgerView) -> float:
        return replicas_amount(self.max, eviction.replicas)

    def describe(self, eviction: ProposedEviction, view: LedgerView) -> str:
        return f"migrating pods of {eviction.workload}"
