"""Converts the nodes of a snapshot and their pods to what strategies read.

It refers to nothing that it has converted. So an evaluation is freed when it ends, and not only when the garbage
collector runs: with 5,000 nodes, each has a hundred megabytes.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from functools import cache, partial

from equipoise.contracts.configuration.moves import gap_refusal
from equipoise.contracts.eviction.candidate import Candidate
from equipoise.contracts.eviction.deletion_cost import DELETION_COST
from equipoise.contracts.eviction.node_eligibility import leaving_reason
from equipoise.contracts.eviction.opt_out import EVICTION_COST
from equipoise.contracts.eviction.protection import of_daemon_set, protection, rules_failed, static
from equipoise.contracts.eviction.surge import SurgeCandidate, may_surge, surge_decision
from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.nodes.consolidation_taint import emptying_text
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.contracts.kubernetes.owners import workload_lookup
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import known, plus, total_of
from equipoise.contracts.load.pod_priority import priority_class_of, qos_of
from equipoise.contracts.load.pressure import contention, target_problem, uncontended
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod
from equipoise.descheduler.decisions.evaluation.eligibility import (
    eviction_obstacle,
    resource_refusal,
    source_refusal,
    target_refusal,
)
from equipoise.descheduler.decisions.evaluation.node_usage import MeasuredNode, NodeUsageReader
from equipoise.descheduler.decisions.evaluation.pods_by_node import PodsByNode
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot
from equipoise.descheduler.decisions.planning.move_cost import start_of
from equipoise.descheduler.decisions.planning.pod_order import cost_of
from equipoise.descheduler.state.cooldowns import node_cooldown, pod_cooldown
from equipoise.descheduler.state.daily_usage import NodePods, RunningPod
from equipoise.descheduler.state.lazy import LazySequence
from equipoise.descheduler.state.moves.pending_moves import (
    PendingMoves,
    TrackedMove,
    created_at,
    real_moves,
    replaced_before_eviction,
)
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.volumes import is_fully_bound

NONE = Resources(cpu=0.0, memory=0.0)


def _replaced(snapshot: Snapshot) -> Collection[str]:
    """The ids of the pending moves of which the replacement is not expected any more."""
    in_flight = {move.pod_uid: move.workload for move in snapshot.pending.values() if move.evicted_at is None}
    detached = snapshot.watched.detached(in_flight)
    pods = snapshot.watched.pods_of(in_flight[uid] for uid in detached)
    return replaced_before_eviction(snapshot.pending, detached, pods)


class NodeReader:
    """Converts the nodes of a snapshot while some moves are pending."""

    def __init__(self, snapshot: Snapshot, settings: EvaluationSettings, pods: PodsByNode) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._watched = watched = snapshot.watched
        self._now = snapshot.now
        self._usage = NodeUsageReader(snapshot, settings.load)
        self._shortest = settings.load.shortest.name
        self._objects = {node.metadata.name: node for node in watched.nodes}
        self._measured: dict[str, MeasuredNode] = {}
        self._workload_of = workload_lookup(watched.workload_of)
        self._budgets: dict[str, list[PodDisruptionBudget]] = {}
        for budget in watched.budgets:
            self._budgets.setdefault(budget.metadata.namespace, []).append(budget)
        self._pods = pods
        self._ready_platforms = cache(watched.ready_platforms)
        self._replaced = _replaced(snapshot)
        self.failed: dict[str, str] = {}
        """Why the rules cannot be applied to a pod, by its name."""

        self._set_pending(snapshot.pending)

    def _set_pending(self, pending: PendingMoves) -> None:
        self._moving = {move.pod_uid: move for move in real_moves(pending).values()}
        self._off: dict[str, list[TrackedMove]] = {}
        self._to: dict[str, list[TrackedMove]] = {}
        for move in self._moving.values():
            self._off.setdefault(move.node, []).append(move)
            if move.id not in self._replaced:
                self._to.setdefault(move.target, []).append(move)

    def with_pending(self, pending: PendingMoves) -> "NodeReader":
        """A reader of the same snapshot in which these moves are pending."""
        other = copy(self)
        other._set_pending(pending)
        return other

    def pods_of(self, nodes: Sequence[str]) -> list[NodePods | None]:
        """The pods that count on each node once the pending moves are done; None without utilization."""
        pods_of_nodes: list[NodePods | None] = []
        for name in nodes:
            utilization = self._snapshot.nodes.get(name)
            if utilization is None:
                pods_of_nodes.append(None)
                continue
            coming = self._to.get(name, ())
            pods = self._staying(name)
            pods += [(move.pod_uid, move.workload) for move in coming]
            measured: Mapping[str, Resources] = utilization.pods
            if coming or name in self._pods.moved_to:
                brought = {move.pod_uid: move.expected_reduction for move in coming}
                dry_runs = {pod.metadata.uid: self._usage_of(pod) for pod in self._pods.moved_to.get(name, ())}
                measured = {**measured, **brought, **dry_runs}
            usage_of = partial(self._usage_after_moves, name)
            pods_of_nodes.append(NodePods(utilization, pods, usage_of, measured))
        return pods_of_nodes

    def _staying(self, node: str) -> list[RunningPod]:
        """The pods that count on a node, are not terminating and have no pending move."""
        moving, workload_of = self._moving, self._workload_of
        return [
            (meta.uid, workload_of(pod))
            for pod in self._pods.present.get(node, ())
            if (meta := pod.metadata).deletion_timestamp is None and meta.uid not in moving
        ]

    def _usage_after_moves(self, node: str, uid: str, workload: Workload | None) -> Resources:
        """The usage of a pod: as measured when its move was proposed, else as measured now, else that of a replica of
        its workload.
        """
        if uid in self._moving:
            return self._moving[uid].expected_reduction
        dry_run = self._pods.dry_runs.get(uid)
        utilization = self._snapshot.nodes.get(node if dry_run is None else dry_run.node)
        measured = utilization.pods.get(uid) if utilization is not None else None
        if measured is not None:
            return measured
        replica = self._snapshot.workloads.get(workload) if workload is not None else None
        otherwise = Resources() if dry_run is None else dry_run.expected_reduction
        return next((value.mean for value in replica.windows.values()), otherwise) if replica is not None else otherwise

    def _measured_node(self, name: str) -> MeasuredNode:
        if name not in self._measured:
            self._measured[name] = self._usage.of_node(self._objects[name])
        return self._measured[name]

    def _usage_of(self, pod: Pod) -> Resources:
        """The usage measured on the pod's node. For an unmeasured pod of a dry run, it is that at the proposal of the
        move."""
        usage = self._measured_node(pod.spec.node_name).pods.get(pod.metadata.uid, Resources())
        move = self._pods.dry_runs.get(pod.metadata.uid)
        if move is None:
            return usage
        cpu, memory = known(usage.cpu), known(usage.memory)
        return Resources(
            cpu=known(move.expected_reduction.cpu) if cpu is None else cpu,
            memory=known(move.expected_reduction.memory) if memory is None else memory,
            further=usage.further or move.expected_reduction.further,
        )

    def _usage_while_terminating(self, pod: Pod) -> Resources:
        """The measured usage, else the usage that was measured when its move was proposed."""
        usage, move = self._usage_of(pod), self._moving.get(pod.metadata.uid)
        return usage if move is None or usage != Resources() else move.expected_reduction

    def node(self, node: Node) -> ClusterNode:
        """The node with its load, its pods and what pending moves will change."""
        name, now = node.metadata.name, self._now
        pods, measured = self._pods.present.get(name, []), self._measured_node(name)
        settling = self._settings.load.coverage.node_settling_period
        going = self._going(name, pods)
        terminating = self._pods.terminating.get(name, ())
        unknown_requests = self._pods.unknown_requests.get(name, "")
        emptied = self._snapshot.emptying.nodes.get(node.metadata.uid)
        pressure, thresholds = measured.pressure, self._settings.thresholds.pressure
        moving = name in self._off or name in self._pods.moved_off
        usage = measured.usage
        if name in self._pods.moved_off or name in self._pods.moved_to:
            usage = {window: self._with_dry_runs(name, mean) for window, mean in measured.usage.items()}
        return ClusterNode(
            name=name,
            base=measured.base,
            usage=usage,
            expected=measured.expected,
            sampled_at=measured.sampled_at,
            coming=self._coming(name, going),
            terminating=total_of(map(self._usage_while_terminating, terminating)),
            terminating_production=total_of(
                self._usage_while_terminating(pod) for pod in terminating if _is_production(pod)
            ),
            source_refusal=source_refusal(node, now=now, settling=settling)
            or node_cooldown(self._snapshot.cooldowns, name, now),
            target_refusal=target_refusal(node, now=now, settling=settling)
            or (f"node is {emptying_text(emptied.since)}" if emptied is not None else "")
            or unknown_requests
            or target_problem(pressure, thresholds)
            or resource_refusal(self._settings.thresholds, self._shortest, usage, measured),
            being_emptied=emptied is not None,
            resources=measured.resources,
            unknown=measured.unknown,
            pods=LazySequence(lambda: [self._movable(pod, name) for pod in pods]),
            production=LazySequence(lambda: self._production(name, pods)),
            batch_work=LazySequence(lambda: self._staying_batch_work(name)),
            pressure=pressure,
            contention={} if moving else contention(pressure, thresholds),
            uncontended=uncontended(pressure, thresholds),
            leaving=len(self._off.get(name, ())),
            going=[move.pod_uid for move in going],
            object=node,
            occupying=self._occupying(name),
        )

    def _with_dry_runs(self, name: str, usage: Resources) -> Resources:
        """A window's mean with the pods that dry runs moved, as if they had always been on their targets."""
        for pod in self._pods.moved_off.get(name, ()):
            usage = plus(usage, self._usage_of(pod), -1.0)
        for pod in self._pods.moved_to.get(name, ()):
            usage = plus(usage, self._usage_of(pod))
        return usage

    def _production(self, node: str, pods: Sequence[Pod]) -> list[Resources]:
        """Usage of the production pods that stay, and of every pod that a pending move brings."""
        staying = [
            self._usage_of(pod)
            for pod in pods
            if pod.metadata.deletion_timestamp is None and pod.metadata.uid not in self._moving and _is_production(pod)
        ]
        return staying + [move.expected_reduction for move in self._to.get(node, ())]

    def _staying_batch_work(self, node: str) -> list[Resources]:
        """Usage of the pods that give way to others and stay."""
        return [
            self._usage_of(pod)
            for pod in self._pods.batch_work.get(node, ())
            if pod.metadata.deletion_timestamp is None and pod.metadata.uid not in self._moving
        ]

    def _going(self, node: str, pods: Sequence[Pod]) -> list[TrackedMove]:
        """The pending moves away from a node whose pod is still running.

        A terminating pod is in `ClusterNode.terminating` instead. A pod that is gone is subtracted from the window's
        mean.
        """
        off = self._off.get(node, ())
        running = {pod.metadata.uid for pod in pods if pod.metadata.deletion_timestamp is None} if off else ()
        return [move for move in off if move.pod_uid in running]

    def _coming(self, node: str, going: Sequence[TrackedMove]) -> Resources:
        """What pending moves add to the node, minus what they remove."""
        coming = NONE
        for move in self._to.get(node, ()):
            coming = _sum(coming, move.expected_reduction, 1.0)
        for move in going:
            coming = _sum(coming, move.expected_reduction, -1.0)
        return coming

    def _occupying(self, node: str) -> Sequence[PodInfo]:
        """The pods that occupy a node: its own, those nominated to it, and the expected replacements of pending
        moves."""
        expected = map(replacement_of, self._to.get(node, ()))
        return [*self._pods.requesting.get(node, ()), *(pod for pod in expected if pod is not None)]

    def _movable(self, pod: Pod, node: str) -> MovablePod:
        """The pod with everything that decides whether it may leave. If the rules cannot be applied to it, it is
        protected, and named in `ClusterView.failed`."""
        try:
            return self._with_protection(pod, node)
        except Exception as error:
            meta, why = pod.metadata, rules_failed(error)
            self.failed[f"{meta.namespace}/{meta.name}"] = why
            info = self._pods.infos[meta.uid]
            return MovablePod(
                uid=meta.uid, namespace=meta.namespace, name=meta.name, node=node, protection=why, info=info
            )

    def _with_protection(self, pod: Pod, node: str) -> MovablePod:
        meta = pod.metadata
        workload = self._workload_of(pod)
        candidate = self._watched.candidate(pod, workload)
        rules, now = self._settings.rules, self._now
        why, without_gap, postponed = self._protection(candidate, node)
        return MovablePod(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            node=node,
            workload=workload,
            usage=self._usage_of(pod),
            priority=pod.spec.priority,
            qos=qos_of(pod.status.qos_class),
            deletion_cost=cost_of(meta.annotations, DELETION_COST),
            eviction_cost=cost_of(meta.annotations, EVICTION_COST),
            created_at=created_at(pod),
            start=start_of(pod),
            protection=why,
            postponed=postponed,
            without_gap=without_gap,
            platforms=self._ready_platforms().get(workload, frozenset()) if workload is not None else frozenset(),
            belongs_to_node=bool(static(candidate, rules, now) or of_daemon_set(candidate, rules, now)),
            info=self._pods.infos[meta.uid],
        )

    def _protection(self, candidate: Candidate, node: str) -> tuple[str, bool, bool]:
        """Why the pod must not be moved, whether it is moved without a gap, and whether only a cooldown is in the way.

        Services and quotas are not watched: the binder reads them, and refuses the pods that they concern.
        """
        pod, meta = candidate.pod, candidate.pod.metadata
        if meta.uid in self._moving:
            return "it has a pending move", False, False
        if pod.spec.node_name != node:
            return f"moved in a dry run, from {pod.spec.node_name}", False, False
        budgets = [
            budget
            for budget in self._budgets.get(meta.namespace, ())
            if budget.metadata.unreadable or selects(budget.spec.selector, meta.labels)
        ]
        rules, without_gap = self._settings.rules, False
        why = protection(candidate, rules, self._now)
        if may_surge(candidate, why, rules, self._now):
            spec = self._objects[node].spec
            surge = SurgeCandidate(
                candidate=candidate,
                budgets=self._budgets.get(meta.namespace, ()),
                leaving=leaving_reason(cordoned=spec.unschedulable, taints=spec.taints),
            )
            why, without_gap = surge_decision(surge, why, rules)
        why = why or ("" if without_gap else gap_refusal(rules.level))
        why = why or eviction_obstacle(
            candidate, budgets, volumes_known=self._volumes_known(pod), without_gap=without_gap
        )
        if why:
            return why, False, False
        cooldown = pod_cooldown(
            self._snapshot.cooldowns,
            uid=meta.uid,
            namespace=meta.namespace,
            workload=candidate.workload,
            node=node,
            now=self._now,
        )
        return cooldown, without_gap, bool(cooldown)

    def _volumes_known(self, pod: Pod) -> bool:
        """Whether it is known which nodes can reach all of the pod's volumes."""
        names = [name for volume in pod.spec.volumes if (name := volume.claim_of(pod.metadata.name))]
        claims = [self._watched.claims.get((pod.metadata.namespace, name)) for name in names]
        return all(
            claim is not None
            and not claim.metadata.unreadable
            and is_fully_bound(claim)
            and (bound := self._watched.volumes.get(claim.spec.volume_name)) is not None
            and not bound.metadata.unreadable
            for claim in claims
        )


def _is_production(pod: Pod) -> bool:
    return priority_class_of(pod.metadata.labels, pod.spec.priority, qos_of(pod.status.qos_class)) == "prod"


def replacement_of(move: TrackedMove) -> PodInfo | None:
    """The expected replacement; None if the pod is not known."""
    return None if move.info is None else PodInfo(move.info.pod, move.info.shape, uid=f"{move.pod_uid}/replacement")


def _sum(left: Resources, right: Resources, sign: float) -> Resources:
    """The sum, or with a `sign` of −1 the difference, which unlike that of `plus` may be negative."""
    further = dict(left.further or {})
    for name, amount in (right.further or {}).items():
        further[name] = further.get(name, 0.0) + sign * amount
    return Resources(
        cpu=(left.cpu or 0.0) + sign * (right.cpu or 0.0),
        memory=(left.memory or 0.0) + sign * (right.memory or 0.0),
        further=further or None,
    )
