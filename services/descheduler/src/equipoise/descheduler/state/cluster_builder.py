"""Builds the cluster that strategies plan with from a snapshot."""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache, partial

import msgspec

from equipoise.contracts.kubernetes.nodes.platforms import platform_of
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS, DailyProfile, daily_profile
from equipoise.contracts.messages.utilization import WorkloadUtilization
from equipoise.descheduler.decisions.cluster import ClusterView, PodMove
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.decisions.evaluation.pods_by_node import pods_by_node
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot
from equipoise.descheduler.state.cooldowns import triggers_in_cooldown
from equipoise.descheduler.state.daily_usage import BatchWork, UsageForecast
from equipoise.descheduler.state.lazy import LazyMapping
from equipoise.descheduler.state.moves.pending_moves import busy_workloads, pending_triggers, planned, without_outcome
from equipoise.descheduler.state.node_fit import NodeFit, placed_pods
from equipoise.descheduler.state.nodes.node_reader import NodeReader, replacement_of
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.model.volumes import Volumes
from equipoise.scheduling.model.workloads import SpreadSelectors
from equipoise.scheduling.replacement import ReplacementFilters

_HOUR = 3_600.0


class ClusterBuilder:
    """Converts the nodes and pods of a snapshot once, for any number of plans.

    Pods moved in a dry run are listed on their target, with their usage, requests and profile.
    """

    def __init__(self, snapshot: Snapshot, settings: EvaluationSettings) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._watched = watched = snapshot.watched
        self._now = snapshot.now
        self._objects = {node.metadata.name: node for node in watched.nodes}
        self._nodes: dict[str, ClusterNode] = {}
        self._pods = pods_by_node(snapshot)
        self._reader = NodeReader(snapshot, settings, self._pods)
        self._filters = ReplacementFilters(
            Volumes(claims=watched.claims, volumes=watched.volumes),
            default_selector=SpreadSelectors({}, owners_by_name(watched.workloads)),  # Services are not watched
        )
        self._placed: ClusterSnapshot | None = None
        """The snapshot of all nodes with their pods; None until a plan needs it."""

        self._pending = snapshot.pending
        # A cluster has thousands of workloads: their profiles are converted on first use.
        profile_of = cache(partial(_profile, snapshot.workloads))
        uids = frozenset(pod.metadata.uid for pods in self._pods.batch_work.values() for pod in pods)
        batch_work = BatchWork(uids, settings.load.batch_work_weight)
        hour = int(snapshot.now // _HOUR) % SLOTS
        self._days = UsageForecast(profile_of, self._reader.pods_of, batch_work=batch_work, hour=hour)

    def with_planned(self, moves: Sequence[PodMove]) -> "ClusterBuilder":
        """A builder for the same snapshot in which these moves are pending. Only the nodes that they change are built
        again.
        """
        added = {move.id: move for move in map(planned, moves)}
        changed = {name for move in added.values() for name in (move.node, move.target)}
        other = copy(self)
        other._pending = {**self._pending, **added}
        other._reader = self._reader.with_pending(other._pending)
        if self._placed is not None:
            other._placed = self._placed.clone()
            for move in added.values():
                row = other._placed.row(move.target)
                if row is not None and (pod := replacement_of(move)) is not None:
                    other._placed.add_pod(pod, row)
        other._nodes = {name: node for name, node in self._nodes.items() if name not in changed}
        other._days = self._days.changed(changed, other._reader.pods_of)
        return other

    def cluster(self) -> ClusterView:
        """Nodes in the order of their names."""
        settings = self._settings
        for name, node in self._objects.items():
            if name not in self._nodes:
                self._nodes[name] = self._reader.node(node)
        return ClusterView(
            now=self._now,
            nodes=[self._nodes[name] for name in sorted(self._nodes)],
            thresholds=settings.thresholds,
            further=tuple(settings.thresholds.resources),
            windows=[window.name for window in settings.load.windows],
            limits=settings.limits,
            fit=self._fit,
            days=self._days,
            batch_work_weight=settings.load.batch_work_weight,
            require_pressure=settings.require_pressure,
            busy_workloads=busy_workloads(self._pending),
            in_flight=without_outcome(self._pending),
            unscheduled=self._pods.unscheduled,
            triggers={
                **triggers_in_cooldown(self._snapshot.cooldowns, self._now),
                **pending_triggers(self._pending),
            },
            failed=self._reader.failed,
        )

    def _fit(self, nodes: Sequence[ClusterNode]) -> NodeFit:
        if self._placed is None:
            self._placed = placed_pods(self._nodes.values(), self._watched.namespaces.values())
        return NodeFit(
            self._placed.clone(),
            [node.name for node in nodes],
            self._filters,
            target_points=self._settings.target_points,
            platforms=[platform_of(node.labels) for node in nodes],
        )


def _profile(workloads: Mapping[Workload, WorkloadUtilization], workload: Workload) -> DailyProfile | None:
    utilization = workloads.get(workload)
    return None if utilization is None else daily_profile(utilization)


def owners_by_name(workloads: Mapping[Workload, WorkloadObject]) -> Mapping[tuple[str, str, str], WorkloadObject]:
    """The objects by kind, namespace and name, with the kind, which the items of a list do not have."""
    keys = {(key.kind, key.namespace, key.name): key for key in workloads if key.group == "apps"}
    return LazyMapping(keys, lambda key: msgspec.structs.replace(workloads[keys[key]], kind=key[0]))
