"""Moves pods from nodes that are hot in CPU, memory or number of pods to cooler nodes that can hold them.

After Koordinator's LowNodeLoad, with these differences. The load is corrected for pods that arrived or left, and for
pending moves. Every move has a named target that stays below its thresholds; Koordinator has a common budget (Σ over
idle nodes of threshold − usage), which may suffice in sum while no single node has room. Each move is planned with the
effects of those before it, on their targets too. Only planned moves use capacity of a target. A pod that was not
measured never moves. From a node that would be below its thresholds without its batch work, only batch work moves.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec

from equipoise.contracts.configuration.settings import Namespaces, Percent, Section
from equipoise.contracts.load.correction import known
from equipoise.contracts.messages.descheduling import NodeClassification, RefusedMove
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod, Resource
from equipoise.descheduler.decisions.planning.classification import ONLY_EXPECTED, SCOPES, PoolClassification, Scope
from equipoise.descheduler.decisions.planning.contention_relief import ContentionRelief
from equipoise.descheduler.decisions.planning.pod_order import in_order, load_of_pod
from equipoise.descheduler.decisions.planning.pools import (
    ComparisonWeights,
    IdleNodes,
    NodePool,
    PodSelector,
    PoolMembers,
    Selector,
    split,
)
from equipoise.descheduler.decisions.planning.target_selection import (
    TOLERANCE,
    TargetChoice,
    least_loaded_target,
    summary,
    target_nodes,
)
from equipoise.descheduler.decisions.planning.thresholds import Ceilings, Deviation
from equipoise.descheduler.state.amounts_without_target import AmountsWithoutTarget
from equipoise.descheduler.state.draft import MAX_REFUSED, MOVES_OF_ALL, PlanDraft

NodeOrder = Literal["weighted", "memoryThenCpu"]


class LowNodeLoad(Section, frozen=True, kw_only=True, tag_field="name", tag="low_node_load"):
    """The strategy `low_node_load` and its settings. The thresholds are those of the shared section `thresholds`."""

    windows: tuple[str, ...] = ()
    """A node is hot (or idle) if it is hot (or idle) over each of these windows. The first one also predicts the load.
    Default: the shortest."""

    node_selector: Selector = Selector()
    """Other nodes are neither source nor target."""

    pools: tuple[NodePool, ...] = ()
    """Groups of nodes with settings of their own. Pods stay in their group."""

    namespaces: Namespaces | None = None
    """Namespaces whose pods it may move, among those from which pods may be moved at all. null: all of them."""

    pod_selectors: tuple[PodSelector, ...] = ()
    """Selectors of the pods that may be moved: one of them has to match. Empty: all pods may be moved."""

    deviation: Deviation | None = None
    """Thresholds as distances from the mean of the node's pool. null: the shared thresholds apply.

    With a deviation, idle nodes are also filled by nodes below their threshold. These may move pods to other nodes only
    if a pod reduces their load by at least `margin` points.
    """

    number_of_nodes: IdleNodes | None = None
    """Move pods only while more than this many nodes are idle: without one, the cluster as a whole is busy.

    -1: also without idle nodes, as long as nodes between their thresholds can take pods. null: 0, and -1 with a
    deviation.
    """

    node_order: NodeOrder = "weighted"
    """Which hot node is relieved first: that with the highest weighted load, or with the most memory, then CPU."""

    margin: Percent = 2.0
    """A hot node is brought this many points below its threshold, so that it is not hot again at once."""

    target_threshold: Percent = 50.0
    """How far a node that is not idle may be filled, between its low (0) and its high threshold (100).

    With a deviation, pods may fill a node further if they come from a node that stays hotter than this node becomes.
    """

    min_load_reduction: Percent = 0.5
    """The least reduction of the load of the source by a move, in points."""

    weights: ComparisonWeights = ComparisonWeights()

    def __post_init__(self) -> None:
        names = [pool.name for pool in self.pools]
        if len(set(names)) < len(names):
            raise ValueError("pools must not have a name twice")

    def classify(self, cluster: ClusterView) -> list[NodeClassification]:
        """Every selected node as hot, idle, between or unknown, with its load over the first window."""
        return [classification for pool in self._pools(cluster) for classification in pool.classify()]

    def plan(self, cluster: ClusterView, abnormal: Collection[str]) -> MovePlan:
        """Moves away from the hot nodes among `abnormal`, hottest first, until each is below its threshold."""
        pools = self._pools(cluster)
        if not any(_has_sources(pool, abnormal) for pool in pools):
            names = {node.name for node in cluster.nodes}
            hot = any(_has_sources(pool, names) for pool in pools)
            why = f"no node {'has been above its threshold for long enough' if hot else 'is above its threshold'}"
            why = f"{why}, or {ONLY_EXPECTED}" if any(pool.only_expected() for pool in pools) else why
            calm = [RefusedMove(pod="", node=node.name, why=text) for pool in pools for node, text in pool.calm()]
            return MovePlan(why=calm[0].why if calm and not hot else why, refused=calm[:MAX_REFUSED])
        production = any(pool.production is not None for pool in pools)
        draft = PlanDraft(cluster, self.windows_of(cluster), production=production)
        for pool in pools:
            _HotNodePlanner(pool, draft, self).plan(abnormal)
        for node, why in (entry for pool in pools for entry in pool.calm()):
            draft.refuse(node, why)
        return draft.plan("the pending moves are sufficient")

    @property
    def levels(self) -> bool:
        """Whether there is a deviation: a node above the mean is then relieved although it is not hot."""
        return self.deviation is not None or any(pool.deviation is not None for pool in self.pools)

    def windows_of(self, cluster: ClusterView) -> Sequence[str]:
        """The windows that the strategy uses."""
        return self.windows or (cluster.windows[0],)

    def ceilings(self, cluster: ClusterView) -> dict[str, Ceilings]:
        """The load up to which each node may be filled, as a whole and by production pods; by name."""
        return {
            node.name: Ceilings(
                node=pool.applied.ceiling, production={} if pool.production is None else pool.production.ceiling
            )
            for pool in self._pools(cluster)
            for node in pool.members.nodes
        }

    def may_move(self, pod: MovablePod) -> str:
        """The setting that excludes the pod, as a reason; "" if the pod may be moved."""
        if self.namespaces is not None and not self.namespaces.allow(pod.namespace, ""):
            return "its namespace is excluded by the strategy"
        if self.pod_selectors and not any(chosen.selector.matches(pod.info.labels) for chosen in self.pod_selectors):
            return "none of the strategy's podSelectors selects it"
        return ""

    def _pools(self, cluster: ClusterView) -> list[PoolClassification]:
        """The pools that have nodes, classified."""
        groups = split(cluster.nodes, self.node_selector, self.pools)
        pools = [*self.pools, NodePool(name="", node_selector=Selector())]
        windows, margin = self.windows_of(cluster), self.margin / 100
        return [
            PoolClassification(self._members(pool, nodes, cluster), windows, margin=margin)
            for pool, nodes in zip(pools, groups, strict=True)
            if nodes
        ]

    def _members(self, pool: NodePool, nodes: Sequence[ClusterNode], cluster: ClusterView) -> PoolMembers:
        deviation = self.deviation if pool.deviation is None else pool.deviation
        deviation = None if deviation == "off" else deviation
        needed = self.number_of_nodes if pool.number_of_nodes is None else pool.number_of_nodes
        default = 0 if deviation is None else -1
        return PoolMembers(
            pool=pool.name,
            nodes=nodes,
            thresholds=pool.thresholds(cluster.thresholds),
            deviation=deviation,
            weights=self.weights if pool.weights is None else pool.weights,
            number_of_nodes=default if needed is None else needed,
            require_pressure=cluster.require_pressure,
            further=cluster.further,
        )


class _HotNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node from which pods should be moved."""

    node: ClusterNode
    scope: Scope
    hot: Sequence[Resource]
    """The resources in which it is above its threshold."""

    overloaded: bool
    """Whether the node is above its threshold before thresholds were lowered. If not, the node is hot only because idle
    nodes should be filled."""

    by_batch_work: bool
    """Whether the node would not be hot without the pods that give way to others: then only these may leave.

    This holds even if they cannot leave: their cores are available to the other pods at once, and where memory is
    short, the kernel and the agent end them first.
    """

    reason: str


