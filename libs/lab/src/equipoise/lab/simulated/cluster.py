"""The lifecycle of pods in a replay: created, scheduled, started, evicted, deleted. Times are seconds of the trace."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from equipoise.binder.decisions.result import Finish
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.lab.model.cluster_objects import detached
from equipoise.lab.model.cluster_usage import ClusterUsage
from equipoise.lab.model.disruption_budgets import PodCounts, budget_object, refused_eviction
from equipoise.lab.model.event_queue import EventQueue
from equipoise.lab.model.replicas.replica_gaps import ReplicaGaps
from equipoise.lab.model.replicas.replica_set import RankedPod, pods_to_delete
from equipoise.lab.model.trace import Trace, TraceBudget
from equipoise.lab.schedulers import Choice, SimulatedScheduler
from equipoise.lab.simulated.collector import SimulatedCollector, limits_of, requests_of
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scorer.decisions.demand import demand_of_placed

_LONG_AGO = 10 * 86_400.0
"""Age of the pods at the start of a replay: older than every window."""

_START_UP, _GRACE = 10.0, 30.0
"""Seconds until a pod runs, and until it is deleted."""


class SimulatedPod(msgspec.Struct, kw_only=True):
    """A pod that exists."""

    number: int
    workload: int
    scheduled: PodInfo
    """The pod for kube-scheduler."""

    attached: PodInfo
    """The same as a pod of its ReplicaSet, also while it is detached."""

    deletion_cost: int = 0
    node: int = -1
    known: PlacedPod
    """The pod in placement messages."""

    created_at: float
    """Unix seconds."""

    beside: bool = False
    """Whether it replaces a pod that runs on until this one is ready."""

    when_running: list[Callable[[float], None]] = []

    @property
    def uid(self) -> str:
        return self.known.uid

    @property
    def terminating(self) -> bool:
        return self.known.terminating

    @property
    def healthy(self) -> bool:
        """Ready and not terminating."""
        return self.known.running_since is not None and not self.known.terminating


@dataclass
class SimulatedCluster:
    """API server, controllers and kubelets, as far as they affect placement."""

    trace: Trace
    usage: ClusterUsage
    collector: SimulatedCollector
    scheduling: SimulatedScheduler
    events: EventQueue
    publish: Callable[[NodePlacement, float], None]
    """Receives every changed placement."""

    origin: float = field(kw_only=True)
    received: bool = field(default=True, kw_only=True)
    """Whether anybody receives what is published."""

    pods: dict[str, SimulatedPod] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._nodes = {node.name: number for number, node in enumerate(self.trace.nodes)}
        self._templates = [self.scheduling.template(number) for number in range(len(self.trace.workloads))]
        self._revisions: Counter[int] = Counter()
        """The number of the newest revision, by workload."""

        self._alive: dict[int, dict[str, SimulatedPod]] = defaultdict(dict)
        """The pods that exist, by workload and UID, oldest first."""

        self._desired: Counter[int] = Counter()
        """Desired replicas by workload."""

        self._budgets: defaultdict[int, list[TraceBudget]] = defaultdict(list)
        """The budgets, by workload."""

        for budget in self.trace.budgets:
            for workload in budget.workloads:
                self._budgets[workload].append(budget)
        self._pending: deque[SimulatedPod] = deque()
        self.gaps = ReplicaGaps()
        self.preempted = 0
        """Number of pods that kube-scheduler deleted for pods of higher priority."""

    @property
    def unplaced(self) -> int:
        """Number of desired pods without a node."""
        return sum(
            max(0, desired - sum(pod.node >= 0 for pod in self._active(workload)))
            for workload, desired in self._desired.items()
        )

    def replicas(self, workload: int) -> int:
        """Desired replicas."""
        return self._desired[workload]

    def template(self, workload: int) -> Pod:
        """The template of the newest revision of the workload."""
        return self._templates[workload].pod

    def refused_eviction(self, pod: SimulatedPod) -> Finish | None:
        """The outcome of an eviction that a PodDisruptionBudget does not allow; None: it is allowed.

        A pod that does not run yet may always be evicted.
        """
        return refused_eviction(pod.scheduled, self.scheduling.budgets) if pod.healthy else None

    # initial placement

    def run_on(self, workload: int, node: str, now: float) -> None:
        """Add a pod that has been running on this node for a long time."""
        self._desired[workload] += 1
        self._run(self._new(workload, now - _LONG_AGO), self._nodes[node], now)

    def create_alone(self, workload: int, now: float) -> None:
        """Add a pod that kube-scheduler placed long ago, without Equipoise."""
        self._desired[workload] += 1
        pod = self._new(workload, now - _LONG_AGO)
        choice = self.scheduling.choose_alone(pod.scheduled)
        if choice.node is None:
            self._wait(pod, choice, now)
        else:
            self._run(pod, choice.node, now)

    def _run(self, pod: SimulatedPod, node: int, now: float) -> None:
        pod.node = node
        self.scheduling.place(pod.scheduled, node)
        self.usage.start(pod.number, node, now)
        pod.known = msgspec.structs.replace(pod.known, running_since=pod.known.placed_at)
        self.collector.on_placed(node, pod.known)
        self._update_budgets(pod.workload)
        self._update_gaps(pod.workload, now)

    # events

    def scale_up(self, workload: int, now: float) -> None:
        """Scale the workload up by one."""
        self._desired[workload] += 1
        self._create(workload, now)

    def _create(self, workload: int, now: float, *, beside: bool = False) -> SimulatedPod:
        """Create and schedule a pod. `beside`: the pod that it replaces runs on."""
        pod = self._new(workload, now)
        pod.beside = beside
        self._schedule(pod, now)
        return pod

    def roll_out(self, workload: int, now: float) -> None:
        """Start a rollout: new pods belong to a new ReplicaSet."""
        self._revisions[workload] += 1
        self._templates[workload] = self.scheduling.template(workload, self._revisions[workload])

    def replace_oldest(self, workload: int, now: float) -> None:
        """One step of a rollout: create a pod; when it runs, delete the oldest one if there are too many."""
        new = self._create(workload, now)
        new.when_running.append(lambda then: self._shrink(workload, then))

    def _active(self, workload: int) -> list[SimulatedPod]:
        """The pods that the controller of the workload counts, oldest first."""
        return [pod for pod in self._alive[workload].values() if not pod.terminating and not pod.known.detached]

    def _shrink(self, workload: int, now: float) -> None:
        active = self._active(workload)
        if len(active) > self._desired[workload]:
            self.remove(active[0], now)

    def remove_youngest(self, workload: int, now: float) -> None:
        """Scale the workload down by one."""
        self._desired[workload] -= 1
        if active := self._active(workload):
            self.remove(active[-1], now)
        self._update_gaps(workload, now)

    def scale(self, workload: int, replicas: int, now: float) -> None:
        """Scale the workload as an autoscaler does. Its ReplicaSet chooses the pods that it deletes."""
        self._desired[workload] = replicas
        self._update_gaps(workload, now)
        active = self._active(workload)
        for _ in range(replicas - len(active)):
            self._create(workload, now)
        self._delete(active, len(active) - replicas, now)

    def _delete(self, pods: list[SimulatedPod], count: int, now: float) -> None:
        ranked = [
            RankedPod(
                uid=pod.uid,
                node=pod.node,
                ready_since=pod.known.running_since,
                created_at=pod.created_at,
                deletion_cost=pod.deletion_cost,
            )
            for pod in pods
        ]
        for uid in pods_to_delete(ranked, count, self.origin + now):
            self.remove(self.pods[uid], now)

    def evict(self, pod: SimulatedPod, now: float, *, preempted: bool = False) -> SimulatedPod | None:
        """Delete the pod. Its controller creates a replacement at once if one is missing, which is returned."""
        self.remove(pod, now, preempted=preempted)
        return self._replace(pod.workload, now)

    def _replace(self, workload: int, now: float, *, beside: bool = False) -> SimulatedPod | None:
        missing = len(self._active(workload)) < self._desired[workload]
        return self._create(workload, now, beside=beside) if missing else None

    def detach(self, pod: SimulatedPod, now: float) -> SimulatedPod | None:
        """Release the pod from its ReplicaSet, which creates a replacement at once if one is missing.

        The pod runs on. The replacement uses as much as a running pod from the time at which it has a node.
        """
        pod.scheduled = detached(pod.scheduled)
        self.scheduling.update(pod.scheduled, pod.node)
        self._change(pod, now, detached=True)
        return self._replace(pod.workload, now, beside=True)

    def restore(self, pod: SimulatedPod, now: float) -> None:
        """Give a detached pod back to its ReplicaSet, which deletes a pod if there is one too many."""
        pod.scheduled = pod.attached
        self.scheduling.update(pod.scheduled, pod.node)
        self._change(pod, now, detached=False)
        active = self._active(pod.workload)
        self._delete(active, len(active) - self._desired[pod.workload], now)

    def remove(self, pod: SimulatedPod, now: float, *, preempted: bool = False) -> None:
        """Delete the pod, with its grace period."""
        if pod.terminating or pod.uid not in self.pods:
            return
        if pod.node < 0:
            self._pending.remove(pod)
            self.scheduling.forget(pod.scheduled)
            self._forget(pod)
            return
        self.scheduling.terminate(pod.scheduled, pod.node, preempted=preempted)
        self._change(pod, now, terminating=True, terminates_at=self.origin + now + _GRACE)
        self.events.at(now + _GRACE, lambda then: self._gone(pod, then))

    def retry(self, now: float, *, freed: int | None = None) -> None:
        """Schedule pending pods again: higher priorities first, then in the order of their creation.

        `freed`: the only node that has changed for the better since they were tried.
        """
        waiting = sorted(self._pending, key=lambda pod: -pod.scheduled.priority)
        self._pending.clear()
        for pod in waiting:
            if freed is None or self.scheduling.may_fit(pod.scheduled, freed):
                self._schedule(pod, now)
            else:
                self._pending.append(pod)

    # implementation

    def _new(self, workload: int, created_at: float) -> SimulatedPod:
        number = self.usage.add_pod(workload)
        traced, owner = self.trace.workloads[workload], self.collector.workloads[workload]
        known = PlacedPod(
            uid=f"pod-{number}",
            namespace=owner.namespace,
            name=f"{owner.name}-{number}",
            workload=owner,
            placed_at=self.origin + created_at,
            qos="Burstable",
            requests=requests_of(traced),
            limits=limits_of(traced),
            tolerations=traced.tolerations,
            priority=traced.priority,
        )
        scheduled = self._templates[workload].replica(known.name, known.uid)
        pod = SimulatedPod(
            number=number,
            workload=workload,
            scheduled=scheduled,
            attached=scheduled,
            known=known,
            created_at=known.placed_at,
        )
        self._alive[workload][pod.uid] = pod
        self.pods[pod.uid] = pod
        self._update_budgets(workload)
        return pod

    def _schedule(self, pod: SimulatedPod, now: float) -> None:
        choice = self.scheduling.choose(pod.scheduled, demand_of_placed(pod.known), now)
        if choice.node is None:
            self._wait(pod, choice, now)
            return
        pod.node = choice.node
        self.scheduling.place(pod.scheduled, pod.node)
        if pod.beside:
            self.usage.start(pod.number, pod.node, now)
        self._change(pod, now, placed_at=self.origin + now)
        self.events.at(now + _START_UP, lambda then: self._started(pod, then))

    def _wait(self, pod: SimulatedPod, choice: Choice, now: float) -> None:
        """Makes a pod wait for a node. If it preempts other pods, these are evicted now."""
        self._pending.append(pod)
        for uid in choice.victims:
            victim = self.pods[uid]
            if not victim.terminating:
                self.preempted += 1
                self.evict(victim, now, preempted=True)

    def _started(self, pod: SimulatedPod, now: float) -> None:
        if pod.uid not in self.pods or pod.terminating:
            return
        if not pod.beside:
            self.usage.start(pod.number, pod.node, now)
        self._change(pod, now, running_since=self.origin + now)
        for action in pod.when_running:
            action(now)

    def _gone(self, pod: SimulatedPod, now: float) -> None:
        self.usage.stop(pod.number, now)
        self.scheduling.remove(pod.scheduled, pod.node)
        self.collector.on_gone(pod.node, pod.uid, now)
        self._publish_placement(pod.node, now)
        self._forget(pod)
        if self._pending:
            self.retry(now, freed=pod.node)

    def _forget(self, pod: SimulatedPod) -> None:
        del self.pods[pod.uid], self._alive[pod.workload][pod.uid]
        self._update_budgets(pod.workload)

    def _update_budgets(self, workload: int) -> None:
        """Updates the budgets of a workload whose pods changed, as the disruption controller does."""
        for budget in self._budgets.get(workload, ()):
            workloads = [self.trace.workloads[each] for each in budget.workloads]
            self.scheduling.put_budget(budget_object(budget, workloads, [*map(self._counts, budget.workloads)]))

    def _counts(self, workload: int) -> PodCounts:
        pods = self._alive[workload].values()
        return PodCounts(desired=self._desired[workload], existing=len(pods), healthy=sum(pod.healthy for pod in pods))

    def _update_gaps(self, workload: int, now: float) -> None:
        running = sum(pod.healthy for pod in self._alive[workload].values())
        self.gaps.update(workload, desired=self._desired[workload], running=running, now=now)

    def _publish_placement(self, node: int, now: float) -> None:
        if self.received:
            self.publish(self.collector.placement(node, now), now)

    def _change(self, pod: SimulatedPod, now: float, **fields: float | bool) -> None:
        pod.known = msgspec.structs.replace(pod.known, **fields)
        self.collector.on_placed(pod.node, pod.known)
        self._update_budgets(pod.workload)
        self._update_gaps(pod.workload, now)
        self._publish_placement(pod.node, now)
