"""How closely evictions may follow one another."""

import math

from equipoise.binder.decisions.limits.count import Count, amount, halved
from equipoise.binder.decisions.limits.move import Move
from equipoise.binder.decisions.limits.refusing import refused
from equipoise.binder.state.ledger import View
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section


class Pace(Section, frozen=True, kw_only=True):
    """Reservations in the cluster in any short window. One that comes too soon waits for its turn.

    It spreads the work of API server and scheduler, and bounds nothing else: so it is counted from the reservation,
    and no eviction waits for the answer to another.
    """

    most: Count = 1
    window: Duration = Duration(1)

    @property
    def memory(self) -> float:
        return self.window

    def refusal(self, move: Move, view: View) -> str:
        return refused(view, len(self._taken(view)), amount(self.most, 0), f"evictions in {self.window}")

    def wait(self, view: View) -> float:
        """Seconds until the next turn if no other eviction takes it: 0 when it is now, infinite when never."""
        most = halved(amount(self.most, 0)) if view.halved else amount(self.most, 0)
        if most == 0:
            return math.inf
        taken = self._taken(view)
        return max(0.0, taken[-int(most)] + self.window - view.now) if len(taken) >= most else 0.0

    def _taken(self, view: View) -> list[float]:
        """When the turns of the last window were taken, oldest first."""
        return sorted(entry.reserved_at for entry in view.entries if view.now - entry.reserved_at < self.window)
