"""Moves pods from nodes that are hot in CPU, memory or number of pods to cooler nodes that can hold them.

After Koordinator's LowNodeLoad, with these differences. The load is corrected for pods that arrived or left, and for
pending moves. Every move has a named target that stays below its thresholds; Koordinator has a common budget (Σ over
idle nodes of threshold − usage), which may suffice in sum while no single node has room. Each move is planned with the
effects of those before it, on their targets too. Only planned moves use capacity of a target. A pod that was not
measured never moves.
"""

from collections.abc import Collection, Sequence

from equipoise.contracts.configuration.settings import Namespaces, Percent, Section, Thresholds
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.descheduler.decisions.planning.classification import SCOPES, PoolClassification
from equipoise.descheduler.decisions.planning.draft import PlanDraft
from equipoise.descheduler.decisions.planning.hot_node_planner import HotNodePlanner, NodeOrder
from equipoise.descheduler.decisions.planning.pools import (
    ComparisonWeights,
    IdleNodes,
    NodePool,
    PodSelector,
    PoolMembers,
    Selector,
    split,
)
from equipoise.descheduler.decisions.planning.thresholds import Ceilings, Deviation
from equipoise.descheduler.state.cluster import ClusterNode, ClusterView, MovablePod, MovePlan


class LowNodeLoad(Section, frozen=True, kw_only=True, tag_field="name", tag="low_node_load"):
    """Its fields are its settings. The thresholds are those of the shared section `thresholds`."""

    windows: tuple[str, ...] = ()
    """A node is hot (idle) when it is so over each of these; the first also predicts. Default: the shortest."""

    node_selector: Selector = Selector()
    """Other nodes are neither source nor target."""

    pools: tuple[NodePool, ...] = ()
    """Groups of nodes with settings of their own. Pods stay in their group."""

    namespaces: Namespaces | None = None
    """Namespaces whose pods it may move, among those from which pods may be moved at all. null: all of them."""

    pod_selectors: tuple[PodSelector, ...] = ()
    """It may move the pods that one of them selects. Empty: all."""

    deviation: Deviation | None = None
    """Given: thresholds are distances from the mean of the node's pool, instead of the shared thresholds.

    Then idle nodes are also filled by nodes below their threshold. These may move pods to other nodes only if a pod
    reduces their load by at least `margin` points.
    """

    number_of_nodes: IdleNodes | None = None
    """Move pods only while more than so many nodes are idle: without one, the cluster as a whole is busy.

    -1: also without idle nodes, as long as nodes between their thresholds can take pods. null: 0, and -1 with a
    deviation.
    """

    node_order: NodeOrder = "weighted"
    """Which hot node is relieved first: that with the highest weighted load, or with the most memory, then CPU."""

    margin: Percent = 2.0
    """Points below its threshold to which a hot node is brought, so that it is not hot again at once."""

    target_threshold: Percent = 50.0
    """How far a node that is not idle may be filled, between its low (0) and its high threshold (100).

    With a deviation it may be filled further by pods of a node that stays hotter than it becomes.
    """

    min_load_reduction: Percent = 0.5
    """Points by which a move must at least reduce the load of its source."""

    weights: ComparisonWeights = ComparisonWeights()

    def __post_init__(self) -> None:
        names = [pool.name for pool in self.pools]
        if len(set(names)) < len(names):
            raise ValueError("pools must not have a name twice")

    def classify(self, cluster: ClusterView) -> list[NodeClassification]:
        """Every selected node as hot, idle, between or unknown, with its load over the first window."""
        return [each for pool in self._pools(cluster) for each in pool.classify()]

    def plan(self, cluster: ClusterView, abnormal: Collection[str]) -> MovePlan:
        """Moves away from the hot nodes among `abnormal`, hottest first, until each is below its threshold."""
        pools = self._pools(cluster)
        if not any(pool.sources(scope, abnormal) for pool in pools for scope in SCOPES):
            return MovePlan(why="no node has been above its threshold for long enough")
        production = any(pool.production is not None for pool in pools)
        draft = PlanDraft(cluster, self.windows_of(cluster), production=production)
        for pool in pools:
            HotNodePlanner(pool, draft, self).plan(abnormal)
        return draft.plan("the pending moves are sufficient")

    def windows_of(self, cluster: ClusterView) -> Sequence[str]:
        """The windows that it uses."""
        return self.windows or (cluster.windows[0],)

    def ceilings(self, cluster: ClusterView) -> dict[str, Ceilings]:
        """By name of the node: up to which load it may be filled, as a whole and by production pods."""
        return {
            node.name: Ceilings(
                node=pool.applied.ceiling, production={} if pool.production is None else pool.production.ceiling
            )
            for pool in self._pools(cluster)
            for node in pool.members.nodes
        }

    def may_move(self, pod: MovablePod) -> str:
        """Which of its settings excludes the pod; "" when it may be moved."""
        if self.namespaces is not None and not self.namespaces.allow(pod.namespace, ""):
            return "its namespace is excluded by the strategy"
        if self.pod_selectors and not any(chosen.selector.matches(pod.fit.labels) for chosen in self.pod_selectors):
            return "none of the strategy's podSelectors selects it"
        return ""

    def _pools(self, cluster: ClusterView) -> list[PoolClassification]:
        """The pools that have nodes, classified."""
        groups = split(cluster.nodes, self.node_selector, self.pools)
        pools = [*self.pools, NodePool(name="", node_selector=Selector())]
        windows, margin = self.windows_of(cluster), self.margin / 100
        return [
            PoolClassification(self._members(pool, nodes, cluster.thresholds), windows, margin=margin)
            for pool, nodes in zip(pools, groups, strict=True)
            if nodes
        ]

    def _members(self, pool: NodePool, nodes: Sequence[ClusterNode], shared: Thresholds) -> PoolMembers:
        deviation = self.deviation if pool.deviation is None else pool.deviation
        deviation = None if deviation == "off" else deviation
        needed = self.number_of_nodes if pool.number_of_nodes is None else pool.number_of_nodes
        default = 0 if deviation is None else -1
        return PoolMembers(
            pool=pool.name,
            nodes=nodes,
            thresholds=pool.thresholds(shared),
            deviation=deviation,
            weights=self.weights if pool.weights is None else pool.weights,
            number_of_nodes=default if needed is None else needed,
        )
