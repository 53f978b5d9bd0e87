"""How often the whole cluster may lose a pod."""

from equipoise.binder.decisions.limits.count import Count, ShareOrCount, amount
from equipoise.binder.decisions.limits.move import Move
from equipoise.binder.decisions.limits.refusing import refused
from equipoise.binder.state.ledger import View
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section


class EvictionsPerCluster(Section, frozen=True, kw_only=True):
    """Evictions in the cluster in any window: a share of its pods, and never more than a fixed number."""

    most: ShareOrCount = "1%"
    """A share is one of all pods on the nodes."""

    at_most: Count = 20
    window: Duration = Duration(600)

    @property
    def memory(self) -> float:
        return self.window

    def refusal(self, move: Move, view: View) -> str:
        most = min(amount(self.most, move.cluster_pods), amount(self.at_most, 0))
        return refused(view, len(view.within(self.window)), most, f"evictions in the cluster in {self.window}")
