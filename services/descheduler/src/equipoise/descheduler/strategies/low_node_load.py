"""Takes pods from nodes that are hot in CPU or memory and sees cooler ones that can hold them.

After Koordinator's LowNodeLoad, with these differences: the load that counts is corrected for pods that came and went
and for moves under way; every move has a named target that it keeps below its mark, so no common budget is needed;
what a planned move changes is seen by the next; a pod without measurement never moves.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from equipoise.contracts.messages import NodeVerdict, RefusedMove
from equipoise.contracts.settings import Percent, Section
from equipoise.descheduler.classification import verdict
from equipoise.descheduler.fleet import Fleet, FleetNode, MovablePod, Move, Plan, Resource, shares
from equipoise.descheduler.marks import Deviation, KnownLoad, Levels, deviating, fixed
from equipoise.descheduler.pod_order import in_order
from equipoise.descheduler.projection import Projection
from equipoise.descheduler.targets import best_target, targets_of

REFUSED_LIMIT = 50
"""Refused moves that a plan tells of."""


class Weights(Section, frozen=True, kw_only=True):
    """How much each resource counts where several are compared."""

    cpu: Annotated[float, Meta(ge=0)] = 1.0
    memory: Annotated[float, Meta(ge=0)] = 1.0


class LowNodeLoad(Section, frozen=True, kw_only=True, tag_field="name", tag="low_node_load"):
    """Its fields are its settings."""

    windows: tuple[str, ...] = ()
    """A node is hot (idle) when it is so over each of these; the first also predicts. Default: the shortest."""

    deviation: Deviation | None = None
    """Given: marks are distances from the fleet's mean instead of the shared thresholds."""

    margin: Percent = 2.0
    """Points below its mark at which a hot node is left alone, so that it is not hot again at once."""

    target_mark: Percent = 50.0
    """A node that is not idle may be filled so far on the way from the low mark (0: not at all) to the high one (100).

    Between the marks a node is as it should be: it helps out, but is not brought to the edge.
    """

    least_relief: Percent = 0.5
    """Points of its node's load that a move must at least take away to be worth it."""

    weights: Weights = Weights()

    def verdicts(self, fleet: Fleet) -> list[NodeVerdict]:
        """Every node as hot, idle, between or unknown, with its load over the first window."""
        windows, levels = self.windows_of(fleet), self.levels(fleet)
        return [verdict(node, windows, levels) for node in fleet.nodes]

    def plan(self, fleet: Fleet, abnormal: Collection[str]) -> Plan:
        """Moves away from the hot nodes among `abnormal`, hottest first, until each is below its mark."""
        hot = {entry.node: entry for entry in self.verdicts(fleet) if entry.state == "hot" and entry.node in abnormal}
        if not hot:
            return Plan(why="no node has been over its mark for long enough")
        planning = _Planning(self, fleet)
        sources = [node for node in fleet.nodes if node.name in hot]
        for node in sorted(sources, key=lambda node: (-planning.weighted_load(node), node.name)):
            planning.relieve(node, hot[node.name].why)
        return planning.result()

    def windows_of(self, fleet: Fleet) -> Sequence[str]:
        """The windows that decide."""
        return self.windows or (fleet.windows[0],)

    def levels(self, fleet: Fleet) -> Levels:
        """The marks as they apply to this fleet."""
        margin = self.margin / 100
        if self.deviation is None:
            return fixed(fleet.thresholds, margin)
        return deviating(_known_loads(fleet, self.windows_of(fleet)[0]), self.deviation, fleet.thresholds, margin)


def _known_loads(fleet: Fleet, window: str) -> dict[Resource, list[KnownLoad]]:
    known: dict[Resource, list[KnownLoad]] = {"cpu": [], "memory": []}
    for node in fleet.nodes:
        if node.unknown or window not in node.usage:
            continue
        for resource, load in shares(node.usage[window], node.base).items():
            known[resource].append(
                KnownLoad(
                    load=load,
                    base=getattr(node.base, resource),
                    source=not node.source_refusal,
                    target=not node.target_refusal,
                )
            )
    return known


