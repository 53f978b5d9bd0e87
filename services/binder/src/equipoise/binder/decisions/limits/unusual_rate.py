"""An interlock: when much more is evicted than on other days, something is wrong with what proposes it."""

import math

from equipoise.binder.decisions.limits.count import Count, amount
from equipoise.binder.decisions.limits.move import Move
from equipoise.binder.decisions.limits.refusing import refused
from equipoise.binder.state.ledger import View
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section


class UnusualRate(Section, frozen=True, kw_only=True):
    """Evictions in any window, measured by the mean of the last 24 hours."""

    most: Count = 3
    """So many times as many as usual."""

    least: Count = 1
    """So many in a window are usual in any case: a cluster with nothing to do may begin."""

    window: Duration = Duration(600)

    @property
    def memory(self) -> float:
        return self.window

    def refusal(self, move: Move, view: View) -> str:
        usual = max(amount(self.least, 0), view.usual * self.window)
        most = math.inf if math.inf in (amount(self.most, 0), usual) else amount(self.most, 0) * usual
        what = f"evictions in {self.window}, {usual:.3g} are usual"
        return refused(view, len(view.within(self.window)), most, what)
