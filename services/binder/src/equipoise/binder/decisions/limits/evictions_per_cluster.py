"""Limits how often the cluster may lose a pod."""

from equipoise.binder.decisions.limits.rule import Count, ProposedEviction, ShareOrCount, WindowedLimit, amount
from equipoise.binder.state.ledger import LedgerView
from equipoise.contracts.configuration.duration import Duration


class EvictionsPerCluster(WindowedLimit, frozen=True, kw_only=True):
    """Evictions in the cluster in any window: a share of its pods, and never more than a fixed number."""

    scope = "cluster"
    replaced_by_campaign = True
    counts = "evictions in the cluster in {limit.window}"

    max: ShareOrCount = "1%"
    """The allowed number of evictions, or the share of all pods on the nodes."""

    max_count: Count = 20
    window: Duration = Duration(600)

    def maximum(self, eviction: ProposedEviction, view: LedgerView) -> float:
        return min(amount(self.max, eviction.cluster_pods), amount(self.max_count, 0))

    def enough_pods(self, pods: int) -> bool:
        """Whether more pods do not change the maximum."""
        maximum = amount(self.max, pods)
        return isinstance(self.max, int) or not maximum or maximum >= amount(self.max_count, 0)

    @property
    def maximum_text(self) -> str:
        rule = f"{self.max} of the pods" if str(self.max).endswith("%") else self.max
        return f"{rule}, at most {self.max_count}"
