"""How often one workload may lose a pod."""

from equipoise.binder.decisions.limits.count import Count, amount
from equipoise.binder.decisions.limits.move import Move
from equipoise.binder.decisions.limits.refusing import refused
from equipoise.binder.state.ledger import View
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section


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
