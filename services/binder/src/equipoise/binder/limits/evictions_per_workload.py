"""How often one workload may lose a pod."""

from equipoise.binder.ledger import View
from equipoise.binder.limits.count import Count, amount
from equipoise.binder.limits.move import Move
from equipoise.binder.limits.refusing import refused
from equipoise.contracts.duration import Duration
from equipoise.contracts.settings import Section


class EvictionsPerWorkload(Section, frozen=True, kw_only=True):
    """Evictions of one workload's pods in any window."""

    most: Count = 1
    window: Duration = Duration(300)

    @property
    def memory(self) -> float:
        return self.window

    def refusal(self, move: Move, view: View) -> str:
        counted = sum(entry.workload == move.workload for entry in view.within(self.window))
        return refused(view, counted, amount(self.most, 0), f"evictions of {move.workload} in {self.window}")
