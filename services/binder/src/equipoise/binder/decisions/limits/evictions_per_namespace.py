"""How often one namespace may lose a pod."""

from equipoise.binder.decisions.limits.count import Count, amount
from equipoise.binder.decisions.limits.move import Move
from equipoise.binder.decisions.limits.refusing import refused
from equipoise.binder.state.ledger import View
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section


class EvictionsPerNamespace(Section, frozen=True, kw_only=True):
    """Evictions in one namespace in any window."""

    most: Count = 5
    window: Duration = Duration(600)

    @property
    def memory(self) -> float:
        return self.window

    def refusal(self, move: Move, view: View) -> str:
        counted = sum(entry.namespace == move.namespace for entry in view.within(self.window))
        what = f"evictions in namespace {move.namespace} in {self.window}"
        return refused(view, counted, amount(self.most, 0), what)
