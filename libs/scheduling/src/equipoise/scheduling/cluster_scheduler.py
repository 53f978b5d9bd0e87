"""A cluster in memory with a scheduler. It decides what kube-scheduler would do with a pod."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from equipoise.contracts.kubernetes.nodes.occupied_nodes import FINISHED
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from equipoise.contracts.kubernetes.objects.workload import (
    KubernetesService,
    PodDisruptionBudget,
    ReplicationController,
    WorkloadObject,
)
from equipoise.contracts.unreadable.lenient_decoding import as_accepted
from equipoise.scheduling.configuration import SchedulerConfiguration, default_configuration
from equipoise.scheduling.framework.nominated import Nominated
from equipoise.scheduling.framework.waiting_pods import WaitingPods
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.model.volumes import ClaimKey, Volumes, claim_key
from equipoise.scheduling.model.workloads import ObjectKey, SpreadSelectors
from equipoise.scheduling.plugins.handle import Handle
from equipoise.scheduling.plugins.table import Factory
from equipoise.scheduling.profile import build_frameworks
from equipoise.scheduling.scheduler import Decision, Extender, RandomNumbers, Scheduler

KINDS: Mapping[str, type[Object]] = {
    "Node": Node,
    "Pod": Pod,
    "Namespace": Namespace,
    "PodDisruptionBudget": PodDisruptionBudget,
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "PersistentVolume": PersistentVolume,
    "StorageClass": StorageClass,
    "CSINode": CSINode,
    "VolumeAttachment": VolumeAttachment,
    "Service": KubernetesService,
    "ReplicaSet": WorkloadObject,
    "StatefulSet": WorkloadObject,
    "ReplicationController": ReplicationController,
}
"""The kinds of objects that affect where pods run. Objects of other kinds are ignored."""

T = TypeVar("T", bound=Object)

_NONE: Mapping[str, Factory] = {}


def _read(document: Mapping[str, Any], kind: type[T]) -> T:
    """Reads a manifest. Like the API server, accepts numbers as quantities, and null for absent fields."""
    try:
        return msgspec.convert(as_accepted(document), kind, strict=False)
    except RecursionError:
        raise ValueError("the manifest is nested too deeply") from None


def read_pod(document: Mapping[str, Any]) -> PodInfo:
    """Reads a pod from a manifest. Raises msgspec.ValidationError or ValueError if it cannot be read."""
    return PodInfo(_read(document, Pod))


class ClusterScheduler:
    """A cluster to which objects are added in any order, and the schedulers of its profiles."""

    def __init__(
        self,
        random: RandomNumbers,
        configuration: SchedulerConfiguration | None = None,
        registered: Mapping[str, Factory] = _NONE,
        *,
        measure: Callable[[str, str, Callable[[], Any]], Any] | None = None,
        may_preempt: Callable[[PodInfo], bool] = lambda pod: True,
    ) -> None:
        """`random` decides between equal nodes. `registered`: further plugins that the configuration may enable.
        `may_preempt`: see Handle.

        Raises InvalidConfiguration.
        """
        self._random = random
        self.snapshot = ClusterSnapshot()
        self.nominated = Nominated()
        self.waiting_pods = WaitingPods()
        """The pods that wait for Permit plugins. A program that binds pods adds them."""

        self.budgets: dict[ClaimKey, PodDisruptionBudget] = {}
        """The PodDisruptionBudgets, by namespace and name."""

        self._claims: dict[ClaimKey, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._csi_nodes: dict[str, CSINode] = {}
        self._attachments: dict[str, VolumeAttachment] = {}
        self._services: dict[str, dict[str, KubernetesService]] = {}
        """The Services, by namespace and name."""

        self._workloads: dict[ObjectKey, Object] = {}
        self._waiting: dict[str, PodInfo] = {}
        """Pods on a node that was not added yet, by uid."""

        handle = Handle(
            volumes=Volumes(
                claims=self._claims,
                volumes=self._volumes,
                classes=self._classes,
                csi_nodes=self._csi_nodes,
                attachments=self._attachments,
            ),
            nominated=self.nominated,
            waiting_pods=self.waiting_pods,
            budgets=lambda: list(self.budgets.values()),
            may_preempt=may_preempt,
            default_selector=SpreadSelectors(self._services, self._workloads),
            random=random.random,
        )
        configuration = configuration or default_configuration()
        self.schedulers = {
            profile.scheduler_name: Scheduler(
                framework, percentage_of_nodes_to_score=configuration.percentage_of(profile)
            )
            for profile, framework in zip(
                configuration.profiles,
                build_frameworks(configuration, handle, registered, measure=measure).values(),
                strict=True,
            )
        }
        """The schedulers of the profiles, by `schedulerName`."""

    def put_documents(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Adds or replaces objects, given as manifests or as the lists that `kubectl get -o json` prints. Objects of
        kinds that do not affect scheduling are ignored.

        Raises msgspec.ValidationError or ValueError for an object that cannot be read.
        """
        for document in filter(None, documents):  # a YAML file may have empty documents
            name = str(document.get("kind", ""))
            if name.endswith("List"):
                # The items of a list of one kind lack their kind.
                kind_of_items = {"kind": name.removesuffix("List")} if name != "List" else {}
                self.put_documents({**kind_of_items, **item} for item in document.get("items") or () if item)
            elif (kind := KINDS.get(name)) is not None:
                self.put(_read(document, kind))

    def put(self, item: Object) -> None:
        """Adds or replaces an object. Workloads need their `kind`. Raises ValueError for an invalid quantity."""
        match item:
            case Node():
                self.snapshot.put_node(item)
                for uid, pod in list(self._waiting.items()):
                    if pod.pod.spec.node_name == item.metadata.name:
                        del self._waiting[uid]
                        self.put_pod(pod)
            case Pod():
                self.put_pod(PodInfo(item))
            case Namespace():
                self.snapshot.put_namespace(item)
            case _:
                store, key = self._mapping_of(item)
                store[key] = item

    def remove(self, item: Object) -> None:
        """Removes an object, if it exists. Pods of a removed node wait until it returns."""
        match item:
            case Node():
                row = self.snapshot.row(item.metadata.name)
                if row is not None:
                    pods = list(self.snapshot.pods_on(row))
                    self.snapshot.remove_node(item.metadata.name)
                    self._waiting.update((pod.uid, pod) for pod in pods)
            case Pod():
                self.remove_pod(PodInfo(item))
            case Namespace():
                self.snapshot.namespaces.pop(item.metadata.name, None)
            case _:
                store, key = self._mapping_of(item)
                store.pop(key, None)

    def _mapping_of(self, item: Object) -> tuple[dict[Any, Any], object]:
        """The mapping that contains an object other than a node, pod or namespace, and its key in the mapping."""
        namespace, name = item.metadata.namespace, item.metadata.name
        match item:
            case PodDisruptionBudget():
                return self.budgets, (namespace, name)
            case PersistentVolumeClaim():
                return self._claims, claim_key(item)
            case PersistentVolume():
                return self._volumes, name
            case StorageClass():
                return self._classes, name
            case CSINode():
                return self._csi_nodes, name
            case VolumeAttachment():
                return self._attachments, name
            case KubernetesService():
                return self._services.setdefault(namespace, {}), name
        return self._workloads, (item.kind, namespace, name)

    def decide(self, pod: PodInfo, extenders: Sequence[Extender] = ()) -> Decision:
        """Decides about a pod. Changes only the node at which the next search begins.

        A pod with scheduling gates gets no node, and the status of the decision names the gates. Raises KeyError for a
        pod of another scheduler.
        """
        scheduler = self.schedulers[pod.pod.spec.scheduler_name]
        held = scheduler.framework.pre_enqueue(pod)
        if not held.is_success:
            return Decision(status=held)
        decision = scheduler.schedule(pod, self.snapshot, self._random, nominated=self.nominated, extenders=extenders)
        for other in self.schedulers.values():
            # The profiles share the position at which the next search begins.
            other.next_start = scheduler.next_start
        return decision

    def place(self, pod: PodInfo) -> Decision:
        """Decides about the pod, and carries the decision out: puts the pod on its node, or removes its victims and
        nominates it.

        If Reserve of a plugin fails, the pod gets no node, and the status of the decision has the reason.
        """
        decision = self.decide(pod)
        preemption = decision.preemption
        if decision.node and decision.state is not None:
            framework = self.schedulers[pod.pod.spec.scheduler_name].framework
            reserved = framework.reserve(decision.state, pod, decision.node)
            if not reserved.is_success:
                return Decision(status=reserved, diagnosis=decision.diagnosis)
            row = self.snapshot.row(decision.node)
            assert row is not None
            self.nominated.remove(pod)
            self.snapshot.add_pod(pod, row)
        elif preemption is not None and preemption.node:
            row = self.snapshot.row(preemption.node)
            assert row is not None
            for victim in preemption.victims:
                self.snapshot.remove_pod(victim, row)
            self.nominated.preempt(pod, preemption.node)
        elif preemption is not None and preemption.clear_nomination:
            self.nominated.remove(pod)
        return decision

    def put_pod(self, pod: PodInfo) -> None:
        """Adds a pod. A changed pod replaces the pod with the same uid on this node."""
        if pod.pod.status.phase in FINISHED:
            self.remove_pod(pod)
            return
        self.nominated.remove(pod)
        if not pod.pod.spec.node_name:
            if pod.pod.status.nominated_node_name:
                self.nominated.add(pod, pod.pod.status.nominated_node_name)
            return
        row = self.snapshot.row(pod.pod.spec.node_name)
        if row is None:
            self._waiting[pod.uid] = pod
        else:
            self._waiting.pop(pod.uid, None)
            self.snapshot.put_pod(pod, row)

    def pod(self, uid: str, node: str) -> PodInfo | None:
        """The pod with this uid on this node; None if there is none."""
        row = self.snapshot.row(node)
        return None if row is None else self.snapshot.pod(uid, row)

    def remove_pod(self, pod: PodInfo) -> None:
        """Removes the pod from its node. Does nothing if it is not there."""
        self._waiting.pop(pod.uid, None)
        self.nominated.remove(pod)
        row = self.snapshot.row(pod.pod.spec.node_name)
        if row is not None and self.snapshot.has_pod(pod, row):
            self.snapshot.remove_pod(pod, row)
