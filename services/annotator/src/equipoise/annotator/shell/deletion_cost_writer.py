"""Writes deletion costs to the pods of workloads that are expected to be scaled down within the next minutes.

The pods of a workload are read first: only the API server knows their topology spread, and what other programs wrote.
Costs are written once for each scale-down that is expected. Without a scale-down they have no effect, and remain until
the next one is expected.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NoReturn

import structlog

from equipoise.annotator.decisions.annotation_target import Annotated, with_current_windows
from equipoise.annotator.decisions.deletion_costs import CostChange, changes, may_go_first, obstacle
from equipoise.annotator.decisions.deletion_order import First, NodeOutlook, deletion_order
from equipoise.annotator.decisions.scale_down import ScaleDown, expected_scale_down
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.annotator.shell.object_client import ObjectClient
from equipoise.annotator.state.scale_down_outlook import PlacedPods, PodOfWorkload, PodsOfNode, node_outlook
from equipoise.contracts.eviction.deletion_cost import DELETION_COST, RANKS
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.collection_cycles import CollectionCycles
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization
from equipoise.runtime.async_tools.batching import in_thread_if_many
from equipoise.runtime.kubernetes.client import PODS, Conflict, KubeError, NotFound
from equipoise.runtime.kubernetes.paced_requests import PacedRequests, concerns_one_object
from equipoise.runtime.process.lifecycle import Runtime

log = structlog.get_logger()

CHECK_PERIOD = 10.0
"""Seconds between two checks of all workloads."""

MAX_PODS = RANKS
"""Workloads with more pods get no costs: reading them would take longer than the time until the scale-down."""

MAX_ATTEMPTS = 3
"""Attempts to write to a pod that changes."""

KINDS = frozenset({("apps", "Deployment"), ("apps", "ReplicaSet"), ("argoproj.io", "Rollout")})
"""(group, kind) of workloads whose pods a ReplicaSet deletes."""


class DeletionCostWriter:
    """The pods of this replica's workloads."""

    def __init__(
        self,
        runtime: Runtime[AnnotatorSettings],
        first: First,
        *,
        is_ours: Callable[[str], bool],
        cycles: CollectionCycles,
        client: ObjectClient,
    ) -> None:
        """`is_ours`: whether this replica writes what has this key. `client`: its rates and results are shared."""
        self._kube, self._clock, self._health = runtime.kube, runtime.clock, runtime.health
        shared = runtime.configuration.shared
        self._load, self._namespaces, self._own_namespace = shared.load, shared.namespaces, shared.kubernetes.namespace
        self._first = first
        self._is_ours = is_ours
        self._cycles = cycles
        self._reads, self._writes, self._results = client.reads, client.writes, client.results
        self._requests = PacedRequests(runtime.clock, self._reads, self._writes)
        self._placed = PlacedPods()
        self._utilizations: dict[str, NodeUtilization] = {}
        self._workloads: dict[Workload, WorkloadUtilization] = {}
        self._finished: dict[Workload, int] = {}
        """The hour of the last scale-down for which a workload has its costs, or cannot have them."""

    def on_placement(self, placement: PodsOfNode, now: float) -> bool:
        return self._placed.on_placement(placement, now)

    def on_message(self, message: Annotated) -> None:
        """Keeps the newest message about a node or a workload."""
        match message:
            case NodeUtilization():
                self._utilizations[message.node] = message
            case WorkloadUtilization():
                self._workloads[message.workload] = message

    def forget(self, message: Annotated) -> None:
        """Forgets a node or workload that is not measured any more."""
        match message:
            case NodeUtilization():
                self._utilizations.pop(message.node, None)
            case WorkloadUtilization():
                self._workloads.pop(message.workload, None)
                self._finished.pop(message.workload, None)

    async def run(self) -> NoReturn:
        while True:
            await self._check()
            await self._clock.sleep(CHECK_PERIOD)

    async def _check(self) -> None:
        now = self._clock.now()
        due = {
            workload: expected
            for workload, message in self._workloads.items()
            if (expected := expected_scale_down(message.replicas_by_hour, message.replicas, now)) is not None
            if self._finished.get(workload) != expected.hour and self._may_write(workload)
        }
        if not due:
            return
        problem = None
        placed = await in_thread_if_many(len(self._placed.nodes), self._placed.pods_of, due)
        for workload, nodes in placed.items():
            message = self._workloads.get(workload)
            count = sum(map(len, nodes.values()))
            expected = None if message is None else expected_scale_down(message.replicas_by_hour, count, now)
            if expected is None:
                continue
            try:
                await self._write_costs(workload, nodes, expected)
                self._finished[workload] = expected.hour
            except (KubeError, TimeoutError) as error:
                result = "refused" if concerns_one_object(error) else "failed"
                self._results.labels("Pod", result).inc()
                problem = f"deletion costs of the pods of {workload} cannot be written: {error}"
            except Exception as error:  # whatever it is, the other workloads get their costs
                log.warning("unexpected error", workload=str(workload), exc_info=True)
                self._health.unreadable.add("deletion costs", str(workload), f"{type(error).__name__}: {error}")
                self._finished[workload] = expected.hour
        self._health.set_problem("deletion costs", problem)

    def _may_write(self, workload: Workload) -> bool:
        return (
            (workload.group, workload.kind) in KINDS
            and self._namespaces.allow(workload.namespace, self._own_namespace)
            and self._is_ours(f"deletion-costs/{workload.key}/{workload.namespace}/{workload.name}")
        )

    async def _write_costs(
        self, workload: Workload, nodes: Mapping[str, list[PodOfWorkload]], expected: ScaleDown
    ) -> None:
        """Reads the pods, decides, and writes. Raises KubeError and TimeoutError."""
        placed = [pod for pods in nodes.values() for pod in pods]
        if len(placed) > MAX_PODS:
            log.info("no deletion costs", workload=str(workload), reason=f"it has more than {MAX_PODS} pods")
            return
        pods = {pod.name: found for pod in placed if (found := await self._read(pod)) is not None}
        if reason := obstacle(pods.values()):
            log.info("no deletion costs", workload=str(workload), reason=reason)
            return
        outlook = {
            name: self._outlook(node, placed, pods, workload, expected)
            for name, placed in nodes.items()
            if (node := self._placed.nodes.get(name)) is not None
        }
        constraints = next(iter(pods.values())).spec.topology_spread_constraints if pods else []
        decide = partial(deletion_order, outlook, constraints, first=self._first, count=expected.pods)
        order = await in_thread_if_many(expected.pods * len(outlook), decide)
        wanted = changes(pods, order)
        written = sum([await self._write(pods[change.pod], change) for change in wanted])
        log.info("deletion costs written", workload=str(workload), pods=written, expected=expected.pods)

    def _outlook(
        self,
        node: PodsOfNode,
        placed: list[PodOfWorkload],
        pods: Mapping[str, Pod],
        workload: Workload,
        expected: ScaleDown,
    ) -> NodeOutlook:
        utilization = self._utilizations.get(node.node)
        if utilization is not None and utilization.uid == node.uid:
            now = self._clock.now()
            utilization = with_current_windows(utilization, self._load, now, self._cycles.skew(now))
        else:
            utilization = None
        candidates = [pod.name for pod in placed if pod.name in pods and may_go_first(pods[pod.name])]
        return node_outlook(
            node, candidates, workload, utilization, self._load.shortest.name, self._workloads, expected
        )

    async def _read(self, placed: PodOfWorkload | ObjectMeta) -> Pod | None:
        """None: the pod is gone, or another one has its name."""
        await self._reads.acquire(lambda: True)
        try:
            pod = await self._requests.send(self._kube.get(PODS, placed.name, placed.namespace))
        except NotFound:
            return None
        return pod if pod.metadata.uid == placed.uid and pod.metadata.deletion_timestamp is None else None

    async def _write(self, pod: Pod, change: CostChange) -> bool:
        """Whether the cost was written. A pod that changed meanwhile is read again: its kubelet writes its status."""
        metadata, before = pod.metadata, change.before
        for _ in range(MAX_ATTEMPTS):
            await self._writes.acquire(lambda: True)
            patching = self._kube.annotate(
                PODS,
                metadata.name,
                {DELETION_COST: change.cost},
                namespace=metadata.namespace,
                uid=metadata.uid,
                version=metadata.resource_version if before is None else "",
                expected=None if before is None else {DELETION_COST: before},
            )
            try:
                await self._requests.send(patching)
            except NotFound:
                break
            except Conflict:
                found = await self._read(metadata)
                if found is None or obstacle([found]):
                    break
                metadata, before = found.metadata, found.metadata.annotations.get(DELETION_COST)
                continue
            self._results.labels("Pod", "written").inc()
            return True
        self._results.labels("Pod", "gone").inc()
        return False
