"""Limits how closely evictions follow one another."""

import math

from equipoise.binder.decisions.limits.rule import Count, WindowedLimit, amount, halved
from equipoise.binder.state.ledger import LedgerView
from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.contracts.configuration.duration import Duration


class EvictionRate(WindowedLimit, frozen=True, kw_only=True):
    """Reservations in the cluster in any short window. An eviction that comes too soon waits.

    This spreads the work of API server and scheduler and protects nothing else. So it counts from the reservation: no
    eviction waits for the API server's response to another.
    """

    delays = True
    counts = "evictions in {limit.window}"

    max: Count = 1
    window: Duration = Duration(1)

    def entries(self, view: LedgerView) -> list[LedgerEntry]:
        """The reservations in the window, oldest first."""
        recent = (entry for entry in view.entries if view.now - entry.reserved_at < self.window)
        return sorted(recent, key=lambda entry: entry.reserved_at)

    def usage(self, view: LedgerView) -> dict[str, int]:
        return {}  # the window ends before anybody reads it

    def wait(self, view: LedgerView) -> float:
        """Seconds until the next reservation is allowed: 0 if it is allowed now, infinite if it never is."""
        maximum = halved(amount(self.max, 0)) if view.halved else amount(self.max, 0)
        if maximum == 0:
            return math.inf
        recent = self.entries(view)
        if len(recent) < maximum:
            return 0.0
        return max(0.0, recent[-int(maximum)].reserved_at + self.window - view.now)
