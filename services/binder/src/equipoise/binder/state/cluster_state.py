"""The cluster as the bus reports it: the latest placement and utilization per node, the latest cycle per shard."""

from collections.abc import Iterable, Sequence

import msgspec

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.placed_objects import node_object, requested_amounts
from equipoise.contracts.kubernetes.platforms import Platform, platform_of
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import is_fresh, skew_of
from equipoise.contracts.load.latest import supersedes, supersedes_measurement
from equipoise.contracts.messages.placement import GonePod, NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle
from equipoise.contracts.recent import is_recent
from equipoise.scheduling.model.amounts import whole
from equipoise.scheduling.model.snapshot import ClusterSnapshot

_TERMINATION = 60.0
"""Seconds that a pod may take to terminate: its replacement may be there before its end, and both count as one."""


PreemptedPod = tuple[str, PlacedPod | GonePod]
"""A pod that kube-scheduler preempted, with the name of its node."""


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """A node in its latest messages."""

    placement: NodePlacement
    preempted: tuple[PlacedPod | GonePod, ...] = ()
    """Those that kube-scheduler preempted."""

    utilization: NodeUtilization | None = None


def put_placement(snapshot: ClusterSnapshot, placement: NodePlacement) -> None:
    """Adds the node, or replaces it: what its pods request, and how many there are."""
    row = snapshot.put_node(node_object(placement))
    snapshot.set_requested(row, whole(requested_amounts(placement)), len(placement.pods))


class ClusterState:
    """Keeps the newest message of each kind; one with a lower epoch or sequence is dropped."""

    def __init__(self, load: LoadSettings) -> None:
        self._load = load
        self._nodes: dict[str, NodeState] = {}
        self.snapshot = ClusterSnapshot()
        """The nodes, with the sums of the requests of their pods. To be read only."""

        self._utilization: dict[str, NodeUtilization] = {}
        self._cycles: dict[str, UtilizationCycle] = {}

    def update_placement(self, placement: NodePlacement) -> None:
        before = self._nodes.get(placement.node)
        if before is not None and not supersedes(placement, before.placement):
            return
        if placement.removed:
            if self._nodes.pop(placement.node, None) is not None:
                self.snapshot.remove_node(placement.node)
            self._utilization.pop(placement.node, None)
        else:
            pods: Sequence[PlacedPod | GonePod] = (*placement.pods, *placement.gone)
            preempted = tuple(pod for pod in pods if pod.preempted_at is not None)
            put_placement(self.snapshot, placement)
            self._nodes[placement.node] = NodeState(placement=placement, preempted=preempted)

    def update_utilization(self, utilization: NodeUtilization) -> None:
        before = self._utilization.get(utilization.node)
        if supersedes_measurement(utilization, before):
            self._utilization[utilization.node] = utilization

    def update_cycle(self, cycle: UtilizationCycle) -> None:
        if supersedes_measurement(cycle, self._cycles.get(cycle.shard)):
            self._cycles[cycle.shard] = cycle
            self._drop_utilization_without_node(cycle.queried_at)

    def _drop_utilization_without_node(self, now: float) -> None:
        """Utilization may arrive before the placement of a new node, and after that of a removed one."""
        for name, latest in list(self._utilization.items()):
            if name not in self._nodes and now - latest.queried_at > self._load.freshness.eviction:
                del self._utilization[name]

    @property
    def cycles(self) -> Iterable[UtilizationCycle]:
        return self._cycles.values()

    @property
    def skew(self) -> float:
        """Prometheus' clock minus the collectors', in seconds."""
        return skew_of(self._cycles.values())

    def known_loads(self, now: float) -> int:
        """How many nodes have a load that is fresh enough for an eviction."""
        measured = ((node.placement.uid, self._utilization.get(name)) for name, node in self._nodes.items())
        max_age = self._load.freshness.eviction
        return sum(
            latest is not None and latest.uid == uid and is_fresh(latest.sampled_at, now, max_age)
            for uid, latest in measured
        )

    @property
    def nodes(self) -> list[NodeState]:
        return [
            msgspec.structs.replace(node, utilization=self._utilization.get(name)) for name, node in self._nodes.items()
        ]

    def node(self, name: str) -> NodeState | None:
        return self._nodes.get(name)

    def pods_of(self, workload: Workload) -> int:
        """How many pods of a workload are on nodes, without terminating ones."""
        return sum(
            pod.workload == workload and not pod.terminating for placement in self._placements for pod in placement.pods
        )

    def ready_platforms(self, workload: Workload | None, node: str) -> frozenset[Platform]:
        """The platforms on which pods of the workload have been ready, and that of `node`, where one of them is.

        Empty if all nodes have the same platform.
        """
        by_node = {placement.node: platform_of(placement.labels) for placement in self._placements}
        if len({*by_node.values()}) < 2:
            return frozenset()
        return frozenset(
            by_node[placement.node]
            for placement in self._placements
            if placement.node == node or any(pod.workload == workload and pod.has_been_ready for pod in placement.pods)
        )

    def pods_before(self, workload: Workload, now: float, period: float) -> tuple[int, int]:
        """How many there were `period` seconds ago, at least and at most: a pod about to terminate may count.

        The period must be within the one for which placements keep gone pods.
        """
        at = now - period
        present = sum(
            pod.workload == workload and not is_recent(pod.placed_at, now, period) and not pod.terminating
            for placement in self._placements
            for pod in placement.pods
        )
        gone = [
            pod.gone_at
            for placement in self._placements
            for pod in placement.gone
            if pod.workload == workload and pod.running_since <= at < pod.gone_at
        ]
        return present + sum(gone_at > at + _TERMINATION for gone_at in gone), present + len(gone)

    @property
    def ready(self) -> tuple[int, int]:
        """How many nodes are Ready, and how many there are."""
        return sum(placement.ready for placement in self._placements), len(self._nodes)

    @property
    def preempted(self) -> Iterable[PreemptedPod]:
        """Pods that kube-scheduler preempted lately, on all nodes: those that terminate, and those gone."""
        return ((name, pod) for name, node in self._nodes.items() for pod in node.preempted)

    @property
    def pod_count(self) -> int:
        return sum(len(placement.pods) for placement in self._placements)

    @property
    def _placements(self) -> list[NodePlacement]:
        return [node.placement for node in self._nodes.values()]
