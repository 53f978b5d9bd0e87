"""Stops all evictions while replacements cannot be created, however long that takes."""

from equipoise.binder.decisions.limits.rule import Count, CountingLimit, ProposedEviction
from equipoise.binder.state.ledger import LedgerEntry, LedgerView


class FailingReplacements(CountingLimit, frozen=True, kw_only=True):
    """Evicted pods of the cluster whose controllers cannot create a replacement: admission or a quota refuses it."""

    scope = "cluster"

    max: Count = 1
    """With so many nothing is evicted, until they are created or `equipoise resume` accepts the failure."""

    def entries(self, view: LedgerView) -> list[LedgerEntry]:
        return view.failing()

    def describe(self, eviction: ProposedEviction, view: LedgerView) -> str:
        failing = view.failing()
        why = f" ({failing[0].failure})" if failing and failing[0].failure else ""
        return f"replacements that cannot be created{why}"
