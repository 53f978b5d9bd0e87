"""One plan in the making: what is proposed, what is refused, and how the fleet will look."""

from collections.abc import Sequence

import msgspec

from equipoise.contracts.messages.descheduling import RefusedMove
from equipoise.descheduler.decisions.planning.projection import Projection
from equipoise.descheduler.state.cluster import Fleet, FleetNode, MovablePod, Move, Plan

REFUSED_LIMIT = 50
"""Refused moves that a plan tells of."""


class Draft:
    """Moves are added to it one by one; each sees what those before it change."""

    def __init__(self, fleet: Fleet, windows: Sequence[str], *, production: bool = False) -> None:
        """`windows`: those that decide, the first predicts. `production`: follow what production pods use, too."""
        self.fleet = fleet
        self.projection = Projection(fleet, windows[0], production=production)
        self._windows = windows
        self._busy = dict(fleet.busy_workloads)
        self._moves: list[Move] = []
        self._later: list[Move] = []
        self._refused: dict[RefusedMove, None] = {}
        """Moves that were wanted and found no way, in their order, as many as are told."""

        self._staying: list[RefusedMove] = []
        """Pods that may not leave in the first place."""

    @property
    def room(self) -> int:
        """How many more moves may be proposed."""
        return self.fleet.limits.per_evaluation - self.fleet.in_flight - len(self._moves) - len(self._later)

    def room_from(self, node: FleetNode) -> int:
        """How many more pods may leave a node, by its own limit."""
        leaving = sum(move.pod.node == node.name for move in (*self._moves, *self._later)) + node.leaving
        return self.fleet.limits.per_node - leaving

    def busy(self, pod: MovablePod) -> bool:
        """Are as many pods of its workload on the move as may be?"""
        return pod.workload is not None and self._busy.get(pod.workload, 0) >= self.fleet.limits.per_workload

    def take(
        self,
        pod: MovablePod,
        source: FleetNode,
        target: FleetNode,
        reason: str,
        *,
        projected: bool = False,
        makes_room_for: str = "",
    ) -> None:
        """One more move; `projected`: the projection has it already."""
        move = self._move(pod, source, target, reason, projected=projected)
        self._moves.append(msgspec.structs.replace(move, makes_room_for=makes_room_for))

    def follow(self, pod: MovablePod, source: FleetNode, target: FleetNode, reason: str) -> None:
        """One more move, for which one that was taken makes room."""
        self._later.append(self._move(pod, source, target, reason))

    def _move(
        self, pod: MovablePod, source: FleetNode, target: FleetNode, reason: str, *, projected: bool = False
    ) -> Move:
        if not projected:
            self.projection.move(pod, target.name)
        if pod.workload is not None:
            self._busy[pod.workload] = self._busy.get(pod.workload, 0) + 1
        sampled_at = min(node.oldest_sample(self._windows) for node in (source, target))
        return Move(pod=pod, target=target.name, reason=reason, sampled_at=sampled_at)

    def refuse(self, node: FleetNode | None, why: str, pod: MovablePod | None = None) -> None:
        """A move that was wanted; None: from no node in particular."""
        if len(self._refused) < REFUSED_LIMIT:
            self._refused[RefusedMove(pod=name_of_pod(pod), node=node.name if node is not None else "", why=why)] = None

    def stays(self, pod: MovablePod, why: str) -> None:
        """A pod that may not leave."""
        if len(self._staying) < REFUSED_LIMIT:
            self._staying.append(RefusedMove(pod=name_of_pod(pod), node=pod.node, why=why))

    def plan(self, otherwise: str) -> Plan:
        """What has come together; `otherwise` tells why nothing was proposed where no refusal does."""
        refused = [*self._refused, *self._staying]
        why = "" if self._moves else next((entry.why for entry in refused), otherwise)
        return Plan(moves=self._moves, later=self._later, refused=refused[:REFUSED_LIMIT], why=why)


def name_of_pod(pod: MovablePod | None) -> str:
    return f"{pod.namespace}/{pod.name}" if pod is not None else ""
