"""The objects that the watches of the descheduler contain in a replay. Times are Unix seconds."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

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
    DeploymentStrategy,
    PodDisruptionBudget,
    RollingUpdateOfDeployment,
    WorkloadObject,
    WorkloadSpec,
    WorkloadStatus,
)
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.descheduler.decisions.evaluation.snapshot import WatchedObjects
from equipoise.descheduler.state.lazy import LazyMapping
from equipoise.scheduling.model.pod_info import PodInfo, PodReader

_LONG_AGO = Condition(type="Ready", status="True", last_transition_time=datetime.fromtimestamp(0, UTC))

_STRATEGY = DeploymentStrategy(type="RollingUpdate", rolling_update=RollingUpdateOfDeployment(max_surge="25%"))
"""The strategy of Deployments that do not state another one, which a trace does not contain."""


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
        self._restricted_pods: dict[str, tuple[Pod, tuple[str, ...], PodInfo]] = {}
        """Pods by UID: each with the nodes that are excluded for it, and itself with an affinity that excludes them."""

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
            if pod.running_since is not None and _is_replica(pod)
        )

    def pod(self, uid: str) -> Pod | None:
        """A pod on a node; None if there is none."""
        return self._pods.get(uid)

    def replicas_on_nodes(self, workload: Workload) -> list[Pod]:
        """The pods on nodes of the ReplicaSets of a Deployment. A detached pod belongs to none of them."""
        return [
            self._pods[pod.uid]
            for placed in self._placed.values()
            for pod in placed.values()
            if pod.workload == workload and not pod.detached
        ]

    def deployment(self, workload: Workload) -> WorkloadObject:
        """The Deployment, without its status."""
        return self._workload(workload, 0, 0)

    def replica_set(self, workload: Workload, name: str) -> WorkloadObject | None:
        """The ReplicaSet of a Deployment; None if no pod of it was ever on a node."""
        return self._replica_sets.get(_replica_set_key(workload, name))

    def watched(self, budgets: Sequence[PodDisruptionBudget]) -> WatchedObjects:
        existing = Counter(
            pod.workload for placed in self._placed.values() for pod in placed.values() if _is_replica(pod)
        )
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
        """The pods whose nodes the anti-affinity rules of the trace restrict, with an equivalent node affinity.

        Most of them are those of the evaluation before, which are kept.
        """
        excluded = {workload: nodes for workload in workloads if (nodes := tuple(self.excluded(workload)))}
        before, self._restricted_pods = self._restricted_pods, {}
        affinity: dict[Workload, Affinity] = {}
        for placed in self._placed.values() if excluded else ():
            for uid, pod in placed.items():
                if pod.workload not in excluded:
                    continue
                nodes = excluded[pod.workload]
                unrestricted = self._pods[uid]
                known = before.get(uid)
                if known is None or known[0] is not unrestricted or known[1] != nodes:
                    rule = affinity.setdefault(pod.workload, _affinity_without(nodes))
                    known = unrestricted, nodes, self._reader.read(_with_affinity(unrestricted, rule))
                self._restricted_pods[uid] = known
        return {uid: info for uid, (_, _, info) in self._restricted_pods.items()}

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
                annotations=template.metadata.annotations,
                creation_timestamp=created,
                deletion_timestamp=created if placed.terminating else None,
                owner_references=[] if workload is None or placed.detached else self._owners_of(workload, template),
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
        key = _replica_set_key(workload, controller.name)
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
            spec=WorkloadSpec(
                replicas=self.replicas(workload), selector=self._selectors.get(workload), strategy=_STRATEGY
            ),
            status=WorkloadStatus(
                replicas=existing, ready_replicas=running, updated_replicas=existing, available_replicas=running
            ),
        )


def _is_replica(pod: PlacedPod) -> bool:
    """Whether a ReplicaSet counts the pod as one of its own."""
    return not pod.terminating and not pod.detached


def _replica_set_key(workload: Workload, name: str) -> Workload:
    return Workload(kind="ReplicaSet", group="apps", namespace=workload.namespace, name=name)


def _ready(node: Node) -> Node:
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, conditions=[_LONG_AGO]))


def _affinity_without(nodes: Collection[str]) -> Affinity:
    rule = SelectorRequirement(key="metadata.name", operator="NotIn", values=list(nodes))
    selector = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[rule])])
    return Affinity(node_affinity=NodeAffinity(required=selector))


def _with_affinity(pod: Pod, affinity: Affinity) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, affinity=affinity))
