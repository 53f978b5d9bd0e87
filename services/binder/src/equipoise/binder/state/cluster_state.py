"""The cluster as the bus reports it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from equipoise.binder.decisions.campaign import ClusterEvaluation
from equipoise.binder.state.placement_counts import PlacementCounts
from equipoise.binder.state.sample_times import SampleTimes
from equipoise.contracts.bounds import CLOCK_TOLERANCE
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.nodes.placed_objects import node_object, requested_amounts
from equipoise.contracts.kubernetes.nodes.platforms import Platform, platform_of
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.cluster_messages import ClusterMessages
from equipoise.contracts.messages.placement import GonePod, NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.contracts.recent import is_recent
from equipoise.scheduling.model.amounts import whole
from equipoise.scheduling.model.snapshot import ClusterSnapshot

_TERMINATION = 60.0
"""Seconds that a pod may take to terminate. Its replacement may exist before it has ended: the two count as one."""

PreemptedPod = tuple[str, PlacedPod | GonePod]
"""A pod that kube-scheduler preempted, with the name of its node."""


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """A node in its latest messages."""

    placement: NodePlacement
    utilization: NodeUtilization | None = None


class _Nodes(Mapping[str, NodeState]):
    """A view of the nodes: only those that are read are created."""

    def __init__(self, placements: Mapping[str, NodePlacement], utilizations: Mapping[str, NodeUtilization]) -> None:
        self._placements = placements
        self._utilizations = utilizations

    def __getitem__(self, name: str) -> NodeState:
        return NodeState(placement=self._placements[name], utilization=self._utilizations.get(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._placements)

    def __len__(self) -> int:
        return len(self._placements)


def put_placement(snapshot: ClusterSnapshot, placement: NodePlacement) -> None:
    """Adds or replaces the node, with the requests and the number of its pods."""
    row = snapshot.put_node(node_object(placement))
    snapshot.set_requested(row, whole(requested_amounts(placement)), len(placement.pods))


class ClusterState(ClusterMessages):
    """The latest messages, with the snapshot of the filters and the pods that kube-scheduler preempted."""

    def __init__(self, load: LoadSettings) -> None:
        super().__init__()
        self._load = load
        self._preempted: dict[str, list[PlacedPod | GonePod]] = {}
        """The preempted pods by node. Nodes without any are absent."""

        self._counts = PlacementCounts()
        self._sample_times = SampleTimes()
        """The times of the samples of existing nodes."""

        self.evaluation: ClusterEvaluation | None = None
        """The latest evaluation of the descheduler that describes the whole cluster."""

        self.snapshot = ClusterSnapshot()
        """The nodes, with the sums of the requests of their pods. Callers must not change it."""

    def on_placement(self, message: NodePlacement, now: float) -> bool:
        earlier = self.placements.get(message.node)
        if not super().on_placement(message, now):
            return False
        self._preempted.pop(message.node, None)
        if earlier is not None:
            self._counts.remove(earlier)
        if not message.removed:
            self._counts.add(message)
            put_placement(self.snapshot, message)
            pods: Sequence[PlacedPod | GonePod] = (*message.pods, *message.gone)
            if preempted := [pod for pod in pods if pod.preempted_at is not None]:
                self._preempted[message.node] = preempted
        elif earlier is not None:
            self.snapshot.remove_node(message.node)
        self._update_sample_time(message.node)
        return True

    def on_utilization(self, message: NodeUtilization, now: float) -> bool:
        if not super().on_utilization(message, now):
            return False
        self._update_sample_time(message.node)
        return True

    def _update_sample_time(self, name: str) -> None:
        node = self.nodes.get(name)
        utilization = None if node is None else node.utilization
        if utilization is not None and utilization.uid != self.placements[name].uid:
            utilization = None
        self._sample_times.put(name, None if utilization is None else utilization.sampled_at)

    def on_cycle(self, message: UtilizationCycle, now: float) -> bool:
        if not super().on_cycle(message, now):
            return False
        self._drop_outdated(message.queried_at)
        return True

    def on_workload(self, message: WorkloadUtilization, now: float) -> bool:
        return super().on_workload(msgspec.structs.replace(message, profile={}), now)

    def on_evaluation(self, message: ClusterEvaluation, now: float) -> bool:
        latest = self.evaluation
        outdated = latest is not None and message.evaluated_at <= latest.evaluated_at
        if message.cluster is None or outdated or message.evaluated_at > now + CLOCK_TOLERANCE:
            return False
        self.evaluation = message
        return True

    def _drop_outdated(self, now: float) -> None:
        """Drop old messages. The utilization of a new node may arrive before its placement."""
        for name, latest in list(self.utilizations.items()):
            if name not in self.placements and now - latest.queried_at > self._load.freshness.eviction:
                del self.utilizations[name]
        self.drop_workloads(now - self._load.lifetime(self._load.longest))

    def known_loads(self, now: float) -> int:
        """How many nodes have a load that is fresh enough for an eviction."""
        return self._sample_times.fresh(now, self._load.freshness.eviction)

    @property
    def nodes(self) -> Mapping[str, NodeState]:
        """All nodes in their latest messages, by name."""
        return _Nodes(self.placements, self.utilizations)

    def _placements_of(self, workload: Workload | None) -> Iterator[NodePlacement]:
        """The placements of the nodes with a pod of the workload, or with one that is gone."""
        return (self.placements[name] for name in self._counts.nodes_of(workload))

    def pods_of(self, workload: Workload) -> int:
        """How many pods of a workload are on nodes, without terminating ones."""
        return sum(
            pod.workload == workload and not pod.terminating
            for placement in self._placements_of(workload)
            for pod in placement.pods
        )

    def ready_platforms(self, workload: Workload | None, node: str) -> frozenset[Platform]:
        """The platforms on which pods of the workload have been ready, and the platform of `node`, where one runs.

        Empty if all nodes have the same platform.
        """
        if len(self._counts.platforms) < 2:
            return frozenset()
        ready = {
            platform_of(placement.labels)
            for placement in self._placements_of(workload)
            if any(pod.workload == workload and pod.has_been_ready for pod in placement.pods)
        }
        source = self.placements.get(node)
        return frozenset(ready if source is None else {*ready, platform_of(source.labels)})

    def pods_before(self, workload: Workload, now: float, period: float) -> tuple[int, int]:
        """The lowest and the highest number of pods that the workload may have had `period` seconds ago.

        Only the highest contains pods that may have been terminating then. Placements must keep gone pods for `period`.
        """
        at = now - period
        present = sum(
            pod.workload == workload and not is_recent(pod.placed_at, now, period) and not pod.terminating
            for placement in self._placements_of(workload)
            for pod in placement.pods
        )
        gone = [
            pod.gone_at
            for placement in self._placements_of(workload)
            for pod in placement.gone
            if pod.workload == workload and pod.running_since <= at < pod.gone_at
        ]
        return present + sum(gone_at > at + _TERMINATION for gone_at in gone), present + len(gone)

    @property
    def ready(self) -> tuple[int, int]:
        """How many nodes are Ready, and how many there are."""
        return self._counts.ready, len(self.placements)

    @property
    def preempted(self) -> Iterable[PreemptedPod]:
        """Pods that kube-scheduler preempted lately, on all nodes: those that terminate, and those gone."""
        return ((name, pod) for name, pods in self._preempted.items() for pod in pods)

    @property
    def pod_count(self) -> int:
        return self._counts.pods
