"""The immutable input of one evaluation, so that a thread can evaluate while the service receives messages."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.eviction.candidate import Candidate, Rules
from equipoise.contracts.eviction.detached import is_marked_detached
from equipoise.contracts.kubernetes.nodes.occupied_nodes import occupies_node
from equipoise.contracts.kubernetes.nodes.platforms import Platform, platform_of
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import OwnerReference, is_ready
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget, WorkloadObject
from equipoise.contracts.kubernetes.owners import controller_of, workload_lookup, workload_of
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.descheduler.decisions.cluster import IntentLimits
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation
from equipoise.descheduler.decisions.consolidation.emptying import EmptyingState
from equipoise.descheduler.decisions.strategies import Strategy
from equipoise.descheduler.state.abnormal_counts import AbnormalCounts
from equipoise.descheduler.state.cooldowns import Cooldowns
from equipoise.descheduler.state.moves.campaign_moves import CampaignMoves
from equipoise.descheduler.state.moves.pending_moves import PendingMoves, PodLocation

if TYPE_CHECKING:  # it needs numpy (docs/decisions/0021)
    from equipoise.scheduling.model.pod_info import PodInfo


class WatchedObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of the API server."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    namespaces: Mapping[str, Namespace]
    budgets: Sequence[PodDisruptionBudget] = ()
    workloads: Mapping[Workload, WorkloadObject] = {}
    """The objects of every watched kind, ReplicaSets of Deployments included."""

    claims: Mapping[tuple[str, str], PersistentVolumeClaim] = {}
    """The claims by namespace and name."""

    volumes: Mapping[str, PersistentVolume] = {}
    infos: "Mapping[str, PodInfo]" = {}
    """The pods that were converted before, by UID."""

    def owner_of(self, workload: Workload) -> OwnerReference | None:
        """The controller of a ReplicaSet. Raises KeyError when it is not watched (yet)."""
        return self.workloads[workload].metadata.controller

    def workload_of(self, pod: Pod) -> Workload | None:
        """The pod's workload; None when it has none or it is not known."""
        try:
            return workload_of(pod, self.owner_of)
        except KeyError:
            return None

    def ready_platforms(self) -> Mapping[Workload, frozenset[Platform]]:
        """The platforms on which pods of a workload are ready, by workload. Empty if all nodes have the same one."""
        by_node = {node.metadata.name: platform_of(node.metadata.labels) for node in self.nodes}
        if len({*by_node.values()}) < 2:
            return {}
        ready: dict[Workload, set[Platform]] = {}
        lookup = workload_lookup(self.workload_of)
        for pod in self.pods:
            platform = by_node.get(pod.spec.node_name)
            if platform is not None and occupies_node(pod) and is_ready(pod.status.conditions):
                workload = lookup(pod)
                if workload is not None:
                    ready.setdefault(workload, set()).add(platform)
        return {workload: frozenset(platforms) for workload, platforms in ready.items()}

    def candidate(self, pod: Pod, workload: Workload | None) -> Candidate:
        """The pod with its namespace and owners. `workload`: the pod's own."""
        owners: tuple[WorkloadObject, ...] = ()
        if workload is not None and workload in self.workloads:
            owners = (self.workloads[workload],)
            controller = controller_of(pod)
            if controller is not None and controller != workload:
                owners = (self.workloads[controller], *owners)
        namespace = self.namespaces.get(pod.metadata.namespace)
        return Candidate(pod=pod, namespace=namespace, workload=workload, owners=owners)

    def pods_of(self, workloads: Iterable[Workload | None]) -> dict[Workload, list[Pod]]:
        """The pods of these workloads on any node."""
        pods_of_workloads: dict[Workload, list[Pod]] = {workload: [] for workload in workloads if workload is not None}
        lookup = workload_lookup(self.workload_of)
        for pod in self.pods if pods_of_workloads else ():
            workload = lookup(pod)
            if workload is not None and workload in pods_of_workloads:
                pods_of_workloads[workload].append(pod)
        return pods_of_workloads

    def detached(self, uids: Collection[str]) -> set[str]:
        """The UIDs of the pods among `uids` that are detached from their ReplicaSet."""
        pods = self.pods if uids else ()
        return {pod.metadata.uid for pod in pods if pod.metadata.uid in uids and is_marked_detached(pod.metadata)}

    def locations(self, uids: Collection[str]) -> dict[str, PodLocation]:
        """The node and workload of each of these pods, by UID. Pods that do not run or are terminating are left out."""
        return {
            pod.metadata.uid: PodLocation(node=pod.spec.node_name, workload=self.workload_of(pod))
            for pod in (self.pods if uids else ())
            if pod.metadata.uid in uids and occupies_node(pod) and pod.metadata.deletion_timestamp is None
        }


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The watched, received and tracked values at one time."""

    now: float
    watched: WatchedObjects
    nodes: Mapping[str, NodeUtilization]
    workloads: Mapping[Workload, WorkloadUtilization]
    cycles: Collection[UtilizationCycle]
    placements: Mapping[str, NodePlacement]
    """The placements by node, with the pods that started or left recently; see `with_recent_pods`."""

    pending: PendingMoves = {}
    cooldowns: Cooldowns = {}
    counts: Mapping[str, AbnormalCounts] = {}
    """The counts of the last evaluation, by strategy."""

    emptying: EmptyingState = EmptyingState()
    """The nodes that consolidation was emptying after the last evaluation."""

    campaign: bool = False
    """Whether a campaign permits moves: it levels, and consolidation waits until it has ended."""

    campaign_moves: CampaignMoves = CampaignMoves()

    evictions: str = ""
    """What binders do with intents; see `LatestMessages.evictions`."""

    watch_problem: str = ""
    """Why the watched objects may be outdated; "" when they are current."""


class EvaluationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an evaluation."""

    load: LoadSettings
    thresholds: Thresholds
    rules: Rules
    limits: IntentLimits
    strategies: Sequence[Strategy]
    interval: float
    """Seconds between evaluations."""

    consecutive_abnormalities: int
    intent_lifetime: float
    """Seconds."""

    target_points: int
    """See `DeschedulerSettings`."""

    require_pressure: bool = False
    """See `DeschedulerSettings`."""

    consolidation: Consolidation = Consolidation()
