"""Stops a workload whose replacement made kube-scheduler preempt another pod."""

from collections import Counter
from collections.abc import Mapping

from equipoise.binder.decisions.limits.rule import Count, ProposedEviction, WindowedLimit
from equipoise.binder.state.ledger import LedgerView
from equipoise.contracts.configuration.duration import Duration


class Preemptions(WindowedLimit, frozen=True, kw_only=True):
    """Pods preempted on the intended targets of one workload's evictions, in any window."""

    per = scope = "workload"
    counts = "pods preempted in {limit.window} on the intended targets of {eviction.workload}"

    max: Count = 1
    """The number at which the workload's evictions stop. Preempted pods themselves count as evicted by Equipoise."""

    window: Duration = Duration(3_600)

    within: Duration = Duration(600)
    """A preemption on the intended target counts if it happens at most this long after the eviction."""

    def count(self, eviction: ProposedEviction, view: LedgerView) -> int:
        return sum(eviction.workload in entry.preempted_for for entry in self.entries(view))

    def usage(self, view: LedgerView) -> Mapping[str, int]:
        return Counter(str(workload) for entry in self.entries(view) for workload in entry.preempted_for)
