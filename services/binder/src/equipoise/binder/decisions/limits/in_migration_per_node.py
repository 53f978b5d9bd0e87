"""How many pods may be on their way from one node."""

from equipoise.binder.decisions.limits.count import Count, amount
from equipoise.binder.decisions.limits.move import Move
from equipoise.binder.decisions.limits.refusing import refused
from equipoise.binder.state.ledger import View
from equipoise.contracts.configuration.settings import Section


class InMigrationPerNode(Section, frozen=True, kw_only=True):
    """Pods evicted from one node whose workloads do not have their replica back."""

    most: Count = 2

    @property
    def memory(self) -> float:
        return 0.0

    def refusal(self, move: Move, view: View) -> str:
        counted = sum(entry.node == move.node for entry in view.in_migration())
        return refused(view, counted, amount(self.most, 0), f"pods in migration from node {move.node}")