class _HotNodePlanner:
    """Adds the moves of one pool to a draft."""

    def __init__(self, pool: PoolClassification, draft: PlanDraft, strategy: LowNodeLoad) -> None:
        self._pool = pool
        self._draft = draft
        self._strategy = strategy
        self._weights: Mapping[Resource, float] = pool.weights()
        self._targets = target_nodes(
            pool.members.nodes, draft.projection, pool.applied, pool.production,
            target_threshold=strategy.target_threshold / 100, leveling=pool.members.deviation is not None,
        )  # fmt: skip

        self._limited = pool.applied.ceiling.keys() - set(pool.members.further)
        """The resources of which the usage of a pod must be known."""

        self._without_target = AmountsWithoutTarget(pool.members.further)

    def plan(self, abnormal: Collection[str]) -> None:
        """Moves away from the hot nodes among `abnormal`, hottest first; nodes hot by their production come last."""
        sources = [self._source(index, node, scope) for scope in SCOPES for index, node in self._hot(scope, abnormal)]
        contended = self._pool.contended(abnormal)
        if not sources and not contended:
            return
        idle, needed = int(self._targets.idle.sum()), self._pool.members.number_of_nodes
        if idle <= needed:
            where = f" in pool {self._pool.members.pool}" if self._pool.members.pool else ""
            refused = self._pool.refused_idle()
            others = f"; {summary(refused)}" if refused else ""
            self._draft.refuse(None, f"{idle} idle nodes{where}, more than {needed} are needed (numberOfNodes){others}")
            return
        for source in sources:
            if source.node.source_refusal:
                self._draft.refuse(source.node, source.node.source_refusal)
            else:
                self._relieve(source)
        thresholds = self._pool.members.thresholds.pressure
        ContentionRelief(self._draft, self._targets, thresholds, self._weights, self._strategy.may_move).plan(contended)

    def _hot(self, scope: Scope, abnormal: Collection[str]) -> list[tuple[int, ClusterNode]]:
        return sorted(self._pool.sources(scope, abnormal), key=lambda entry: self._order(entry[1], scope))

    def _source(self, index: int, node: ClusterNode, scope: Scope) -> _HotNode:
        hot = self._pool.hot(scope, index)
        return _HotNode(
            node=node,
            scope=scope,
            hot=hot,
            overloaded=self._is_overloaded(node, scope, hot, margin=0.0),
            by_batch_work=scope == "node" and self._is_hot_by_batch_work(node, hot),
            reason=self._pool.reason(scope, index),
        )

    def _is_overloaded(self, node: ClusterNode, scope: Scope, hot: Sequence[Resource], *, margin: float) -> bool:
        """Whether the node is above a threshold minus the margin (0..1), before thresholds were lowered."""
        load, applied = self._load(node, scope), self._pool.applied_to(scope)
        return any(
            applied.hot[name] >= applied.ceiling[name]
            or load.get(name, 0.0) > applied.ceiling[name] - margin + TOLERANCE
            for name in hot
        )

    def _is_hot_by_batch_work(self, node: ClusterNode, hot: Sequence[Resource]) -> bool:
        if not node.batch_work_usages():
            return False
        load = self._draft.projection.load_without_batch_work(node)
        return not self._above("node", hot, load, margin=0.0)

    def _order(self, node: ClusterNode, scope: Scope) -> tuple[float, float, str]:
        """The sort key of a hot node: the hottest node comes first."""
        load = self._load(node, scope)
        if self._strategy.node_order == "memoryThenCpu":
            return -load.get("memory", 0.0), -load.get("cpu", 0.0), node.name
        total = sum(self._weights[resource] for resource in load)
        weighted = sum(min(value, 1.0) * self._weights[resource] for resource, value in load.items())
        return -(weighted / total if total else 0.0), 0.0, node.name

    def _load(self, node: ClusterNode, scope: Scope) -> dict[Resource, float]:
        """Projected load of the resources that are known, without what is only expected."""
        projection = self._draft.projection
        return projection.measured_load(node) if scope == "node" else projection.production_load(node)

    def _relieve(self, source: _HotNode) -> None:
        """Plans moves until the node is below its thresholds or nothing more may leave."""
        waiting: list[MovablePod] | None = None
        while self._still_hot(source) and self._draft.room_from(source.node) > 0:
            if self._draft.room <= 0:
                self._draft.refuse(source.node, MOVES_OF_ALL)
                return
            if waiting is None:
                waiting = [pod for pod in source.node.pods if self._may_leave(pod, source)]
                if source.by_batch_work:
                    waiting = self._batch_work(source, waiting)
            pod = self._move_one(source, waiting)
            if pod is None:
                return
            waiting.remove(pod)

    def _batch_work(self, source: _HotNode, waiting: Sequence[MovablePod]) -> list[MovablePod]:
        batch_work = [pod for pod in waiting if pod.batch_work]
        if len(batch_work) < len(waiting):
            self._draft.refuse(
                source.node, "it is not above its thresholds without its batch work: only batch work may leave it"
            )
        return batch_work

    def _still_hot(self, source: _HotNode) -> list[Resource]:
        """The hot resources whose load is not yet below their threshold minus the margin."""
        load, margin = self._load(source.node, source.scope), self._strategy.margin / 100
        return self._above(source.scope, source.hot, load, margin=margin)

    def _above(
        self, scope: Scope, hot: Sequence[Resource], load: Mapping[Resource, float], *, margin: float
    ) -> list[Resource]:
        """The hot resources whose load is above the threshold minus the margin (0..1)."""
        applied = self._pool.applied_to(scope)
        # A load equal to its threshold is not above it, and sums of shares are not exact.
        return [name for name in hot if load.get(name, 0.0) > applied.hot[name] - margin + TOLERANCE]

    def _may_leave(self, pod: MovablePod, source: _HotNode) -> bool:
        if source.scope == "prod" and not pod.production:
            return False
        why = pod.protection or self._strategy.may_move(pod)
        load = load_of_pod(pod, source.node.base, _capacity(source.node))
        measured = known(pod.usage.cpu) is not None or known(pod.usage.memory) is not None
        if not why and not (measured and self._limited <= load.keys()):
            why = "its usage is not known"
        if not why and not any(name in load for name in source.hot):
            why = f"its usage of {' and '.join(source.hot)} is not known"
        least = self._strategy.min_load_reduction / 100
        # Each pod reduces the number of pods by one, however many the node allows.
        if not why and all(load.get(name, 0.0) < least for name in source.hot) and "pods" not in source.hot:
            why = "its usage is below minLoadReduction"
        if why:
            self._draft.protect(pod, why)
        return not why

    def _move_one(self, source: _HotNode, waiting: Sequence[MovablePod]) -> MovablePod | None:
        """Plans the best move. Returns its pod; None when there is none."""
        node, draft = source.node, self._draft
        load, aim = self._load(node, source.scope), self._pool.applied_to(source.scope).aim
        hot = self._still_hot(source)
        excess = {resource: load[resource] - aim[resource] for resource in hot}
        capacity = _capacity(node)
        for pod in in_order(waiting, base=node.base, excess=excess, weights=self._weights, capacity=capacity):
            if draft.busy(pod):
                draft.refuse(node, "another pod of its workload moves first", pod)
                continue
            choice = self._target_for(pod, source, hot)
            if choice.target is not None:
                draft.add(pod, node, choice.target, source.reason)
                self._without_target.clear()
                return pod
            draft.refuse(node, choice.why, pod)
        return None

    def _target_for(self, pod: MovablePod, source: _HotNode, hot: Sequence[Resource]) -> TargetChoice:
        """The target of a pod. A pod that is larger than one without a target has none either: this saves most of the
        work if hundreds of hot nodes find no target.
        """
        if why := self._without_target.reason(pod):
            return TargetChoice(why=why)
        margin = self._strategy.margin / 100
        until = margin if source.overloaded else 0.0
        overloaded = self._is_overloaded(source.node, source.scope, source.hot, margin=until)
        choice = least_loaded_target(
            pod,
            source.node,
            self._targets,
            self._draft.projection,
            hot=hot,
            weights=self._weights,
            production=source.scope == "prod",
            min_reduction=None if overloaded else margin,
        )
        if choice.too_large:
            self._without_target.add(pod, choice.why)
        return choice


def _has_sources(pool: PoolClassification, abnormal: Collection[str]) -> bool:
    """Whether a node among `abnormal` is hot, by its load or by its pressure."""
    return any(pool.sources(scope, abnormal) for scope in SCOPES) or bool(pool.contended(abnormal))


def _capacity(node: ClusterNode) -> float:
    return node.allocatable.get("pods", 0.0)
