"""How many replicas of one workload may be on their way."""

from equipoise.binder.decisions.limits.count import ShareOrCount, of_replicas
from equipoise.binder.decisions.limits.move import Move
from equipoise.binder.decisions.limits.refusing import refused
from equipoise.binder.state.ledger import View
from equipoise.contracts.configuration.settings import Section


class InMigrationPerWorkload(Section, frozen=True, kw_only=True):
    """Evicted replicas of one workload that are not back."""

    most: ShareOrCount | None = None
    """Default: 10%, but 2 of 4 to 10 replicas and 1 of fewer."""

    @property
    def memory(self) -> float:
        return 0.0

    def refusal(self, move: Move, view: View) -> str:
        counted = sum(entry.workload == move.workload for entry in view.in_migration())
        most = of_replicas(self.most, move.replicas)
        return refused(view, counted, most, f"pods in migration of {move.workload}")
