"""The descheduler and the binder in a replay. Evaluation, limits and ledger are the code of the services.

Only the API server is simulated: it evicts a pod if limits and PodDisruptionBudgets allow it. Times are Unix seconds.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

import msgspec

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.rule import ProposedEviction
from equipoise.binder.decisions.result import Finish
from equipoise.binder.state.ledger import Ledger, ReplacementStatus, new_entry
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, Protection, Thresholds
from equipoise.contracts.eviction.candidate import Rules
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import (
    Condition,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    SelectorRequirement,
)
from equipoise.contracts.kubernetes.objects.node import Node, NodeSelector, NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import Affinity, NodeAffinity, Pod, PodStatus
from equipoise.contracts.kubernetes.objects.workload import (
    PodDisruptionBudget,
    WorkloadObject,
    WorkloadSpec,
    WorkloadStatus,
)
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.daily_profile import HourlyUsage
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.evaluation.messages import proposals
from equipoise.descheduler.decisions.evaluation.pipeline import evaluate
from equipoise.descheduler.decisions.evaluation.snapshot import Snapshot, WatchedObjects
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.latest_messages import LatestMessages, with_recent_pods
from equipoise.descheduler.state.lazy import LazyMapping
from equipoise.descheduler.state.tracker import Tracker
from equipoise.scheduling.model.pod_info import PodInfo, PodReader

_EPOCH = LeaseEpoch(lease_uid="lab", transitions=0, holder="lab")


class MoveCounts(msgspec.Struct, kw_only=True):
    """The results of the proposed moves."""

    proposed: int = 0
    evicted: int = 0
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    """The number of refused moves, by reason."""


@dataclass(kw_only=True)
class SimulatedDescheduler:
    """Receives the messages of the collector and evaluates when it is called."""

    settings: DeschedulerSettings
    limits: Limits
    load: LoadSettings
    thresholds: Thresholds
    protection: Protection
    objects: "ApiObjects"
    """The objects that the descheduler watches."""

    usage_of: Callable[[Workload], Resources]
    """Last measured usage of a pod of a workload."""

    days: Callable[[], Mapping[Workload, HourlyUsage]]
    """The profile of each workload."""

    budgets: Callable[[], Sequence[PodDisruptionBudget]]
    """All PodDisruptionBudgets with their present status."""

    evict: Callable[[EvictionIntent], Finish | None]
    """Evicts the pod. Returns the outcome if there is no node for the replacement, or if the API server refuses."""

    publish: Callable[[EvictionIntent | EvictionOutcome], None]
    started_at: float

    def __post_init__(self) -> None:
        rules = Rules(protection=self.protection, namespaces=Namespaces(), own_namespace="equipoise-system")
        self._evaluation = self.settings.evaluation(self.load, self.thresholds, rules)
        self._messages = LatestMessages()
        self._tracker = Tracker(self.settings.tracker)
        # The replay begins after the grace period that follows a start.
        grace_period = self.limits.startup_grace_period
        self._ledger = Ledger(created_at=self.started_at, started_at=self.started_at - grace_period)
        self.tally = MoveCounts()

    @property
    def interval(self) -> float:
        """Seconds between evaluations."""
        return self._evaluation.interval

    def on_utilization(self, message: NodeUtilization) -> None:
        self._messages.on_utilization(message, math.inf)

    def on_cycle(self, message: UtilizationCycle) -> None:
        self._messages.on_cycle(message, message.queried_at)

    def on_placement(self, message: NodePlacement) -> None:
        self.objects.on_placement(message)
        self._messages.on_placement(with_recent_pods(message, -math.inf), math.inf)

    def evaluate(self, now: float) -> None:
        """Evaluate once, and execute or refuse each intent."""
        watched, tracker = self.objects.watched(self.budgets()), self._tracker
        tracker.update(watched.pods_of(tracker.awaited_workloads()), {}, self.objects.nodes, now)
        self._update_ledger(now)
        snapshot = self._snapshot(watched, now)
        evaluation = evaluate(snapshot, self._evaluation)
        tracker.load_reductions(evaluation.cluster.nodes, self.load.shortest, now)
        proposed = [proposals(result, snapshot, self._evaluation, _EPOCH) for result in evaluation.results]
        for result in evaluation.results:
            tracker.count(result.strategy, result.classifications, now)
        for intent, move in chain.from_iterable(proposed):
            tracker.proposed(move)
            self.publish(intent)
            self._settle(intent, now)

    def _snapshot(self, watched: WatchedObjects, now: float) -> Snapshot:
        days = self.days()
        return Snapshot(
            now=now,
            watched=watched,
            nodes=self._messages.utilizations,
            workloads=LazyMapping(watched.workloads, lambda workload: self._utilization(workload, days, now)),
            cycles=self._messages.cycles.current(now),
            placements=self._messages.placements,
            pending=self._tracker.pending,
            cooldowns=self._tracker.cooldowns,
            counts=self._tracker.counts,
        )

    def _utilization(self, workload: Workload, days: Mapping[Workload, HourlyUsage], now: float) -> WorkloadUtilization:
        day = days.get(workload)
        profile = {} if day is None else dict(zip(RESOURCES, day.tolist(), strict=True))
        usage = WindowUsage(sampled_at=now, mean=self.usage_of(workload))
        return WorkloadUtilization(
            workload=workload,
            replicas=self.objects.replicas(workload),
            sampled_at=now,
            queried_at=now,
            windows={self.load.shortest.name: usage},
            profile=profile,
            epoch=1,
            sequence=1,
        )

    # the binder

    def _settle(self, intent: EvictionIntent, now: float) -> None:
        self.tally.proposed += 1
        finish = self._refusal(intent, now)
        if finish is None:
            finish = Finish(outcome=Outcome.EVICTED)
            entry = new_entry(intent, now, workload=intent.workload, expires_at=intent.expires_at, dry_run=False)
            self._ledger = self._ledger.reserve(entry, epoch=_EPOCH)
            refused = self.evict(intent)
            if refused is None:
                self._ledger = self._ledger.settle(intent.id, finish.outcome, now)
                self.tally.evicted += 1
            else:
                self._ledger = self._ledger.release(intent.id)
                finish = refused
        if finish.outcome is not Outcome.EVICTED:
            self.tally.refused[finish.limit or finish.detail] += 1
        outcome = finish.message(intent, now)
        self._tracker.on_outcome(outcome, now)
        self.publish(outcome)

    def _refusal(self, intent: EvictionIntent, now: float) -> Finish | None:
        limits = self.limits
        view = self._ledger.view(
            now, dry_run=False, migration_timeout=limits.migration_timeout, grace_period=limits.startup_grace_period
        )
        eviction = ProposedEviction(
            namespace=intent.namespace,
            node=intent.node,
            workload=intent.workload,
            replicas=0 if intent.workload is None else self.objects.replicas(intent.workload),
            unready=sum(entry.workload == intent.workload for entry in view.migrating()),
            cluster_pods=self.objects.pod_count,
        )
        return limits.refusal(eviction, view)

    def _update_ledger(self, now: float) -> None:
        """Record the replacements that run, and drop the entries that no limit needs any more."""
        unrecovered = [entry for entry in self._ledger.entries if entry.recovered_at is None]
        if unrecovered:
            running = self.objects.running()
            replaced = {
                entry.intent_id: ReplacementStatus(state="ready")
                for entry in unrecovered
                if entry.workload is None or running[entry.workload] >= self.objects.replicas(entry.workload)
            }
            self._ledger = self._ledger.with_replacements(replaced, now)
        self._ledger = self._ledger.retaining(self.limits.retention, now).pruned(now)


def paced(settings: DeschedulerSettings, tick: float) -> DeschedulerSettings:
    """The settings for a cluster that is measured only every `tick` seconds: fewer evaluations, each with more intents.

    The evaluations in a row still cover the same time, and as many pods may be proposed per time.
    """
    if tick <= settings.interval:
        return settings
    factor = tick / settings.interval
    return msgspec.structs.replace(
        settings,
        interval=Duration(tick),
        consecutive_abnormalities=max(1, round(settings.consecutive_abnormalities / factor)),
        max_intents_per_evaluation=round(settings.max_intents_per_evaluation * factor),
    )


_LONG_AGO = Condition(type="Ready", status="True", last_transition_time=datetime.fromtimestamp(0, UTC))


@dataclass(kw_only=True)
class ApiObjects:
    """What the watches of the descheduler would contain. An object is built again only when it changes."""

    replicas: Callable[[Workload], int]
    """The present number of desired replicas."""

    excluded: Callable[[Workload], Collection[str]]
    """Nodes that anti-affinity excludes for the pods of a workload."""

    all_nodes: Mapping[str, Node]
    """The nodes by name, as kube-scheduler sees them."""

    template: Callable[[str], Pod]
    """The template of a pod, by the UID of the placed pod."""

    def __post_init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._placed: dict[str, dict[str, PlacedPod]] = {}
        """The pods by node and UID."""

        self._pods: dict[str, Pod] = {}
        self._reader = PodReader()
        self._infos: dict[str, PodInfo] = {}
        self._owners: dict[Workload, list[OwnerReference]] = {}
        self._selectors: dict[Workload, LabelSelector] = {}
        """The selectors of the workloads whose pods kube-scheduler spreads by default."""

        self._replica_sets: dict[Workload, WorkloadObject] = {}
        self._namespaces: dict[str, Namespace] = {}

    @property
    def nodes(self) -> Collection[str]:
        return self._nodes.keys()

    @property
    def pod_count(self) -> int:
        return len(self._pods)

    def on_placement(self, placement: NodePlacement) -> None:
        name = placement.node
        if name not in self._nodes:
            self._nodes[name] = _ready(self.all_nodes[name])
        before = self._placed.get(name, {})
        self._placed[name] = after = {pod.uid: pod for pod in placement.pods}
        for uid in before.keys() - after.keys():
            del self._infos[uid], self._pods[uid]
        for placed in placement.pods:
            if placed is not before.get(placed.uid):
                self._pods[placed.uid] = pod = self._pod(placed, name)
                self._infos[placed.uid] = self._reader.read(pod)

    def running(self) -> Counter[Workload | None]:
        """Number of running pods by workload."""
        return Counter(
            pod.workload
            for placed in self._placed.values()
            for pod in placed.values()
            if pod.running_since is not None and not pod.terminating
        )

    def watched(self, budgets: Sequence[PodDisruptionBudget]) -> WatchedObjects:
        existing = Counter(pod.workload for placed in self._placed.values() for pod in placed.values())
        running = self.running()
        workloads = [workload for workload in existing if workload is not None]
        return WatchedObjects(
            nodes=list(self._nodes.values()),
            pods=list(self._pods.values()),
            namespaces=self._namespaces,
            budgets=budgets,
            workloads=LazyMapping(
                dict.fromkeys([*workloads, *self._replica_sets]),
                lambda workload: (
                    self._replica_sets.get(workload) or self._workload(workload, existing[workload], running[workload])
                ),
            ),
            infos=self._infos | self._restricted(workloads),
        )

    def _restricted(self, workloads: Collection[Workload]) -> dict[str, PodInfo]:
        """The pods whose nodes the anti-affinity rules of the trace restrict, with an equivalent node affinity."""
        affinity = {
            workload: _affinity_without(nodes) for workload in workloads if (nodes := tuple(self.excluded(workload)))
        }
        return {
            pod.uid: self._reader.read(_with_affinity(self._pods[pod.uid], affinity[pod.workload]))
            for placed in (self._placed.values() if affinity else ())
            for pod in placed.values()
            if pod.workload in affinity
        }

    def _pod(self, placed: PlacedPod, node: str) -> Pod:
        workload = placed.workload
        created = datetime.fromtimestamp(placed.placed_at, UTC)
        namespace = Namespace(metadata=ObjectMeta(name=placed.namespace))
        self._namespaces.setdefault(placed.namespace, namespace)
        if workload is not None and workload not in self._owners:
            reference = OwnerReference(
                api_version=f"{workload.group}/v1" if workload.group else "v1",
                kind=workload.kind,
                name=workload.name,
                controller=True,
            )
            self._owners[workload] = [reference]
        # Pods of a template share its parts, so that what is derived from a part is computed once.
        template = self.template(placed.uid)
        running_since = None if placed.running_since is None else datetime.fromtimestamp(placed.running_since, UTC)
        return Pod(
            metadata=ObjectMeta(
                name=placed.name,
                namespace=placed.namespace,
                uid=placed.uid,
                labels=template.metadata.labels,
                creation_timestamp=created,
                deletion_timestamp=created if placed.terminating else None,
                owner_references=[] if workload is None else self._owners_of(workload, template),
            ),
            # No moves to nodes with taints are planned.
            spec=msgspec.structs.replace(template.spec, node_name=node, tolerations=[]),
            status=PodStatus(
                phase="Pending" if running_since is None else "Running",
                conditions=[] if running_since is None else [_LONG_AGO],
                start_time=running_since,
                qos_class=placed.qos,
            ),
        )

    def _owners_of(self, workload: Workload, template: Pod) -> list[OwnerReference]:
        """The owners of a pod. Adds the selectors of the owners."""
        controller = template.metadata.controller
        if controller is None:
            return self._owners[workload]
        selector = LabelSelector(match_labels=template.metadata.labels)
        if controller.kind == workload.kind:
            self._selectors.setdefault(workload, selector)
            return self._owners[workload]
        key = Workload(kind=controller.kind, group="apps", namespace=workload.namespace, name=controller.name)
        if key not in self._replica_sets:
            self._replica_sets[key] = WorkloadObject(
                kind=key.kind,
                metadata=ObjectMeta(name=key.name, namespace=key.namespace, owner_references=self._owners[workload]),
                spec=WorkloadSpec(selector=selector),
            )
        return template.metadata.owner_references

    def _workload(self, workload: Workload, existing: int, running: int) -> WorkloadObject:
        return WorkloadObject(
            kind=workload.kind,
            metadata=ObjectMeta(name=workload.name, namespace=workload.namespace),
            spec=WorkloadSpec(replicas=self.replicas(workload), selector=self._selectors.get(workload)),
            status=WorkloadStatus(
                replicas=existing, ready_replicas=running, updated_replicas=existing, available_replicas=running
            ),
        )


def _ready(node: Node) -> Node:
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, conditions=[_LONG_AGO]))


def _affinity_without(nodes: Collection[str]) -> Affinity:
    rule = SelectorRequirement(key="metadata.name", operator="NotIn", values=list(nodes))
    selector = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[rule])])
    return Affinity(node_affinity=NodeAffinity(required=selector))


def _with_affinity(pod: Pod, affinity: Affinity) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=affinity))
