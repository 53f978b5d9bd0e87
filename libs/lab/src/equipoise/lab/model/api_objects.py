"""The objects of the API server in a replay, derived from its placement messages. Times: Unix seconds."""

from collections import Counter
from collections.abc import Callable, Collection
from datetime import UTC, datetime

import msgspec

from equipoise.contracts.fit import FitPod, placed_node
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.kubernetes.objects import NodeSelector, NodeSelectorTerm, Pod, SelectorRequirement
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.descheduler.decisions.evaluation.snapshot import WatchedObjects
from equipoise.descheduler.state.lazy import LazyMapping

_LONG_AGO = objects.Condition(type="Ready", status="True", last_transition_time=datetime.fromtimestamp(0, UTC))


class ApiObjects:
    """What the watches of the descheduler would contain. An object is built again only when it changes."""

    def __init__(
        self,
        *,
        replicas: Callable[[Workload], int],
        excluded: Callable[[Workload], Collection[str]],
    ) -> None:
        """`replicas`: desired replicas; `excluded`: nodes that anti-affinity excludes for the pods of a workload."""
        self._replicas = replicas
        self._excluded = excluded
        self._nodes: dict[str, objects.Node] = {}
        self._placed: dict[str, dict[str, PlacedPod]] = {}
        """By node and UID."""

        self._pods: dict[str, Pod] = {}
        self._fits: dict[str, FitPod] = {}
        self._owners: dict[Workload, list[objects.OwnerReference]] = {}
        self._namespaces: dict[str, objects.Namespace] = {}

    @property
    def nodes(self) -> Collection[str]:
        return self._nodes.keys()

    @property
    def pod_count(self) -> int:
        return len(self._pods)

    def on_placement(self, placement: NodePlacement) -> None:
        name = placement.node
        if name not in self._nodes:
            self._nodes[name] = _node(placement)
        before = self._placed.get(name, {})
        self._placed[name] = after = {pod.uid: pod for pod in placement.pods}
        for uid in before.keys() - after.keys():
            del self._fits[uid], self._pods[uid]
        for fit, placed in zip(placed_node(placement).pods, placement.pods, strict=True):
            if placed is not before.get(placed.uid):
                self._fits[placed.uid] = fit
                self._pods[placed.uid] = self._pod(placed, name)

    def running(self) -> Counter[Workload | None]:
        """Number of running pods by workload."""
        return Counter(
            pod.workload
            for placed in self._placed.values()
            for pod in placed.values()
            if pod.running_since is not None and not pod.terminating
        )

    def watched(self) -> WatchedObjects:
        existing = Counter(pod.workload for placed in self._placed.values() for pod in placed.values())
        running = self.running()
        workloads = [workload for workload in existing if workload is not None]
        return WatchedObjects(
            nodes=list(self._nodes.values()),
            pods=list(self._pods.values()),
            namespaces=self._namespaces,
            workloads=LazyMapping(
                workloads, lambda workload: self._workload(workload, existing[workload], running[workload])
            ),
            fits=self._fits | self._restricted_fits(workloads),
        )

    def _restricted_fits(self, workloads: Collection[Workload]) -> dict[str, FitPod]:
        """The trace's rules of anti-affinity, as an affinity that excludes the nodes that they exclude now."""
        affinity = {workload: _not_on(nodes) for workload in workloads if (nodes := tuple(self._excluded(workload)))}
        return {
            pod.uid: msgspec.structs.replace(self._fits[pod.uid], node_affinity=affinity[pod.workload])
            for placed in (self._placed.values() if affinity else ())
            for pod in placed.values()
            if pod.workload in affinity
        }

    def _pod(self, placed: PlacedPod, node: str) -> Pod:
        workload = placed.workload
        created = datetime.fromtimestamp(placed.placed_at, UTC)
        self._namespaces.setdefault(
            placed.namespace, objects.Namespace(metadata=objects.ObjectMeta(name=placed.namespace))
        )
        if workload is not None and workload not in self._owners:
            reference = objects.OwnerReference(
                api_version=f"{workload.group}/v1" if workload.group else "v1",
                kind=workload.kind,
                name=workload.name,
                controller=True,
            )
            self._owners[workload] = [reference]
        since = None if placed.running_since is None else datetime.fromtimestamp(placed.running_since, UTC)
        return Pod(
            metadata=objects.ObjectMeta(
                name=placed.name,
                namespace=placed.namespace,
                uid=placed.uid,
                creation_timestamp=created,
                deletion_timestamp=created if placed.terminating else None,
                owner_references=[] if workload is None else self._owners[workload],
            ),
            spec=objects.PodSpec(node_name=node, priority=placed.priority),
            status=objects.PodStatus(
                phase="Pending" if since is None else "Running",
                conditions=[] if since is None else [_LONG_AGO],
                start_time=since,
                qos_class=placed.qos,
            ),
        )

    def _workload(self, workload: Workload, existing: int, running: int) -> objects.WorkloadObject:
        return objects.WorkloadObject(
            kind=workload.kind,
            metadata=objects.ObjectMeta(name=workload.name, namespace=workload.namespace),
            spec=objects.WorkloadSpec(replicas=self._replicas(workload)),
            status=objects.WorkloadStatus(
                replicas=existing, ready_replicas=running, updated_replicas=existing, available_replicas=running
            ),
        )


def _node(placement: NodePlacement) -> objects.Node:
    allocatable = {
        "cpu": f"{placement.allocatable.cpu or 0.0:f}",
        "memory": f"{placement.allocatable.memory or 0.0:.0f}",
        "pods": str(placement.pod_capacity),
    }
    return objects.Node(
        metadata=objects.ObjectMeta(name=placement.node, uid=placement.uid, labels=placement.labels),
        spec=objects.NodeSpec(taints=placement.taints),
        status=objects.NodeStatus(allocatable=allocatable, conditions=[_LONG_AGO]),
    )


def _not_on(nodes: Collection[str]) -> NodeSelector:
    rule = SelectorRequirement(key="metadata.name", operator="NotIn", values=list(nodes))
    return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[rule])])
