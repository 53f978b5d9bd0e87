"""Stops all evictions when there are many more than usual, because then the descheduler may be at fault."""

import math

from equipoise.binder.decisions.limits.rule import Count, ProposedEviction, WindowedLimit, amount
from equipoise.binder.state.ledger import LedgerView
from equipoise.contracts.configuration.duration import Duration


class UnusualRate(WindowedLimit, frozen=True, kw_only=True):
    """Evictions in any window, compared with the mean of the last 24 hours."""

    scope = "cluster"
    replaced_by_campaign = True

    max: Count = 3
    """The allowed multiple of the mean."""

    min: Count = 1
    """The least number that counts as usual in a window. It permits the first evictions of a cluster."""

    window: Duration = Duration(600)

    def maximum(self, eviction: ProposedEviction, view: LedgerView) -> float:
        factor, usual = amount(self.max, 0), self._usual(view)
        return math.inf if math.inf in (factor, usual) else factor * usual

    def describe(self, eviction: ProposedEviction, view: LedgerView) -> str:
        return f"evictions in {self.window}, {self._usual(view):.3g} are usual"

    @property
    def maximum_text(self) -> str:
        return f"{self.max} times the usual"

    def _usual(self, view: LedgerView) -> float:
        return max(amount(self.min, 0), view.mean_rate * self.window)
