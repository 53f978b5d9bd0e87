"""Moves pods away from nodes whose pods wait for CPU or disks although the nodes are below their load thresholds.

Pressure shows that there is contention; it predicts the effect of no move. So the pods are chosen by their usage: those
that use the resource, whether they wait or not. Only one pod leaves a node at a time, until the pressure was measured
without it.
"""

from collections.abc import Callable, Mapping, Sequence

from equipoise.contracts.configuration.settings import PressureThresholds
from equipoise.contracts.load.correction import known
from equipoise.contracts.load.pressure import RELIEVED, threshold_of
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod, Resource
from equipoise.descheduler.decisions.planning.classification import contended_reason
from equipoise.descheduler.decisions.planning.pod_order import importance, in_order
from equipoise.descheduler.decisions.planning.target_selection import TargetNodes, least_loaded_target
from equipoise.descheduler.state.draft import MOVES_OF_ALL, PlanDraft

LEAST_PART = 0.1
"""The least part of what all pods of the node use of the resource: pods that use less do not relieve it."""


class ContentionRelief:
    """Adds at most one move for each node to a draft."""

    def __init__(
        self,
        draft: PlanDraft,
        targets: TargetNodes,
        thresholds: PressureThresholds,
        weights: Mapping[Resource, float],
        may_move: Callable[[MovablePod], str],
    ) -> None:
        """`may_move`: the setting of the strategy that excludes a pod; empty if the pod may be moved."""
        self._draft = draft
        self._targets = targets
        self._thresholds = thresholds
        self._weights = weights
        self._may_move = may_move

    def plan(self, nodes: Sequence[ClusterNode]) -> None:
        """Moves away from these nodes; those whose pods wait for longest come first."""
        for node in sorted(nodes, key=lambda node: (-max(node.contention.values()), node.name)):
            if node.source_refusal:
                self._draft.refuse(node, node.source_refusal)
            elif self._draft.room <= 0:
                self._draft.refuse(node, MOVES_OF_ALL)
            elif not self._draft.moves_from(node) and self._draft.room_from(node) > 0:
                self._relieve(node)

    def _relieve(self, node: ClusterNode) -> None:
        """Plans the first possible move, for the resource that pods wait for longest if there is one."""
        waited_for = [resource for resource in RELIEVED if resource in node.contention]
        for resource in sorted(waited_for, key=lambda name: -node.contention[name]):
            by_cpu = resource == "cpu"
            if self._move_one(node, self._by_cpu(node) if by_cpu else self._by_disk(node), ["cpu"] if by_cpu else []):
                return

    def _move_one(self, node: ClusterNode, pods: Sequence[MovablePod], hot: Sequence[Resource]) -> bool:
        """Plans the move of the first of these pods that has a target. False if none has one."""
        for pod in pods:
            if self._draft.busy(pod):
                self._draft.refuse(node, "another pod of its workload moves first", pod)
                continue
            choice = least_loaded_target(
                pod, node, self._targets, self._draft.projection, hot=hot, weights=self._weights
            )
            if choice.target is not None:
                self._draft.add(pod, node, choice.target, contended_reason(node, self._thresholds))
                return True
            self._draft.refuse(node, choice.why, pod)
        return False

    def _by_cpu(self, node: ClusterNode) -> list[MovablePod]:
        """The movable pods that use CPU. The best one uses about as much as the node would have to lose if pressure
        were proportional to usage."""
        users = self._users(node, {pod.uid: known(pod.usage.cpu) or 0.0 for pod in node.pods})
        threshold = threshold_of(self._thresholds, "cpu") or 0.0
        used = self._draft.projection.measured_load(node).get("cpu", 0.0)
        excess: dict[Resource, float] = {"cpu": used * (1.0 - threshold / node.contention["cpu"])}
        return in_order(users, base=node.base, excess=excess, weights=self._weights)

    def _by_disk(self, node: ClusterNode) -> list[MovablePod]:
        """The movable pods that use disks; of equally important pods, the one that uses them most comes first."""
        measured = {} if node.pressure is None else node.pressure.pods
        used = {uid: pod.disk or 0.0 for uid, pod in measured.items()}
        if not any(used.values()):
            self._draft.refuse(node, "its pods wait for disks, and it is not measured which of them use disks")
            return []
        users = self._users(node, used)
        return sorted(users, key=lambda pod: (importance(pod), -used[pod.uid], pod.namespace, pod.name))

    def _users(self, node: ClusterNode, used: Mapping[str, float]) -> list[MovablePod]:
        """The pods that may be moved and use a considerable part. `used`: amounts by UID."""
        least = LEAST_PART * sum(used.values())
        users: list[MovablePod] = []
        for pod in node.pods:
            amount = used.get(pod.uid, 0.0)
            why = pod.protection or self._may_move(pod)
            if not why and (known(pod.usage.cpu) is None or known(pod.usage.memory) is None):
                why = "its usage is not known"
            if not why and (amount <= 0.0 or amount < least):
                why = "it uses little of what the pods of its node wait for"
            if why:
                self._draft.protect(pod, why)
            else:
                users.append(pod)
        return users
