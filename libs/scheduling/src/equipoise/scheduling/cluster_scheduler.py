"""A cluster in memory, and what kube-scheduler would do with a pod: the shortest way to an answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

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
from equipoise.contracts.kubernetes.occupied_nodes import FINISHED
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
"""What decides where pods run. Objects of other kinds are ignored."""

"""Phases of pods that occupy nothing any more."""

T = TypeVar("T", bound=Object)

_NONE: Mapping[str, Factory] = {}


def _read(document: Mapping[str, Any], kind: type[T]) -> T:
    """A manifest as the API server accepts it, with numbers as quantities and null for absent."""
    try:
        return msgspec.convert(as_accepted(document), kind, strict=False)
    except RecursionError:
        raise ValueError("the manifest is nested too deeply") from None


def read_pod(document: Mapping[str, Any]) -> PodInfo:
    """Reads a pod from a manifest. Raises msgspec.ValidationError or ValueError for one that cannot be read."""
    return PodInfo(_read(document, Pod))


class ClusterScheduler:
    """Objects are put in any order; pods without a node wait for `place`."""

    def __init__(
        self,
        random: RandomNumbers,
        configuration: SchedulerConfiguration | None = None,
        registered: Mapping[str, Factory] = _NONE,
        *,
        measure: Callable[[str, str, Callable[[], Any]], Any] | None = None,
        may_preempt: Callable[[PodInfo], bool] = lambda pod: True,
    ) -> None:
        """`random` decides between equal nodes. `registered`: plugins that the configuration enables. `may_preempt`:
        see Handle.

        Raises InvalidConfiguration.
        """
        self._random = random
        self.snapshot = ClusterSnapshot()
        self.nominated = Nominated()
        self.waiting_pods = WaitingPods()
        """The pods that wait for Permit plugins; a program that binds adds them."""

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
        """Pods whose node is not known yet, by uid."""

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

        Raises msgspec.ValidationError or ValueError for one that cannot be read.
        """
        for document in filter(None, documents):  # a YAML file may have empty ones
            name = str(document.get("kind", ""))
            if name.endswith("List"):
                # The items of a list of one kind do not have it.
                own = {"kind": name.removesuffix("List")} if name != "List" else {}
                self.put_documents({**own, **item} for item in document.get("items") or () if item)
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
                store, key = self._place_of(item)
                store[key] = item

    def remove(self, item: Object) -> None:
        """Does nothing if there is none of this kind and name. Pods of a removed node wait until it returns."""
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
                store, key = self._place_of(item)
                store.pop(key, None)

    def _place_of(self, item: Object) -> tuple[dict[Any, Any], object]:
        """The mapping that holds an object which is neither a node, a pod nor a namespace, and its key there."""
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
        """What would be done with the pod. Changes nothing but the node at which the next search begins.

        A pod with scheduling gates is on no node: the status of the decision names them. Raises KeyError for a pod of
        another scheduler.
        """
        scheduler = self.schedulers[pod.pod.spec.scheduler_name]
        held = scheduler.framework.pre_enqueue(pod)
        if not held.is_success:
            return Decision(status=held)
        decision = scheduler.schedule(pod, self.snapshot, self._random, nominated=self.nominated, extenders=extenders)
        for each in self.schedulers.values():
            # All profiles search nodes in turn.
            each.next_start = scheduler.next_start
        return decision

    def place(self, pod: PodInfo) -> Decision:
        """Decides about the pod, and carries the decision out: puts the pod on its node, or removes its victims and
        nominates it.

        If Reserve of a plugin fails, the pod is put on no node: the status of the decision has the reason.
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
        """The same as `put`, for a pod. A changed pod replaces the one of its uid on this node."""
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
        """The pod with this uid on this node; None: there is none."""
        row = self.snapshot.row(node)
        return None if row is None else self.snapshot.pod(uid, row)

    def remove_pod(self, pod: PodInfo) -> None:
        """Removes the pod from its node. Does nothing if it is not there."""
        self._waiting.pop(pod.uid, None)
        self.nominated.remove(pod)
        row = self.snapshot.row(pod.pod.spec.node_name)
        if row is not None and self.snapshot.has_pod(pod, row):
            self.snapshot.remove_pod(pod, row)
