"""Cools the hot nodes of one pool: which node first, which pods, to where, and when it is enough."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from equipoise.contracts.load.correction import known
from equipoise.descheduler.decisions.planning.classification import Scope
from equipoise.descheduler.decisions.planning.draft import Draft
from equipoise.descheduler.decisions.planning.judgement import SCOPES, Judgement
from equipoise.descheduler.decisions.planning.node_arrays import Array, amount_of
from equipoise.descheduler.decisions.planning.pod_order import in_order, relief_of
from equipoise.descheduler.decisions.planning.target_selection import TOLERANCE, Found, best_target, targets_of
from equipoise.descheduler.decisions.planning.thresholds import Levels
from equipoise.descheduler.state.cluster import FleetNode, MovablePod, Resource

NodeOrder = Literal["weighted", "memoryThenCpu"]


class Terms(Protocol):
    """What a strategy asks of cooling; see `LowNodeLoad`."""

    @property
    def margin(self) -> float: ...

    @property
    def target_mark(self) -> float: ...

    @property
    def least_relief(self) -> float: ...

    @property
    def node_order(self) -> NodeOrder: ...

    def may_move(self, pod: MovablePod) -> str: ...


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A hot node."""

    node: FleetNode
    scope: Scope
    hot: Sequence[Resource]
    """The resources in which it is over its mark."""

    overloaded: bool
    """Over a mark that was not lowered; else it is hot because idle nodes are to be filled."""

    reason: str


