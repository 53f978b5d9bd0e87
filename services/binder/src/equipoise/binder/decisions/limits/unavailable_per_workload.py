"""How many replicas of one workload may be missing, whoever took them."""

from equipoise.binder.decisions.limits.count import ShareOrCount, of_replicas
from equipoise.binder.decisions.limits.move import Move
from equipoise.binder.decisions.limits.refusing import refused
from equipoise.binder.state.ledger import View
from equipoise.contracts.configuration.settings import Section


class UnavailablePerWorkload(Section, frozen=True, kw_only=True):
    """Replicas of one workload that are not ready, and those in migration.

    A replica in migration is for a while both, and then counts twice: its loss may or may not show in the workload's
    status yet, and only the sum is never too small.
    """

    most: ShareOrCount | None = None
    """Default: 10%, but 2 of 4 to 10 replicas and 1 of fewer."""

    @property
    def memory(self) -> float:
        return 0.0

    def refusal(self, move: Move, view: View) -> str:
        in_migration = sum(entry.workload == move.workload for entry in view.in_migration())
        most = of_replicas(self.most, move.replicas)
        return refused(view, move.unready + in_migration, most, f"unavailable replicas of {move.workload}")
