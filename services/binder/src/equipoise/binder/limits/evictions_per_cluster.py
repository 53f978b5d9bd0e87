"""How often the whole cluster may lose a pod."""

from equipoise.binder.ledger import View
from equipoise.binder.limits.count import Count, ShareOrCount, amount
from equipoise.binder.limits.move import Move
from equipoise.binder.limits.refusing import refused
from equipoise.contracts.duration import Duration
from equipoise.contracts.settings import Section


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
