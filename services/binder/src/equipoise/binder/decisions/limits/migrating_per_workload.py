"""Limits how many evicted replicas of one workload may wait for their replacements."""

from equipoise.binder.decisions.limits.rule import CountingLimit, ProposedEviction, ShareOrCount, replicas_amount
from equipoise.binder.state.ledger import LedgerView
from equipoise.binder.state.ledger_entry import LedgerEntry


class MigratingPerWorkload(CountingLimit, frozen=True, kw_only=True):
    """Evicted replicas of one workload whose replacements are not ready."""

    per = "workload"
    counts = "migrating pods of {eviction.workload}"

    max: ShareOrCount | None = None
    """The default is 10% of more than 10 replicas, 2 of 4 to 10 replicas, and 1 of fewer replicas."""

    def entries(self, view: LedgerView) -> list[LedgerEntry]:
        return view.migrating()

    def maximum(self, eviction: ProposedEviction, view: LedgerView) -> float:
        return replicas_amount(self.max, eviction.replicas)
