"""Stops evictions while replacements cannot be created, however long that takes."""

from equipoise.binder.decisions.limits.rule import Count, CountingLimit, ProposedEviction
from equipoise.binder.state.ledger import LedgerView
from equipoise.binder.state.ledger_entry import LedgerEntry


class FailingReplacements(CountingLimit, frozen=True, kw_only=True):
    """Evicted pods whose controllers cannot create a replacement: admission or a quota refuses it.

    While only one namespace has such pods, they stop the evictions of that namespace only: its owners can make every
    replacement fail, and must not stop the evictions of other namespaces. Once several namespaces have such pods, all
    of the pods count for every namespace.
    """

    per = scope = "namespace"

    max: Count = 1
    """The number of failing replacements at which evictions stop, until the replacements are created or `equipoise
    resume` accepts the failures."""

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
