"""Limits how often one namespace may lose a pod."""

from equipoise.binder.decisions.limits.rule import Count, ProposedEviction, WindowedLimit
from equipoise.binder.state.ledger import LedgerEntry, LedgerView
from equipoise.contracts.configuration.duration import Duration


class EvictionsPerNamespace(WindowedLimit, frozen=True, kw_only=True):
    """Evictions in one namespace in any window."""

    scope = "namespace"

    max: Count = 5
    window: Duration = Duration(600)

    def key(self, of: ProposedEviction | LedgerEntry) -> str:
        return f"namespace {of.namespace}"

    def describe(self, eviction: ProposedEviction, view: LedgerView) -> str:
        return f"evictions in {self.key(eviction)} in {self.window}"
