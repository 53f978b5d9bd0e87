"""A plan while it is made: the moves, the refusals, and how the cluster will be afterwards."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from equipoise.contracts.messages.descheduling import RefusedMove
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan, PodMove
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.state.projection import Projection

MOVES_OF_ALL = "no more pods may be moved at a time (maxIntentsPerEvaluation)"
MOVES_OF_NODE = "no more of its pods may be moved at a time (maxIntentsPerNode)"

MAX_REFUSED = 50
"""Refused moves in a plan."""


class PlanDraft:
    """Moves are added one by one; each is planned with those before it."""

    def __init__(self, cluster: ClusterView, windows: Sequence[str], *, production: bool = False) -> None:
        """`windows`: those of the strategy, the first predicts. `production`: also project production usage."""
        self.cluster = cluster
        self.projection = Projection(cluster, windows[0], production=production)
        self._windows = windows
        self._busy = dict(cluster.busy_workloads)
        self._moves: list[PodMove] = []
        self._later: list[PodMove] = []
        self._refused: dict[RefusedMove, None] = {}
        """The refused moves in their order, each once."""

        self._protected: list[RefusedMove] = []
        self._protections: Counter[str] = Counter()
        """How many pods each reason protects, without pods that leave only with their node."""

        self._postponements: Counter[str] = Counter()
        """How many pods each reason protects for now: they may be moved later."""

    @property
    def room(self) -> int:
        """How many more moves may be proposed."""
        return self.cluster.limits.per_evaluation - self.cluster.in_flight - len(self._moves) - len(self._later)

    def room_from(self, node: ClusterNode) -> int:
        """How many more pods may leave a node, by its own limit."""
        return self.cluster.limits.per_node - self.moves_from(node) - node.leaving

    def moves_from(self, node: ClusterNode) -> int:
        """How many moves of this plan have this source."""
        return sum(move.pod.node == node.name for move in (*self._moves, *self._later))

    def busy(self, pod: MovablePod, beside: Sequence[MovablePod] = ()) -> bool:
        """Whether as many pods of its workload are moving as the limit allows. `beside`: pods that would move, too."""
        if pod.workload is None:
            return False
        moving = self._busy.get(pod.workload, 0) + sum(other.workload == pod.workload for other in beside)
        return moving >= self.cluster.limits.per_workload

    def add(
        self,
        pod: MovablePod,
        source: ClusterNode,
        target: ClusterNode,
        reason: str,
        *,
        projected: bool = False,
        makes_room_for: str = "",
        later: bool = False,
        trigger: str = "",
    ) -> None:
        """`projected`: the projection contains the move already. `later`: another move makes room for it first.
        `makes_room_for`, `trigger`: see `PodMove`."""
        if not projected:
            self.projection.move(pod, target.name)
        if pod.workload is not None:
            self._busy[pod.workload] = self._busy.get(pod.workload, 0) + 1
        sampled_at = min(node.oldest_sample(self._windows) for node in (source, target))
        move = PodMove(
            pod=pod,
            target=target.name,
            reason=reason,
            sampled_at=sampled_at,
            makes_room_for=makes_room_for,
            trigger=trigger,
        )
        (self._later if later else self._moves).append(move)

    def refuse(self, node: ClusterNode | None, why: str, pod: MovablePod | None = None) -> None:
        """Records a move that was wanted and cannot be planned. `node`: its source, None for all nodes."""
        if len(self._refused) < MAX_REFUSED:
            self._refused[RefusedMove(pod=name_of_pod(pod), node=node.name if node is not None else "", why=why)] = None

    def protect(self, pod: MovablePod, why: str) -> None:
        """Records that a pod must not be moved."""
        if not pod.belongs_to_node:
            (self._postponements if pod.postponed else self._protections)[why] += 1
        if len(self._protected) < MAX_REFUSED:
            self._protected.append(RefusedMove(pod=name_of_pod(pod), node=pod.node, why=why))

    def plan(self, otherwise: str) -> MovePlan:
        """The plan; `otherwise`: why there is no move if no refusal explains it."""
        refused = one_reason_per_pod([*self._refused, *self._protected])
        return MovePlan(
            moves=self._moves,
            later=self._later,
            refused=refused[:MAX_REFUSED],
            why="" if self._moves else self._decisive_reason() or otherwise,
        )

    def _decisive_reason(self) -> str:
        """The reason of a whole node, else the most frequent one of the rejected moves, else of the pods that may be
        moved later, else of the protected pods."""
        of_nodes = [refused.why for refused in self._refused if not refused.pod]
        if of_nodes:
            return of_nodes[0]
        reasons = Counter(refused.why for refused in self._refused) or self._postponements or self._protections
        if reasons:
            return reasons.most_common(1)[0][0]
        return self._protected[0].why if self._protected else ""


def one_reason_per_pod(refused: Iterable[RefusedMove], moved: Collection[str] = ()) -> list[RefusedMove]:
    """The first reason of each pod, and each reason of a node once.

    `moved`: pods, as `namespace/name`, that are left out: they are moved.
    """
    found: dict[tuple[str, str], RefusedMove] = {}
    for each in refused:
        if each.pod not in moved:
            found.setdefault((each.pod, "" if each.pod else f"{each.node}: {each.why}"), each)
    return list(found.values())


def name_of_pod(pod: MovablePod | None) -> str:
    return f"{pod.namespace}/{pod.name}" if pod is not None else ""
