"""One attempt to empty nodes, one after the other: each counts with those before it."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from equipoise.contracts.numeric import Array, Flags, Indexes, np
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.consolidation.plan import EmptiedNode, NodeObstacle
from equipoise.descheduler.decisions.planning.node_arrays import REQUEST_TOLERANCE
from equipoise.descheduler.state.consolidation.expected_days import ExpectedDays

if TYPE_CHECKING:  # it needs numpy (docs/decisions/0021)
    from equipoise.descheduler.state.node_fit import NodeFit

_NEAREST = 256
"""The number of nodes that are compared exactly for a pod: those that are the farthest below their thresholds. The
others are compared only if none of these has room."""


class NodeToEmpty(msgspec.Struct, frozen=True, kw_only=True):
    """A node all of whose pods may be moved."""

    node: ClusterNode
    index: int
    pods: Sequence[MovablePod]
    """The pods to move, the largest first."""

    amounts: Sequence[tuple[Array, Array]]
    """The amounts of each pod, see `ExpectedDays.of_pod`."""

    price: float | None = None
    groups: Sequence[int] = ()
    """The groups with a minimum size to which it belongs."""


class EmptyingTrial:
    """The working copy. No decision depends on a margin below the thresholds: with more of it, fewer of the same nodes
    are emptied, and never others."""

    def __init__(self, cluster: ClusterView, days: ExpectedDays, targets: Flags, spare: Sequence[int]) -> None:
        """Begins with the present cluster.

        `targets`: the nodes to which pods may be moved. `spare`: the number of nodes that each group can do without.
        """
        self._nodes = cluster.nodes
        self._days = days
        self._targets = targets.copy()
        self._spare = list(spare)
        self._fit: NodeFit = cluster.fit(cluster.nodes)
        self._room: Array = self._fit.room + REQUEST_TOLERANCE
        self.expected = days.expected.copy()
        """Nodes × columns: the loads with the pods that were moved, see `ExpectedDays.expected`."""

        self.forecast = days.forecast.copy()
        self._excess = np.where(targets, days.excess(np.nan_to_num(self.expected, nan=np.inf)), np.inf)

    def empty(self, candidate: NodeToEmpty) -> EmptiedNode | NodeObstacle:
        """Moves all pods of a node, or none."""
        short = next((group for group in candidate.groups if self._spare[group] <= 0), None)
        if short is not None:
            return NodeObstacle(why="its group has its minimum number of nodes")
        moves: list[tuple[MovablePod, ClusterNode]] = []
        saved: list[tuple[int, Array, Array, Array, float]] = []
        highest = -np.inf
        for pod, (day, with_error) in zip(candidate.pods, candidate.amounts, strict=True):
            target = self._target(pod, with_error)
            if isinstance(target, NodeObstacle):
                self._undo(moves, saved, candidate.index)
                if not candidate.node.target_refusal:
                    self._targets[candidate.index] = True
                    self._set_excess(candidate.index)
                return target
            saved.append(
                (
                    target,
                    self.expected[target].copy(),
                    self.forecast[target].copy(),
                    self._room[target].copy(),
                    self._excess[target],
                )
            )
            self.expected[target] += self._days.loads(with_error, target)
            self.forecast[target] += self._days.loads(day, target)
            self._room[target] -= requests_of(pod)
            self._set_excess(target)
            self._fit.move(pod, target)
            moves.append((pod, self._nodes[target]))
            highest = max(highest, self._excess[target])
        for group in candidate.groups:
            self._spare[group] -= 1
        return EmptiedNode(node=candidate.node, moves=tuple(moves), excess=float(highest), price=candidate.price)

    def _undo(
        self,
        moves: Collection[tuple[MovablePod, ClusterNode]],
        saved: Sequence[tuple[int, Array, Array, Array, float]],
        source: int,
    ) -> None:
        for (pod, _), (target, expected, forecast, room, excess) in reversed([*zip(moves, saved, strict=True)]):
            self.expected[target], self.forecast[target] = expected, forecast
            self._room[target], self._excess[target] = room, excess
            self._fit.move(pod, source)

    def _set_excess(self, node: int) -> None:
        self._excess[node] = self._days.excess(self.expected[node])

    def _target(self, pod: MovablePod, amounts: Array) -> int | NodeObstacle:
        """The node that is the farthest below its thresholds with the pod, of those on which it fits."""
        name = f"{pod.namespace}/{pod.name}"
        requests = requests_of(pod)
        rows = np.flatnonzero(self._targets & ((self._room >= requests) | (requests == 0)).all(axis=1))
        if not len(rows):
            return NodeObstacle(why=f"no other node has room for the requests of {name}", bound="requests")
        below = False
        for group in self._by_excess(rows):
            excess = self._days.excess(self.expected[group] + self._days.loads(amounts, group))
            allowed = excess <= 0.0
            below = below or bool(allowed.any())
            ordered = group[allowed][np.argsort(excess[allowed], kind="stable")]
            found = self._first_that_fits(pod, ordered)
            if found is not None:
                return found
        if not below:
            why = "would bring any node with room for it above a threshold in some hour, errors of profiles included"
            return NodeObstacle(why=f"{name} {why}", bound="load")
        return NodeObstacle(why=f"no node with room for {name} is allowed by its constraints", bound="constraints")

    def _by_excess(self, rows: Indexes) -> list[Indexes]:
        """The nodes that are the farthest below their thresholds, and the others."""
        if len(rows) <= _NEAREST:
            return [rows]
        order = np.argpartition(self._excess[rows], _NEAREST)
        return [np.sort(rows[order[:_NEAREST]]), np.sort(rows[order[_NEAREST:]])]

    def _first_that_fits(self, pod: MovablePod, ordered: Indexes) -> int | None:
        if not len(ordered):
            return None
        if not self._fit.refuses(pod, int(ordered[0])):
            return int(ordered[0])
        allowed = ordered[~self._fit.constraint_refusals(pod)[ordered]]
        return next((int(node) for node in allowed if not self._fit.refuses(pod, int(node))), None)


def requests_of(pod: MovablePod) -> Array:
    """Cores, bytes and pods."""
    return np.array([pod.info.request("cpu") / 1_000, pod.info.request("memory"), 1.0])