class Cooling:
    """Adds the moves of one pool to a draft."""

    def __init__(self, pool: Judgement, draft: Draft, terms: Terms) -> None:
        self._pool = pool
        self._draft = draft
        self._terms = terms
        self._weights: Mapping[Resource, float] = pool.weights()
        self._targets = targets_of(
            pool.members.nodes, draft.projection, pool.levels, pool.production,
            target_mark=terms.target_mark / 100, levelling=pool.members.deviation is not None,
        )  # fmt: skip

        self._hopeless: dict[bool, list[tuple[Array, str]]] = {False: [], True: []}
        """By whether they are production: the least amounts that found no target since the last move, and why."""

    def cool(self, abnormal: Collection[str]) -> None:
        """Plan moves off the hot nodes among `abnormal`, hottest first; nodes hot by their production come last."""
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
                self._empty(source)

    def _hot(self, scope: Scope, abnormal: Collection[str]) -> list[tuple[int, FleetNode]]:
        return sorted(self._pool.sources(scope, abnormal), key=lambda entry: self._order(entry[1], scope))

    def _source(self, place: int, node: FleetNode, scope: Scope) -> Source:
        hot = self._pool.hot(scope, place)
        return Source(
            node=node,
            scope=scope,
            hot=hot,
            overloaded=self._is_overloaded(node, scope, hot, margin=0.0),
            reason=self._pool.texts.of(scope, place),
        )

    def _is_overloaded(self, node: FleetNode, scope: Scope, hot: Sequence[Resource], *, margin: float) -> bool:
        """Is it, less the margin (0..1), over a mark as it stood before any was lowered?"""
        load, levels = self._load(node, scope), self._levels(scope)
        return any(
            levels.hot[name] >= levels.ceiling[name] or load.get(name, 0.0) > levels.ceiling[name] - margin + TOLERANCE
            for name in hot
        )

    def _order(self, node: FleetNode, scope: Scope) -> tuple[float, float, str]:
        """The hottest first."""
        load = self._load(node, scope)
        if self._terms.node_order == "memoryThenCpu":
            return -load.get("memory", 0.0), -load.get("cpu", 0.0), node.name
        total = sum(self._weights[resource] for resource in load)
        weighted = sum(min(value, 1.0) * self._weights[resource] for resource, value in load.items())
        return -(weighted / total if total else 0.0), 0.0, node.name

    def _load(self, node: FleetNode, scope: Scope) -> dict[Resource, float]:
        """Expected load of the resources that are known."""
        projection = self._draft.projection
        return projection.load(node) if scope == "node" else projection.production_load(node)

    def _levels(self, scope: Scope) -> Levels:
        levels = self._pool.levels if scope == "node" else self._pool.production
        assert levels is not None
        return levels

    def _empty(self, source: Source) -> None:
        """Plan moves off one node until it is below its marks or nothing more may leave."""
        waiting: list[MovablePod] | None = None
        while self._still_hot(source) and self._draft.room_from(source.node) > 0:
            if self._draft.room <= 0:
                self._draft.refuse(source.node, "as many moves as allowed are proposed or under way")
                return
            if waiting is None:
                waiting = [pod for pod in source.node.pods if self._may_leave(pod, source)]
            pod = self._move_one(source, waiting)
            if pod is None:
                return
            waiting.remove(pod)

    def _still_hot(self, source: Source) -> list[Resource]:
        """The resources of those it was hot in that are not the margin below their marks yet."""
        load, levels = self._load(source.node, source.scope), self._levels(source.scope)
        margin = self._terms.margin / 100
        # What is exactly at its mark is not over it, and sums of shares are not exact.
        return [name for name in source.hot if load.get(name, 0.0) > levels.hot[name] - margin + TOLERANCE]

    def _may_leave(self, pod: MovablePod, source: Source) -> bool:
        if source.scope == "prod" and not pod.production:
            return False
        why = pod.protection or self._terms.may_move(pod)
        relief = _relief(pod, source.node)
        measured = known(pod.usage.cpu) is not None or known(pod.usage.memory) is not None
        if not why and not (measured and self._pool.levels.ceiling.keys() <= relief.keys()):
            why = "its usage is not known"
        least = self._terms.least_relief / 100
        # One pod less is one pod less, however many the node allows.
        if not why and all(relief.get(name, 0.0) < least for name in source.hot) and "pods" not in source.hot:
            why = "it uses too little to be worth a move"
        if why:
            self._draft.stays(pod, why)
        return not why

    def _move_one(self, source: Source, waiting: Sequence[MovablePod]) -> MovablePod | None:
        """Plan the best move there is; None when there is none."""
        node, draft = source.node, self._draft
        load, aim = self._load(node, source.scope), self._levels(source.scope).aim
        hot = self._still_hot(source)
        excess = {resource: load[resource] - aim[resource] for resource in hot}
        capacity = _capacity(node)
        for pod in in_order(waiting, base=node.base, excess=excess, weights=self._weights, capacity=capacity):
            if draft.busy(pod):
                draft.refuse(node, "another pod of its workload is on the move", pod)
                continue
            found = self._target_for(pod, source, hot)
            if found.target is not None:
                draft.take(pod, node, found.target, source.reason)
                self._hopeless = {False: [], True: []}
                return pod
            draft.refuse(node, found.why, pod)
        return None

    def _target_for(self, pod: MovablePod, source: Source, hot: Sequence[Resource]) -> Found:
        """Where hundreds of hot nodes have nowhere to send anything, most pods are bigger than one that was refused."""
        amount = amount_of(pod)
        for least, why in self._hopeless[pod.production]:
            if (least <= amount).all():
                return Found(why=why)
        margin = self._terms.margin / 100
        until = margin if source.overloaded else 0.0
        overloaded = self._is_overloaded(source.node, source.scope, source.hot, margin=until)
        found = best_target(
            pod,
            source.node,
            self._targets,
            self._draft.projection,
            hot=hot,
            weights=self._weights,
            production=source.scope == "prod",
            least=None if overloaded else margin,
        )
        if found.too_big:
            smaller = [entry for entry in self._hopeless[pod.production] if not (amount <= entry[0]).all()]
            self._hopeless[pod.production] = [*smaller, (amount, found.why)]
        return found


def _capacity(node: FleetNode) -> float:
    return node.fit.allocatable.get("pods", 0.0)


def _relief(pod: MovablePod, node: FleetNode) -> dict[Resource, float]:
    return relief_of(pod, node.base, _capacity(node))
