"""Plans moves away from the hot nodes of a pool: which node first, which pods, to which targets, and until when."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from equipoise.contracts.load.correction import known
from equipoise.descheduler.decisions.planning.classification import SCOPES, PoolClassification, Scope
from equipoise.descheduler.decisions.planning.draft import PlanDraft
from equipoise.descheduler.decisions.planning.node_arrays import Array, amount_of
from equipoise.descheduler.decisions.planning.pod_order import in_order, load_of_pod
from equipoise.descheduler.decisions.planning.target_selection import (
    TOLERANCE,
    TargetChoice,
    least_loaded_target,
    target_nodes,
)
from equipoise.descheduler.decisions.planning.thresholds import AppliedThresholds
from equipoise.descheduler.state.cluster import ClusterNode, MovablePod, Resource

NodeOrder = Literal["weighted", "memoryThenCpu"]


class HotNodeSettings(Protocol):
    """The settings of `LowNodeLoad` that concern hot nodes."""

    @property
    def margin(self) -> float: ...

    @property
    def target_threshold(self) -> float: ...

    @property
    def min_load_reduction(self) -> float: ...

    @property
    def node_order(self) -> NodeOrder: ...

    def may_move(self, pod: MovablePod) -> str: ...


class HotNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node from which pods should be moved."""

    node: ClusterNode
    scope: Scope
    hot: Sequence[Resource]
    """The resources in which it is above its threshold."""

    overloaded: bool
    """Above a threshold that was not lowered. Otherwise it is hot because idle nodes are to be filled."""

    reason: str


