"""Limits how often one workload may lose a pod."""

from equipoise.binder.decisions.limits.rule import Count, ProposedEviction, WindowedLimit
from equipoise.binder.state.ledger import LedgerEntry, LedgerView
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.workload import Workload


class EvictionsPerWorkload(WindowedLimit, frozen=True, kw_only=True):
    """Evictions of one workload's pods in any window."""

    scope = "workload"

    max: Count = 1
    window: Duration = Duration(300)

    def key(self, of: ProposedEviction | LedgerEntry) -> Workload | None:
        return of.workload

    def describe(self, eviction: ProposedEviction, view: LedgerView) -> str:
        return f"evictions of {eviction.workload} in {self.window}"
