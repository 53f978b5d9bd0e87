"""The interface of the API server client: resources, requests, and their errors."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from equipoise.contracts.hints.definition import GROUP, KIND, PLURAL, VERSION
from equipoise.contracts.hints.hints_object import HintsObject
from equipoise.contracts.hints.webhook import CONFIGURATION_KIND, WebhookConfiguration
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND
from equipoise.contracts.kubernetes.objects.access import AccessReview, AdmissionPolicy, Role, SelfReview
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap, Event, Lease, Namespace, ResourceQuota
from equipoise.contracts.kubernetes.objects.metadata import ExplainedCondition, Object
from equipoise.contracts.kubernetes.objects.node import Node, Taint
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from equipoise.contracts.kubernetes.objects.workload import (
    CustomWorkload,
    KubernetesService,
    PodDisruptionBudget,
    Scale,
    WorkloadObject,
)
from equipoise.contracts.plain_text import plain_text
from equipoise.runtime.process.unreadable import UnreadableThings

T = TypeVar("T", bound=Object)


class Resource(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A kind of object and where the API server keeps it."""

    group: str
    version: str
    plural: str
    kind: str
    model: type[T]
    namespaced: bool = True
    subresource: str = ""
    """The subresource that is meant instead of the objects themselves, such as "scale"."""

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of an object or of the collection. Raises NotFound for a name that no object can have."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource or self.subresource) if part]
        return path_of(*parts)


def path_of(*parts: str) -> str:
    """The path with these parts. Raises NotFound for a part that would change the path.

    The API server accepts any text as the name of an owner, but not as the name of an object. Source: kubernetes v1.36,
    apimachinery, pkg/api/validation/path, IsValidPathSegmentName.
    """
    for part in parts:
        if part in (".", "..") or "/" in part or "%" in part:
            raise NotFound(404, "NotFound", f"no object has the name {plain_text(part, 100)}")
    return "".join(f"/{quote(part, safe=':=', errors='replace')}" for part in parts)


def _core(plural: str, kind: str, model: type[T], *, namespaced: bool = True) -> Resource[T]:
    return Resource(group="", version="v1", plural=plural, kind=kind, model=model, namespaced=namespaced)


NODES = _core("nodes", "Node", Node, namespaced=False)
PODS = _core("pods", "Pod", Pod)
NAMESPACES = _core("namespaces", "Namespace", Namespace, namespaced=False)
CONFIG_MAPS = _core("configmaps", "ConfigMap", ConfigMap)
CLAIMS = _core("persistentvolumeclaims", "PersistentVolumeClaim", PersistentVolumeClaim)
VOLUMES = _core("persistentvolumes", "PersistentVolume", PersistentVolume, namespaced=False)
QUOTAS = _core("resourcequotas", "ResourceQuota", ResourceQuota)
SERVICES = _core("services", "Service", KubernetesService)
SERVICE_ACCOUNTS = _core("serviceaccounts", "ServiceAccount", Object)
EVENTS = Resource(group="events.k8s.io", version="v1", plural="events", kind="Event", model=Event)
LEASES = Resource(group="coordination.k8s.io", version="v1", plural="leases", kind="Lease", model=Lease)
_RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(group=_RBAC, version="v1", plural="roles", kind="Role", model=Role)
ROLE_BINDINGS = Resource(group=_RBAC, version="v1", plural="rolebindings", kind="RoleBinding", model=Object)
CLUSTER_ROLE_BINDINGS = Resource(
    group=_RBAC, version="v1", plural="clusterrolebindings", kind="ClusterRoleBinding", model=Object, namespaced=False
)
ADMISSION_POLICIES = Resource(
    group="admissionregistration.k8s.io", version="v1", plural="validatingadmissionpolicies",
    kind="ValidatingAdmissionPolicy", model=AdmissionPolicy, namespaced=False,
)  # fmt: skip
_STORAGE = "storage.k8s.io"
STORAGE_CLASSES = Resource(
    group=_STORAGE, version="v1", plural="storageclasses", kind="StorageClass", model=StorageClass,
    namespaced=False,
)  # fmt: skip
CSI_NODES = Resource(group=_STORAGE, version="v1", plural="csinodes", kind="CSINode", model=CSINode, namespaced=False)
VOLUME_ATTACHMENTS = Resource(
    group=_STORAGE, version="v1", plural="volumeattachments", kind="VolumeAttachment", model=VolumeAttachment,
    namespaced=False,
)  # fmt: skip
BUDGETS = Resource(
    group="policy", version="v1", plural="poddisruptionbudgets", kind="PodDisruptionBudget",
    model=PodDisruptionBudget,
)  # fmt: skip
ACCESS_REVIEWS = Resource(
    group="authorization.k8s.io", version="v1", plural="subjectaccessreviews", kind="SubjectAccessReview",
    model=AccessReview, namespaced=False,
)  # fmt: skip
WEBHOOK_CONFIGURATIONS = Resource(
    group=API_GROUP, version="v1", plural="mutatingwebhookconfigurations", kind=CONFIGURATION_KIND,
    model=WebhookConfiguration, namespaced=False,
)  # fmt: skip
HINTS = Resource(group=GROUP, version=VERSION, plural=PLURAL, kind=KIND, model=HintsObject)
SELF_ACCESS_REVIEWS = msgspec.structs.replace(
    ACCESS_REVIEWS, plural="selfsubjectaccessreviews", kind="SelfSubjectAccessReview"
)