class HotNodePlanner:
    """Adds the moves of one pool to a draft."""

    def __init__(self, pool: PoolClassification, draft: PlanDraft, settings: HotNodeSettings) -> None:
        self._pool = pool
        self._draft = draft
        self._settings = settings
        self._weights: Mapping[Resource, float] = pool.weights()
        self._targets = target_nodes(
            pool.members.nodes, draft.projection, pool.applied, pool.production,
            target_threshold=settings.target_threshold / 100, leveling=pool.members.deviation is not None,
        )  # fmt: skip

        self._too_large: dict[bool, list[tuple[Array, str]]] = {False: [], True: []}
        """By whether the pod is production: the smallest amounts without a target since the last move, and why."""

    def plan(self, abnormal: Collection[str]) -> None:
        """Moves away from the hot nodes among `abnormal`, hottest first; nodes hot by their production come last."""
        sources = [self._source(place, node, scope) for scope in SCOPES for place, node in self._hot(scope, abnormal)]
        if not sources:
            return
        idle, needed = int(self._targets.idle.sum()), self._pool.members.number_of_nodes
        if idle <= needed:
            where = f" in pool {self._pool.members.pool}" if self._pool.members.pool else ""
            self._draft.refuse(None, f"{idle} idle nodes{where}, more than {needed} are needed (numberOfNodes)")
            return
        for source in sources:
            if source.node.source_refusal:
                self._draft.refuse(source.node, source.node.source_refusal)
            else:
                self._relieve(source)

    def _hot(self, scope: Scope, abnormal: Collection[str]) -> list[tuple[int, ClusterNode]]:
        return sorted(self._pool.sources(scope, abnormal), key=lambda entry: self._order(entry[1], scope))

    def _source(self, place: int, node: ClusterNode, scope: Scope) -> HotNode:
        hot = self._pool.hot(scope, place)
        return HotNode(
            node=node,
            scope=scope,
            hot=hot,
            overloaded=self._is_overloaded(node, scope, hot, margin=0.0),
            reason=self._pool.reason(scope, place),
        )

    def _is_overloaded(self, node: ClusterNode, scope: Scope, hot: Sequence[Resource], *, margin: float) -> bool:
        """Whether it is above a threshold, minus the margin (0..1), as it was before any was lowered."""
        load, applied = self._load(node, scope), self._applied(scope)
        return any(
            applied.hot[name] >= applied.ceiling[name]
            or load.get(name, 0.0) > applied.ceiling[name] - margin + TOLERANCE
            for name in hot
        )

    def _order(self, node: ClusterNode, scope: Scope) -> tuple[float, float, str]:
        """The hottest first."""
        load = self._load(node, scope)
        if self._settings.node_order == "memoryThenCpu":
            return -load.get("memory", 0.0), -load.get("cpu", 0.0), node.name
        total = sum(self._weights[resource] for resource in load)
        weighted = sum(min(value, 1.0) * self._weights[resource] for resource, value in load.items())
        return -(weighted / total if total else 0.0), 0.0, node.name

    def _load(self, node: ClusterNode, scope: Scope) -> dict[Resource, float]:
        """Projected load of the resources that are known."""
        projection = self._draft.projection
        return projection.load(node) if scope == "node" else projection.production_load(node)

    def _applied(self, scope: Scope) -> AppliedThresholds:
        applied = self._pool.applied if scope == "node" else self._pool.production
        assert applied is not None
        return applied

    def _relieve(self, source: HotNode) -> None:
        """Plan moves until the node is below its thresholds or nothing more may leave."""
        waiting: list[MovablePod] | None = None
        while self._still_hot(source) and self._draft.room_from(source.node) > 0:
            if self._draft.room <= 0:
                self._draft.refuse(source.node, "the limit of pending moves is reached")
                return
            if waiting is None:
                waiting = [pod for pod in source.node.pods if self._may_leave(pod, source)]
            pod = self._move_one(source, waiting)
            if pod is None:
                return
            waiting.remove(pod)

    def _still_hot(self, source: HotNode) -> list[Resource]:
        """The hot resources that are not yet the margin below their thresholds."""
        load, applied = self._load(source.node, source.scope), self._applied(source.scope)
        margin = self._settings.margin / 100
        # A load equal to its threshold is not above it, and sums of shares are not exact.
        return [name for name in source.hot if load.get(name, 0.0) > applied.hot[name] - margin + TOLERANCE]

    def _may_leave(self, pod: MovablePod, source: HotNode) -> bool:
        if source.scope == "prod" and not pod.production:
            return False
        why = pod.protection or self._settings.may_move(pod)
        load = load_of_pod(pod, source.node.base, _capacity(source.node))
        measured = known(pod.usage.cpu) is not None or known(pod.usage.memory) is not None
        if not why and not (measured and self._pool.applied.ceiling.keys() <= load.keys()):
            why = "its usage is not known"
        least = self._settings.min_load_reduction / 100
        # Each pod reduces the number of pods by one, however many the node allows.
        if not why and all(load.get(name, 0.0) < least for name in source.hot) and "pods" not in source.hot:
            why = "its usage is below minLoadReduction"
        if why:
            self._draft.protect(pod, why)
        return not why

    def _move_one(self, source: HotNode, waiting: Sequence[MovablePod]) -> MovablePod | None:
        """Plan the best move; None when there is none."""
        node, draft = source.node, self._draft
        load, aim = self._load(node, source.scope), self._applied(source.scope).aim
        hot = self._still_hot(source)
        excess = {resource: load[resource] - aim[resource] for resource in hot}
        capacity = _capacity(node)
        for pod in in_order(waiting, base=node.base, excess=excess, weights=self._weights, capacity=capacity):
            if draft.busy(pod):
                draft.refuse(node, "another pod of its workload has a pending move", pod)
                continue
            choice = self._target_for(pod, source, hot)
            if choice.target is not None:
                draft.add(pod, node, choice.target, source.reason)
                self._too_large = {False: [], True: []}
                return pod
            draft.refuse(node, choice.why, pod)
        return None

    def _target_for(self, pod: MovablePod, source: HotNode, hot: Sequence[Resource]) -> TargetChoice:
        """Where hundreds of hot nodes have no targets, most pods are larger than one that was refused before."""
        amount = amount_of(pod)
        for smallest, why in self._too_large[pod.production]:
            if (smallest <= amount).all():
                return TargetChoice(why=why)
        margin = self._settings.margin / 100
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
            smaller = [entry for entry in self._too_large[pod.production] if not (amount <= entry[0]).all()]
            self._too_large[pod.production] = [*smaller, (amount, choice.why)]
        return choice


def _capacity(node: ClusterNode) -> float:
    return node.fit.allocatable.get("pods", 0.0)
