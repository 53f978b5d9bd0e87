"""The lifecycle of pods in a replay: created, scheduled, started, evicted, deleted. Times are seconds of the trace."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.lab.model.cluster_usage import ClusterUsage
from equipoise.lab.model.event_queue import EventQueue
from equipoise.lab.model.stock.pod_template import PodTemplate, pod_template
from equipoise.lab.model.trace import Trace
from equipoise.lab.simulated_collector import SimulatedCollector, limits_of, requests_of

_LONG_AGO = 10 * 86_400.0
"""Age of the pods at the start of a replay: older than every window."""


class Scheduling(Protocol):
    """Schedules pods and tracks the requested resources of each node."""

    def choose(self, template: PodTemplate, pod: PodDemand, now: float) -> int | None: ...
    def choose_alone(self, template: PodTemplate) -> int | None: ...
    def place(self, template: PodTemplate, node: int) -> None: ...
    def terminate(self, template: PodTemplate, node: int) -> None: ...
    def remove(self, template: PodTemplate, node: int) -> None: ...


class SimulatedPod(msgspec.Struct, kw_only=True):
    """A pod that exists."""

    number: int
    template: PodTemplate
    uid: str
    created_at: float
    node: int = -1
    known: PlacedPod
    """The pod in placement messages."""

    when_running: list[Callable[[float], None]] = []

    @property
    def terminating(self) -> bool:
        return self.known.terminating


class SimulatedCluster:
    """API server, controllers and kubelets, as far as they affect placement."""

    def __init__(
        self,
        trace: Trace,
        usage: ClusterUsage,
        collector: SimulatedCollector,
        scheduling: Scheduling,
        events: EventQueue,
        publish: Callable[[NodePlacement, float], None],
        *,
        origin: float,
        start_up: float = 10.0,
        grace: float = 30.0,
    ) -> None:
        """`publish` receives every changed placement.

        `start_up`: seconds until a pod runs; `grace`: until it is deleted.
        """
        self._trace = trace
        self._usage = usage
        self._collector = collector
        self._scheduling = scheduling
        self._events = events
        self._publish = publish
        self._origin = origin
        self._start_up = start_up
        self._grace = grace
        self._nodes = {node.name: number for number, node in enumerate(trace.nodes)}
        self._workloads = collector.workloads
        self._templates = [pod_template(workload, number) for number, workload in enumerate(trace.workloads)]
        self._requests = [requests_of(workload) for workload in trace.workloads]
        self._limits = [limits_of(workload) for workload in trace.workloads]
        self._alive: dict[int, dict[str, SimulatedPod]] = defaultdict(dict)
        """By workload and UID, oldest first."""

        self._desired: Counter[int] = Counter()
        """Desired replicas by workload."""

        self.pods: dict[str, SimulatedPod] = {}
        self._pending: deque[SimulatedPod] = deque()

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

    @property
    def placed(self) -> list[tuple[int, int]]:
        """Workload and node of every pod on a node."""
        return [(pod.template.workload, pod.node) for pod in self.pods.values() if pod.node >= 0]

    # initial placement

    def run_on(self, workload: int, node: str, now: float) -> None:
        """Add a pod that has been running on this node for a long time."""
        self._desired[workload] += 1
        self._run(self._new(workload, now - _LONG_AGO), self._nodes[node], now)

    def create_alone(self, workload: int, now: float) -> None:
        """Add a pod that kube-scheduler placed long ago, without Equipoise."""
        self._desired[workload] += 1
        pod = self._new(workload, now - _LONG_AGO)
        node = self._scheduling.choose_alone(pod.template)
        if node is None:
            self._pending.append(pod)
        else:
            self._run(pod, node, now)

    def _run(self, pod: SimulatedPod, node: int, now: float) -> None:
        pod.node = node
        self._scheduling.place(pod.template, node)
        self._usage.start(pod.number, node, now)
        pod.known = msgspec.structs.replace(pod.known, running_since=pod.known.placed_at)
        self._collector.on_placed(node, pod.known)

    # events

    def scale_up(self, workload: int, now: float) -> None:
        """Scale the workload up by one."""
        self._desired[workload] += 1
        self._create(workload, now)

    def _create(self, workload: int, now: float) -> SimulatedPod:
        """Create and schedule a pod."""
        pod = self._new(workload, now)
        self._schedule(pod, now)
        return pod

    def roll_out(self, workload: int, now: float) -> None:
        """Start a rollout: new pods belong to a new ReplicaSet."""
        template = self._templates[workload]
        self._templates[workload] = pod_template(
            self._trace.workloads[workload], workload, revision=template.revision + 1
        )

    def replace_oldest(self, workload: int, now: float) -> None:
        """One step of a rollout: create a pod; when it runs, delete the oldest one if there are too many."""
        new = self._create(workload, now)
        new.when_running.append(lambda then: self._shrink(workload, then))

    def _active(self, workload: int) -> list[SimulatedPod]:
        return [pod for pod in self._alive[workload].values() if not pod.terminating]

    def _shrink(self, workload: int, now: float) -> None:
        active = self._active(workload)
        if len(active) > self._desired[workload]:
            self.remove(active[0], now)

    def remove_youngest(self, workload: int, now: float) -> None:
        """Scale the workload down by one."""
        self._desired[workload] -= 1
        if active := self._active(workload):
            self.remove(active[-1], now)

    def evict(self, pod: SimulatedPod, now: float) -> None:
        """Delete the pod. Its controller creates a replacement at once if one is missing."""
        self.remove(pod, now)
        workload = pod.template.workload
        if len(self._active(workload)) < self._desired[workload]:
            self._create(workload, now)

    def remove(self, pod: SimulatedPod, now: float) -> None:
        """Delete the pod, with its grace period."""
        if pod.terminating or pod.uid not in self.pods:
            return
        if pod.node < 0:
            self._pending.remove(pod)
            self._forget(pod)
            return
        self._scheduling.terminate(pod.template, pod.node)
        self._change(pod, now, terminating=True)
        self._events.at(now + self._grace, lambda then: self._gone(pod, then))

    def retry(self, now: float) -> None:
        """Schedule pending pods again, in the order of their creation."""
        for _ in range(len(self._pending)):
            self._schedule(self._pending.popleft(), now)

    # implementation

    def _new(self, workload: int, created_at: float) -> SimulatedPod:
        number = self._usage.add_pod(workload)
        owner = self._workloads[workload]
        known = PlacedPod(
            uid=f"pod-{number}",
            namespace=owner.namespace,
            name=f"{owner.name}-{number}",
            workload=owner,
            placed_at=self._origin + created_at,
            qos="Burstable",
            requests=self._requests[workload],
            limits=self._limits[workload],
        )
        pod = SimulatedPod(
            number=number, template=self._templates[workload], uid=known.uid, created_at=created_at, known=known
        )
        self._alive[workload][pod.uid] = pod
        self.pods[pod.uid] = pod
        return pod

    def _schedule(self, pod: SimulatedPod, now: float) -> None:
        node = self._scheduling.choose(pod.template, _demand(pod), now)
        if node is None:
            self._pending.append(pod)
            return
        pod.node = node
        self._scheduling.place(pod.template, node)
        self._change(pod, now, placed_at=self._origin + now)
        self._events.at(now + self._start_up, lambda then: self._started(pod, then))

    def _started(self, pod: SimulatedPod, now: float) -> None:
        if pod.uid not in self.pods or pod.terminating:
            return
        self._usage.start(pod.number, pod.node, now)
        self._change(pod, now, running_since=self._origin + now)
        for action in pod.when_running:
            action(now)

    def _gone(self, pod: SimulatedPod, now: float) -> None:
        self._usage.stop(pod.number, now)
        self._scheduling.remove(pod.template, pod.node)
        self._collector.on_gone(pod.node, pod.uid, now)
        self._publish_placement(pod.node, now)
        self._forget(pod)
        if self._pending:
            self.retry(now)

    def _forget(self, pod: SimulatedPod) -> None:
        del self.pods[pod.uid], self._alive[pod.template.workload][pod.uid]

    def _publish_placement(self, node: int, now: float) -> None:
        self._publish(self._collector.placement(node, now), now)

    def _change(self, pod: SimulatedPod, now: float, **fields: float | bool) -> None:
        pod.known = msgspec.structs.replace(pod.known, **fields)
        self._collector.on_placed(pod.node, pod.known)
        self._publish_placement(pod.node, now)


def _demand(pod: SimulatedPod) -> PodDemand:
    known = pod.known
    return PodDemand(
        namespace=known.namespace,
        name=known.name,
        uid=known.uid,
        workload=known.workload,
        qos=known.qos,
        requests=known.requests,
        limits=known.limits,
    )
