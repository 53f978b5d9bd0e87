"""Stops evictions while replacements cannot be created, however long that takes."""

from equipoise.binder.decisions.limits.rule import Count, CountingLimit, ProposedEviction
from equipoise.binder.state.ledger import LedgerEntry, LedgerView


class FailingReplacements(CountingLimit, frozen=True, kw_only=True):
    """Evicted pods whose controllers cannot create a replacement: admission or a quota refuses it.

    Those of one namespace count for it alone: its owners can make every replacement fail, and must not stop the
    evictions of all others. Once several namespaces have some, all of them count for every namespace.
    """

    per = scope = "namespace"

    max: Count = 1
    """The number at which evictions stop, until they are created or `equipoise resume` accepts the failure."""

    def entries(self, view: LedgerView) -> list[LedgerEntry]:
        return view.failing()

    def count(self, eviction: ProposedEviction, view: LedgerView) -> int:
        failing = view.failing()
        several = len({entry.namespace for entry in failing}) > 1
        return len(failing) if several else super().count(eviction, view)

    def describe(self, eviction: ProposedEviction, view: LedgerView) -> str:
        failing = view.failing()
        why = f" ({failing[0].failure})" if failing and failing[0].failure else ""
        return f"replacements that cannot be created{why}"