class _Planning:
    """One plan in the making: what is proposed, what is refused, and how the fleet will look."""

    def __init__(self, strategy: LowNodeLoad, fleet: Fleet) -> None:
        self._fleet = fleet
        self._levels = strategy.levels(fleet)
        self._margin = strategy.margin / 100
        self._least_relief = strategy.least_relief / 100
        self._weights: Mapping[Resource, float] = {"cpu": strategy.weights.cpu, "memory": strategy.weights.memory}
        self._windows = strategy.windows_of(fleet)
        self._projection = Projection(fleet, self._windows[0])
        self._targets = targets_of(fleet.nodes, self._projection, self._levels, target_mark=strategy.target_mark / 100)
        self._busy = dict(fleet.busy_workloads)
        self._moves: list[Move] = []
        self._refused: list[RefusedMove] = []
        """Moves that were wanted and found no way."""

        self._staying: list[RefusedMove] = []
        """Pods that may not leave in the first place."""

    def weighted_load(self, node: FleetNode) -> float:
        """Weighted mean of the expected load, the order of sources; unknown resources are left out."""
        load = self._projection.load(node)
        total = sum(self._weights[resource] for resource in load)
        return sum(value * self._weights[resource] for resource, value in load.items()) / total if total else 0.0

    def relieve(self, node: FleetNode, reason: str) -> None:
        """Plan moves off one hot node until it is below its marks or nothing more may leave."""
        if node.source_refusal:
            self._refuse(node, node.source_refusal)
            return
        present = shares(node.usage[self._windows[0]], node.base)
        hot = [resource for resource, mark in self._levels.hot.items() if present.get(resource, 0.0) > mark]
        waiting = [pod for pod in node.pods if self._may_leave(pod, node, hot)]
        for _ in range(self._fleet.limits.per_node - node.leaving):
            if not self._still_hot(node, hot):
                return
            if self._fleet.in_flight + len(self._moves) >= self._fleet.limits.per_evaluation:
                self._refuse(node, "as many moves as allowed are proposed or under way")
                return
            pod = self._move_one(node, hot, waiting, reason)
            if pod is None:
                return
            waiting.remove(pod)

    def result(self) -> Plan:
        refused = self._refused + self._staying
        why = "" if self._moves else next((entry.why for entry in refused), "moves under way are enough")
        return Plan(moves=self._moves, refused=refused[:REFUSED_LIMIT], why=why)

    def _still_hot(self, node: FleetNode, hot: Sequence[Resource]) -> bool:
        load = self._projection.load(node)
        return any(load[resource] > self._levels.hot[resource] - self._margin for resource in hot)

    def _may_leave(self, pod: MovablePod, node: FleetNode, hot: Sequence[Resource]) -> bool:
        why = pod.protection
        relief = shares(pod.usage, node.base)
        if not why and not self._levels.ceiling.keys() <= relief.keys():
            why = "its usage is not known"
        if not why and all(relief[resource] < self._least_relief for resource in hot):
            why = "it uses too little to be worth a move"
        if why:
            self._staying.append(RefusedMove(pod=f"{pod.namespace}/{pod.name}", node=node.name, why=why))
        return not why

    def _move_one(
        self, node: FleetNode, hot: Sequence[Resource], waiting: Sequence[MovablePod], reason: str
    ) -> MovablePod | None:
        """Plan the best move there is; None when there is none."""
        load = self._projection.load(node)
        excess = {resource: load[resource] - self._levels.aim[resource] for resource in hot}
        for pod in in_order(waiting, base=node.base, excess=excess, weights=self._weights):
            if pod.workload is not None and self._busy.get(pod.workload, 0) >= self._fleet.limits.per_workload:
                self._refuse(node, "another pod of its workload is on the move", pod)
                continue
            found = best_target(pod, node, self._targets, self._projection, hot=hot, weights=self._weights)
            if found.target is not None:
                self._take(pod, node, found.target, reason)
                return pod
            self._refuse(node, found.why, pod)
        return None

    def _take(self, pod: MovablePod, source: FleetNode, target: FleetNode, reason: str) -> None:
        self._projection.move(pod, target.name)
        if pod.workload is not None:
            self._busy[pod.workload] = self._busy.get(pod.workload, 0) + 1
        sampled_at = min(node.oldest_sample(self._windows) for node in (source, target))
        self._moves.append(Move(pod=pod, target=target.name, reason=reason, sampled_at=sampled_at))

    def _refuse(self, node: FleetNode, why: str, pod: MovablePod | None = None) -> None:
        name = f"{pod.namespace}/{pod.name}" if pod is not None else ""
        refused = RefusedMove(pod=name, node=node.name, why=why)
        if refused not in self._refused:
            self._refused.append(refused)
