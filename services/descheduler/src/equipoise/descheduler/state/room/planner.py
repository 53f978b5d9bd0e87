"""Plans the moves that make room for waiting pods."""

from collections.abc import Sequence

from msgspec.structs import replace

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.load.correction import known
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.planning.target_selection import least_loaded_target, target_nodes
from equipoise.descheduler.decisions.planning.thresholds import filling
from equipoise.descheduler.decisions.room.disruption import disruption
from equipoise.descheduler.decisions.room.missing import (
    WholeAmounts,
    amounts_text,
    missing_amounts,
    staying_pods,
    unknown_room,
)
from equipoise.descheduler.decisions.room.pods_without_room import RESIZED, PodWithoutRoom, pending_resizes
from equipoise.descheduler.state.draft import MOVES_OF_ALL, MOVES_OF_NODE, PlanDraft
from equipoise.descheduler.state.room.search import FoundSet, RoomSearch

MAX_NODES_TRIED = 10
"""The number of nodes on which room for an unschedulable pod is searched, those that miss the least first."""


class RoomPlanner:
    """Plans moves for one waiting pod after the other."""

    def __init__(self, cluster: ClusterView, windows: Sequence[str], *, max_pods: int, min_wait: Duration) -> None:
        """`max_pods`, `min_wait`: the settings of `make_room`."""
        applied, production = filling(cluster.thresholds)
        self.draft = PlanDraft(cluster, windows, production=production is not None)
        self._max_pods = max_pods
        self._min_wait = min_wait
        self._cluster = cluster
        self._targets = target_nodes(cluster.nodes, self.draft.projection, applied, production, target_threshold=1.0)
        self._moved: set[str] = set()
        """UIDs of the pods that the plan moves."""

        self._with_room: set[str] = set()
        """Triggers of the waiting pods that have room with the plan."""

    def make_room_for_resize(self, pod: PodWithoutRoom, node: ClusterNode, *, others: Sequence[PodWithoutRoom]) -> None:
        """`others`: all pods of the node with a pending resize."""
        why = self._refusal(pod) or node.unknown or node.source_refusal or unknown_room(node)
        if not why:
            why = self._move_itself(pod, node) if pod.waits_for == "Infeasible" else self._free(pod, node, others)
        if why:
            self._refuse(pod, node, why)

    def make_room_for_pod(self, pod: PodWithoutRoom, *, examined: bool) -> None:
        """Makes room for a pod without a node on the node where this disrupts the least."""
        why = self._refusal(pod) or ("" if examined else "not examined: too many pods wait for a node")
        if not why:
            why = self._free_any_node(pod)
        if why:
            self._refuse(pod, None, why)

    def _refusal(self, pod: PodWithoutRoom) -> str:
        triggers, waited = self._cluster.triggers, None if pod.since is None else self._cluster.now - pod.since
        if pod.obstacle:
            return pod.obstacle
        if why := triggers.get(pod.trigger) or triggers.get(pod.info.uid):
            return why
        if waited is None:
            return "it is not known how long it has waited for room"
        if waited < self._min_wait:
            return f"it has waited for room for less than {self._min_wait} (minWait)"
        return ""

    def _free(self, pod: PodWithoutRoom, node: ClusterNode, others: Sequence[PodWithoutRoom]) -> str:
        """Moves other pods away from the node. Returns why that is not possible.

        The kubelet tries each deferred resize by itself, so room for one of them helps. The others count with what they
        have, except those that have room already. Their pods do not leave: a move would restart them instead.
        """
        deferred = [other for other in others if other.waits_for == "Deferred" and other is not pod]
        missing = missing_amounts(
            RESIZED,
            node,
            staying_pods(node, self._moved),
            added={},
            without=[other.growth for other in deferred if other.trigger not in self._with_room],
        )
        if not missing:
            self._with_room.add(pod.trigger)
            return "its node has room for its resize, or will have it once pods that are leaving have ended"
        search = RoomSearch(self.draft, self._targets, node, most=self._max_pods)
        staying = {other.info.uid for other in others} | self._moved
        found = search.smallest(missing, staying=staying, priority=pod.info.priority)
        if not found.moves:
            return f"{amounts_text(missing)} missing for its resize: {found.why}"
        self._with_room.add(pod.trigger)
        return self._add(pod, node, found, f"makes room for the resize of {pod.name}: {amounts_text(missing)} missing")

    def _move_itself(self, pod: PodWithoutRoom, node: ClusterNode) -> str:
        """Moves the pod to a node that has room for its desired size. Returns why that is not possible."""
        missing = missing_amounts(RESIZED, node, [pod.info], added={}, without=[])
        if not missing:
            return "its node is large enough for its resize: the kubelet refuses it for another reason"
        itself = next((other for other in node.pods if other.uid == pod.info.uid), None)
        if itself is None or itself.protection:
            return f"its resize needs a larger node: {itself.protection if itself else 'it left its node'}"
        if known(itself.usage.cpu) is None or known(itself.usage.memory) is None:
            return "its resize needs a larger node: its usage is not known"
        if self.draft.room <= 0 or self.draft.room_from(node) <= 0:
            return MOVES_OF_ALL if self.draft.room <= 0 else MOVES_OF_NODE
        if self.draft.busy(itself):
            return "another pod of its workload moves first"
        desired = replace(itself, info=pod.info)
        choice = least_loaded_target(desired, node, self._targets, self.draft.projection, hot=(), weights={})
        if choice.target is None:
            return f"its resize needs a larger node: {choice.why}"
        found = FoundSet(moves=((desired, choice.target),))
        return self._add(
            pod, node, found, f"makes room for the resize of {pod.name}: {amounts_text(missing)} more than its node has"
        )

    def _free_any_node(self, pod: PodWithoutRoom) -> str:
        info = pod.info
        placed = MovablePod(uid=info.uid, namespace=info.namespace, name=info.name, node="", info=info)
        refused = self.draft.projection.fit.constraint_refusals(placed)
        added = {**info.requests, "pods": 1}
        candidates: list[tuple[float, ClusterNode, WholeAmounts]] = []
        for position, node in enumerate(self._cluster.nodes):
            if refused[position] or node.unknown or node.source_refusal or node.target_refusal:
                continue
            missing = missing_amounts(added, node, staying_pods(node, self._moved), added=added, without=[])
            if not missing:
                return "a node will have room for it once pods that are leaving have ended, or has it now"
            candidates.append((sum(amount / added[name] for name, amount in missing.items()), node, missing))
        candidates.sort(key=lambda entry: (entry[0], entry[1].name))
        results: list[tuple[ClusterNode, WholeAmounts, FoundSet]] = []
        for _, node, missing in candidates[:MAX_NODES_TRIED]:
            found = self._search(pod, placed, node, missing)
            if found.moves:
                results.append((node, missing, found))
        if not results:
            return f"no node would have room for it with {self._max_pods} pods moved at most"
        now = self._cluster.now
        node, missing, found = min(results, key=lambda each: disruption(tuple(move[0] for move in each[2].moves), now))
        return self._add(
            pod, node, found, f"makes room for {pod.name}, which fits on no node: {amounts_text(missing)} missing"
        )

    def _search(self, pod: PodWithoutRoom, placed: MovablePod, node: ClusterNode, missing: WholeAmounts) -> FoundSet:
        projection = self.draft.projection
        position = projection.positions[node.name]
        search = RoomSearch(self.draft, self._targets, node, most=self._max_pods)
        return search.smallest(
            missing,
            staying={resize.info.uid for resize in pending_resizes(node)} | self._moved,
            priority=pod.info.priority,
            accepts=lambda: not projection.fit.refuses(placed, position),
        )

    def _add(self, pod: PodWithoutRoom, source: ClusterNode, found: FoundSet, reason: str) -> str:
        for moved, target in found.moves:
            self._moved.add(moved.uid)
            self.draft.add(moved, source, target, reason, makes_room_for=pod.name, trigger=pod.trigger)
        return ""

    def _refuse(self, pod: PodWithoutRoom, node: ClusterNode | None, why: str) -> None:
        info = pod.info
        waiting = MovablePod(
            uid=info.uid, namespace=info.namespace, name=info.name, node=info.pod.spec.node_name, info=info
        )
        self.draft.refuse(node, why, waiting)