SELF_REVIEWS = Resource(
    group="authentication.k8s.io", version="v1", plural="selfsubjectreviews", kind="SelfSubjectReview",
    model=SelfReview, namespaced=False,
)  # fmt: skip


def _workloads(group: str, version: str, plural: str, kind: str) -> Resource[WorkloadObject]:
    return Resource(group=group, version=version, plural=plural, kind=kind, model=WorkloadObject)


DEPLOYMENTS = _workloads("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = _workloads("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = _workloads("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = _workloads("apps", "v1", "daemonsets", "DaemonSet")
JOBS = _workloads("batch", "v1", "jobs", "Job")
CRON_JOBS = _workloads("batch", "v1", "cronjobs", "CronJob")
REPLICATION_CONTROLLERS = _workloads("", "v1", "replicationcontrollers", "ReplicationController")
CLONE_SETS = _workloads("apps.kruise.io", "v1alpha1", "clonesets", "CloneSet")
ROLLOUTS = _workloads("argoproj.io", "v1alpha1", "rollouts", "Rollout")

WORKLOAD_RESOURCES: Mapping[tuple[str, str], Resource[WorkloadObject]] = {
    (resource.group, resource.kind): resource
    for resource in (
        DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS, REPLICATION_CONTROLLERS, CLONE_SETS,
        ROLLOUTS,
    )
}  # fmt: skip


def mutating_policies(version: str) -> Resource[Object]:
    """MutatingAdmissionPolicies, in a version that the API server serves."""
    return Resource(
        group=API_GROUP, version=version, plural="mutatingadmissionpolicies", kind=POLICY_KIND, model=Object,
        namespaced=False,
    )  # fmt: skip


def mutating_bindings(version: str) -> Resource[Object]:
    """MutatingAdmissionPolicyBindings, in a version that the API server serves."""
    return msgspec.structs.replace(
        mutating_policies(version), plural="mutatingadmissionpolicybindings", kind=f"{POLICY_KIND}Binding"
    )


def scale_of(resource: Resource[Any]) -> Resource[Scale]:
    """The desired and actual replicas, for a kind that has the scale subresource."""
    return msgspec.structs.replace(resource, kind="Scale", model=Scale, subresource="scale")


def metadata_of(resource: Resource[Any]) -> Resource[Object]:
    """The same kind, to list only the metadata of its objects."""
    return msgspec.structs.replace(resource, model=Object)


class KubeError(Exception):
    """The API server rejected the request, or was not reachable. `status` is 0 if there was no response.

    `retry_after`: seconds until the next request, as requested by the server, at most one minute.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}" if status else message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class NotFound(KubeError):
    """404."""


class Conflict(KubeError):
    """409: another client wrote first, the object already exists, or a precondition failed."""


class Forbidden(KubeError):
    """403: the ServiceAccount lacks the permission, or admission rejected the request."""


class Expired(KubeError):
    """410: the resource version is too old: list again."""


class UnreadableObject(KubeError):
    """The API server sent the object, but a part of it cannot be decoded.

    The status is 422, as for other errors that concern a single object: repeating the request at once does not help.
    """

    def __init__(self, message: str) -> None:
        super().__init__(422, "Unreadable", message)
        self.args = (message,)


_KINDS: Mapping[int, type[KubeError]] = {403: Forbidden, 404: NotFound, 409: Conflict, 410: Expired}


def error_for_status(status: int, reason: str, message: str, retry_after: float | None = None) -> KubeError:
    """The exception for the HTTP status of a response."""
    return _KINDS.get(status, KubeError)(status, reason, message, retry_after)


class Change(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One event of a watch. A bookmark has no object; `synced` marks the end of the initial list."""

    kind: Literal["added", "modified", "deleted", "bookmark"]
    object: T | None
    resource_version: str
    synced: bool = False


class EvictionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The response to an eviction. `status` is 0 without a response: the eviction may or may not have been executed."""

    status: int
    reason: str = ""
    message: str = ""
    disruption_budget: bool = False
    """Whether the cause of a 429 is a PodDisruptionBudget, not flow control."""

    budget: str = ""
    """The name of that budget, if the response contains it."""

    retry_after: float | None = None


class Kube(Protocol):
    """The interface of the real client and of `equipoise.testbed.memory.MemoryKube`; both pass the same tests.

    If the API server rejects a request or is not reachable, every method raises KubeError or a subclass of it.
    No method repeats a request later: that is the caller's decision. Only reflectors list and watch again.
    """

    @property
    def as_service_account(self) -> bool:
        """Whether requests use the token of the pod's ServiceAccount, not a kubeconfig."""
        ...

    @property
    def unreadable(self) -> UnreadableThings:
        """Objects that were received and cannot be read, by the plural of their kind and `namespace/name`."""
        ...

    @property
    def problem(self) -> str:
        """Why all requests of the last minute or longer have failed; empty after any success."""
        ...

    async def server_version(self) -> str:
        """The version of the API server: v1.30.1-gke.200."""
        ...

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Reads an object. Raises NotFound, and UnreadableObject."""
        ...

    async def list(
        self, resource: Resource[T], namespace: str = "", label_selector: str = "", *, field_selector: str = ""
    ) -> list[T]:
        """All objects of a small collection; use a Reflector for large ones.

        Here, in `pages` and in `watch`, an object that cannot be decoded has `metadata.unreadable`.
        """
        ...

    def pages(self, resource: Resource[T]) -> AsyncGenerator[Sequence[T], None]:
        """Reads a large collection once, some hundred objects at a time; raises Expired if that takes minutes."""
        ...

    def watch(
        self, resource: Resource[T], *, since: str = "", namespace: str = "", field_selector: str = ""
    ) -> AsyncGenerator[Change[T], None]:
        """Changes after version `since`. Without `since`: first all objects, then a bookmark that is `synced`.

        Ends normally when the server ends it; raises Expired when `since` is too old. If you stop early, close it
        (`aclosing`); otherwise its connection remains open.
        """
        ...

    async def find_scalable(self, group: str, kind: str) -> Resource[CustomWorkload] | None:
        """Discovers a namespaced kind in the preferred version of the group; None if it has no scale subresource."""
        ...

    async def served_versions(self, group: str, kind: str) -> Sequence[str]:
        """Discovers the versions of the group with this kind; empty if the API server does not know the kind."""
        ...

    async def create(self, resource: Resource[T], value: T, *, dry_run: bool = False) -> T:
        """Creates an object. Raises Conflict if it exists. A dry run is validated and admitted, but not stored."""
        ...

    async def replace(self, resource: Resource[T], value: T) -> T:
        """Writes if the object still has `value.metadata.resource_version`; otherwise raises Conflict.

        Fields that the model does not contain are lost: use this only for objects of Equipoise (Leases, ledger,
        approvals). Raises UnreadableObject for an object that was not decoded completely.
        """
        ...

    async def annotate(
        self,
        resource: Resource[T],
        name: str,
        annotations: Mapping[str, str | None],
        *,
        namespace: str = "",
        uid: str = "",
        version: str = "",
        expected: Mapping[str, str] | None = None,
    ) -> None:
        """Patches exactly these annotations; None removes one.

        Raises Conflict if the object does not have this `uid`, this `version` (resourceVersion), or these `expected`
        annotations. With `expected`, other changes of the object are allowed.
        """
        ...

    async def relabel(
        self,
        resource: Resource[T],
        name: str,
        labels: Mapping[str, str | None],
        annotations: Mapping[str, str | None],
        *,
        namespace: str,
        uid: str,
        version: str,
        within: float,
    ) -> None:
        """Patches exactly these labels and annotations; None removes one.

        Raises Conflict if the object does not have this `uid` and this `version` (resourceVersion). `within`: seconds
        after which the request is no longer sent.
        """
        ...

    async def set_node_amounts(self, name: str, amounts: Mapping[str, int | None], *, uid: str) -> None:
        """Patches these amounts in the status of a node, as capacity and as allocatable; None removes one.

        Raises Conflict if the node does not have this `uid`.
        """
        ...

    async def set_taint(self, node: Node, taint: Taint, *, present: bool) -> None:
        """Adds a taint to a node, or removes it, and changes no other taint. Taints are identified by key and effect.

        Raises Conflict if the node is not as it was read (`node`: its UID and resourceVersion), and UnreadableObject
        for one that was not decoded completely.
        """
        ...

    async def bind(self, namespace: str, name: str, node: str, *, uid: str) -> None:
        """Binds a pod to a node (POST pods/binding). Raises NotFound, and Conflict if the pod has a node or does not
        have this `uid`."""
        ...

    async def set_pod_status(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        condition: ExplainedCondition | None = None,
        nominated_node: str | None = None,
    ) -> None:
        """Patches the condition of this type, and status.nominatedNodeName, which "" removes. None changes nothing.

        Raises Conflict if the pod does not have this `uid`.
        """
        ...

    async def reserve_volume(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Sets spec.claimRef of the volume: kube-controller-manager then binds the claim to it.

        Raises Conflict if the volume has changed since it was read.
        """
        ...

    async def delete(self, resource: Resource[T], name: str, namespace: str = "", *, uid: str) -> None:
        """Deletes an object, a pod with its own grace period. Raises NotFound, and Conflict if it has another `uid`."""
        ...

    async def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        dry_run: bool,
        grace_period: int | None = None,
        within: float | None = None,
    ) -> EvictionResult:
        """Evicts a pod (POST pods/eviction with preconditions.uid). Returns every response, also one that is an error.

        `within`: seconds after which the request is no longer sent, for example because the connection takes long.
        """
        ...

    def server_time(self, now: float) -> float:
        """The API server's time at local time `now`, estimated from the Date headers of its responses."""
        ...

    def server_time_bounds(self, now: float) -> tuple[float, float]:
        """The earliest and the latest that the API server's time can be at local time `now`."""
        ...


async def find(kube: Kube, resource: Resource[T], name: str, namespace: str = "") -> T | None:
    """The object; None: there is no object of this name, or the cluster does not have its kind. Raises KubeError."""
    try:
        return await kube.get(resource, name, namespace)
    except NotFound:
        return None
