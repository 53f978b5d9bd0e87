"""Moves pods away from a node on which another pod waits for room. Off by default.

A pod waits for room if its resize in place is pending (condition PodResizePending). Deferred: its node is too full now,
so the least disruptive set of other pods leaves the node. Infeasible: its node is too small, so the pod itself is moved
to a larger one. On request also pods that fit on no node, and would fit if a few pods were moved.

All pods of a set are proposed together, or none of them: fewer would help nobody. Limits, protection, cooldowns and the
thresholds of targets are those of the other strategies. Pods are moved once for each generation of a waiting pod: an
autoscaler that resizes it again and again must not make others move again and again (docs/decisions/0075).
"""

from collections.abc import Collection, Sequence
from typing import Annotated

from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan
from equipoise.descheduler.decisions.planning.thresholds import Ceilings, filling
from equipoise.descheduler.decisions.room.pods_without_room import PodWithoutRoom, pending_resizes, unschedulable_pods
from equipoise.descheduler.state.room.planner import RoomPlanner

MAX_UNSCHEDULABLE = 10
"""The number of unschedulable pods for which an evaluation plans."""

MAX_NAMED = 3
"""The number of pods that a classification names."""


class MakeRoom(Section, frozen=True, kw_only=True, tag_field="name", tag="make_room"):
    """The strategy `make_room` and its settings."""

    max_pods: Annotated[int, Meta(ge=1, le=4)] = 2
    """The most pods that are moved for one waiting pod."""

    min_wait: Duration = Duration(60)
    """The time that a pod must have waited. Many deferred resizes are done when another pod ends."""

    unschedulable: bool = False
    """Whether room is also made for pods that kube-scheduler cannot place. It is not reserved for them."""

    @property
    def levels(self) -> bool:
        """A pod waits for each of its moves."""
        return False

    def windows_of(self, cluster: ClusterView) -> Sequence[str]:
        """The shortest window: it predicts the load of targets."""
        return (cluster.windows[0],)

    def classify(self, cluster: ClusterView) -> list[NodeClassification]:
        """Every node, with the pods that wait for room on it. None is abnormal: a node is not relieved of load."""
        windows = self.windows_of(cluster)
        return [
            NodeClassification(
                node=node.name,
                state="unknown" if node.unknown else "between",
                load=node.load(windows[0]),
                sampled_at=node.oldest_sample(windows),
                why=node.unknown or _waiting_text(pending_resizes(node)),
            )
            for node in cluster.nodes
        ]

    def plan(self, cluster: ClusterView, abnormal: Collection[str]) -> MovePlan:
        """Moves for the waiting pods, in the order in which kubelets retry resizes. `abnormal` is not used."""
        resizes = {node.name: pending_resizes(node) for node in cluster.nodes}
        pods = unschedulable_pods(cluster.unscheduled) if self.unschedulable else []
        if not pods and not any(resizes.values()):
            return MovePlan(why="no pod waits for room")
        planner = RoomPlanner(cluster, self.windows_of(cluster), max_pods=self.max_pods, min_wait=self.min_wait)
        nodes = {node.name: node for node in cluster.nodes}
        waiting = [(pod, nodes[name]) for name, of_node in resizes.items() for pod in of_node]
        for pod, node in sorted(waiting, key=lambda entry: entry[0].order):
            planner.make_room_for_resize(pod, node, others=resizes[node.name])
        for number, pod in enumerate(pods):
            planner.make_room_for_pod(pod, examined=number < MAX_UNSCHEDULABLE)
        return planner.draft.plan("no pod waits for room")

    def ceilings(self, cluster: ClusterView) -> dict[str, Ceilings]:
        """The load up to which each node may be filled, as a whole and by production pods; by name."""
        applied, production = filling(cluster.thresholds)
        ceilings = Ceilings(node=applied.ceiling, production={} if production is None else production.ceiling)
        return {node.name: ceilings for node in cluster.nodes}


def _waiting_text(pods: Sequence[PodWithoutRoom]) -> str:
    """Which pods of a node have a pending resize; empty without any."""
    named = ", ".join(f"{pod.name} ({pod.waits_for})" for pod in pods[:MAX_NAMED])
    more = f" and {len(pods) - MAX_NAMED} more" if len(pods) > MAX_NAMED else ""
    return f"resizes are pending: {named}{more}" if pods else ""
