"""An interlock: a workload whose replacement made kube-scheduler preempt another pod stands still."""

from equipoise.binder.decisions.limits.count import Count, amount
from equipoise.binder.decisions.limits.move import Move
from equipoise.binder.decisions.limits.refusing import refused
from equipoise.binder.state.ledger import View
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section


class Preemptions(Section, frozen=True, kw_only=True):
    """Pods preempted on the intended targets of one workload's moves, in any window."""

    most: Count = 1
    """With so many no pod of the workload moves. The preempted pods themselves count as evicted by us."""

    window: Duration = Duration(3_600)

    within: Duration = Duration(600)
    """A preemption on its target is put down to a move for this long."""

    @property
    def memory(self) -> float:
        return self.window

    def refusal(self, move: Move, view: View) -> str:
        counted = sum(move.workload in entry.stops for entry in view.within(self.window))
        what = f"pods preempted in {self.window} where pods of {move.workload} were to go"
        return refused(view, counted, amount(self.most, 0), what)
