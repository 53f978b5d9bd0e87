"""Kubernetes objects with only the fields that some decision reads, decoded directly from the API server's JSON.

Unknown fields are ignored, and absent or null ones get the default, so a newer API server works as well.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any

import msgspec

Time = Annotated[datetime, msgspec.Meta(tz=True)]
"""The API server writes every time with its time zone, UTC."""

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""The API server has no other integers; JSON, and so a custom resource, does."""


class ApiValue(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A part of a Kubernetes object.

    Such values have no reference cycles and are excluded from garbage collection. In a large cluster it would take a
    second to visit them, during which nothing else runs.
    """


class OwnerReference(ApiValue, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(ApiValue, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    unreadable: str = ""
    """Why a part of the object could not be decoded (`contracts.unreadable`): it is unknown. Never of the API."""

    requests_known: bool = False
    """What a pod with `unreadable` requests is known nevertheless (`contracts.unreadable.known_amounts`)."""

    @property
    def controller(self) -> OwnerReference | None:
        for owner in self.owner_references:  # called for every pod of a cluster: a generator takes twice as long
            if owner.controller:
                return owner
        return None


class Object(ApiValue, frozen=True, kw_only=True):
    """The common fields of every Kubernetes object."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Condition(ApiValue, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    last_transition_time: Time | None = None


class ExplainedCondition(Condition, frozen=True, kw_only=True):
    """A condition as it is written: with the text that people read. It is not read back, to save memory."""

    message: str = ""


def ready_condition(conditions: Iterable[Condition]) -> Condition | None:
    """The condition Ready of a node or a pod."""
    return next((condition for condition in conditions if condition.type == "Ready"), None)


def is_ready(conditions: Iterable[Condition]) -> bool:
    """Whether a node or a pod is Ready; False without the condition."""
    ready = ready_condition(conditions)
    return ready is not None and ready.status == "True"


class SelectorRequirement(ApiValue, frozen=True, kw_only=True):
    """A requirement on a label, or on a field of a node."""

    key: str
    operator: str
    values: list[str] = []


class LabelSelector(ApiValue, frozen=True, kw_only=True):
    match_labels: dict[str, str] = {}
    match_expressions: list[SelectorRequirement] = []


class Taint(ApiValue, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(ApiValue, frozen=True, kw_only=True):
    unschedulable: bool = False
    taints: list[Taint] = []


class ContainerImage(ApiValue, frozen=True, kw_only=True):
    """An image that a node has."""

    names: list[str] | None = None
    """The API server writes null for none."""

    size_bytes: Int64 = 0


class NodeAddress(ApiValue, frozen=True, kw_only=True):
    type: str = ""
    address: str = ""


class NodeStatus(ApiValue, frozen=True, kw_only=True):
    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}
    conditions: list[Condition] = []
    addresses: list[NodeAddress] = []
    images: list[ContainerImage] = []


class Node(Object, frozen=True, kw_only=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ResourceRequirements(ApiValue, frozen=True, kw_only=True):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class ContainerPort(ApiValue, frozen=True, kw_only=True):
    host_port: Int64 = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    protocol: str = "TCP"


class Container(ApiValue, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: list[ContainerPort] = []
    restart_policy: str = ""
    """The restart policy of an init container: "Always" makes it a sidecar."""


class Toleration(ApiValue, frozen=True, kw_only=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class NodeSelectorTerm(ApiValue, frozen=True, kw_only=True):
    match_expressions: list[SelectorRequirement] = []
    match_fields: list[SelectorRequirement] = []


class NodeSelector(ApiValue, frozen=True, kw_only=True):
    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredNodes(ApiValue, frozen=True, kw_only=True):
    weight: Int64 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ApiValue, frozen=True, kw_only=True):
    required: NodeSelector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)
    preferred: list[PreferredNodes] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default_factory=list
    )


class PodAffinityTerm(ApiValue, frozen=True, kw_only=True):
    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class WeightedPodAffinityTerm(ApiValue, frozen=True, kw_only=True):
    weight: Int64 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(ApiValue, frozen=True, kw_only=True):
    """The same as `high`, for the usage of production pods (by Koordinator class, else priority, else QoS class)."""

    required: list[PodAffinityTerm] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default_factory=list
    )
    preferred: list[WeightedPodAffinityTerm] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default_factory=list
    )


class Affinity(ApiValue, frozen=True, kw_only=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(ApiValue, frozen=True, kw_only=True):
    max_skew: Int64 = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: Int64 | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: list[str] = []


class ClaimSource(ApiValue, frozen=True, kw_only=True):
    claim_name: str = ""


class PersistentDisk(ApiValue, frozen=True, kw_only=True):
    """gcePersistentDisk."""

    pd_name: str = ""
    read_only: bool = False


class BlockStore(ApiValue, frozen=True, kw_only=True):
    """awsElasticBlockStore."""

    volume_id: str = msgspec.field(name="volumeID", default="")


class IscsiDisk(ApiValue, frozen=True, kw_only=True):
    iqn: str = ""
    read_only: bool = False


class RbdImage(ApiValue, frozen=True, kw_only=True):
    """An image of Ceph."""

    monitors: list[str] = []
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class ImageSource(ApiValue, frozen=True, kw_only=True):
    """An image that is mounted as a volume."""

    reference: str = ""


class Volume(ApiValue, frozen=True, kw_only=True):
    name: str = ""
    empty_dir: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None
    image: ImageSource | None = None
    gce_persistent_disk: PersistentDisk | None = None
    aws_elastic_block_store: BlockStore | None = None
    iscsi: IscsiDisk | None = None
    rbd: RbdImage | None = None

    def claim_of(self, pod: str) -> str:
        """The name of its PersistentVolumeClaim, for a pod of this name; "" when it has none."""
        if self.ephemeral is not None:
            return f"{pod}-{self.name}"
        return self.persistent_volume_claim.claim_name if self.persistent_volume_claim is not None else ""


class SchedulingGate(ApiValue, frozen=True, kw_only=True):
    name: str = ""


class SchedulingGroup(ApiValue, frozen=True, kw_only=True):
    """The PodGroup of a pod, since Kubernetes 1.36."""

    pod_group_name: str = ""


class WorkloadReference(ApiValue, frozen=True, kw_only=True):
    """The group of a pod in an object of the kind Workload, in Kubernetes 1.35."""

    name: str = ""
    pod_group: str = ""


class PodSpec(ApiValue, frozen=True, kw_only=True):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    scheduling_gates: list[SchedulingGate] = []
    containers: list[Container] | None = None
    """None only in a bookmark, which is not a Pod."""

    init_containers: list[Container] = []
    overhead: dict[str, str] = {}
    resources: ResourceRequirements | None = None
    """Pod-level resources."""

    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    priority: Int32 = 0
    priority_class_name: str = ""
    preemption_policy: str = "PreemptLowerPriority"
    volumes: list[Volume] = []
    restart_policy: str = "Always"
    resource_claims: list[dict[str, Any]] = []
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None


class ContainerStatus(ApiValue, frozen=True, kw_only=True):
    """The resources that a container has, which differ from its specification while it is resized in place."""

    name: str = ""
    resources: ResourceRequirements | None = None
    """The resources in effect; None: the kubelet has not reported them."""

    allocated_resources: dict[str, str] | None = None
    """Requests that the kubelet has reserved; None: it has not reported them."""


class PodStatus(ApiValue, frozen=True, kw_only=True):
    phase: str = ""
    conditions: list[Condition] = []
    start_time: Time | None = None
    nominated_node_name: str = ""
    qos_class: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    """Tuples: an empty one needs no memory, and most pods that are kept have nothing here."""

    resources: ResourceRequirements | None = None
    """Pod-level resources in effect; None: the kubelet has not reported them."""

    allocated_resources: dict[str, str] | None = None


class Pod(Object, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class RollingUpdate(ApiValue, frozen=True, kw_only=True):
    """The part of the update strategy of a StatefulSet."""

    partition: Int64 | None = None


class UpdateStrategy(ApiValue, frozen=True, kw_only=True):
    """The update strategy of a StatefulSet, DaemonSet or CloneSet. Fields of Deployments and Rollouts are not read."""

    type: str = ""
    rolling_update: RollingUpdate | None = None
    partition: Int64 | str | None = None
    """How many pods of a CloneSet keep the previous revision, as a number or a percentage."""

    paused: bool = False
    """Whether a CloneSet is paused."""


class WorkloadSpec(ApiValue, frozen=True, kw_only=True):
    replicas: Int64 | None = None
    selector: LabelSelector | None = None
    paused: bool = False
    """Whether a Deployment or Rollout is paused."""

    update_strategy: UpdateStrategy = UpdateStrategy()


class WorkloadStatus(ApiValue, frozen=True, kw_only=True):
    replicas: Int64 = 0
    ready_replicas: Int64 = 0
    updated_replicas: Int64 = 0
    available_replicas: Int64 = 0
    observed_generation: Int64 = 0
    current_revision: str = ""
    update_revision: str = ""
    expected_updated_replicas: Int64 | None = None
    """How many pods the partition of a CloneSet updates."""

    pause_conditions: list[dict[str, Any]] = []
    """Why a Rollout waits."""

    abort: bool = False
    """Whether a Rollout was aborted: its pods have the previous template again."""

    conditions: list[Condition] = []


class WorkloadObject(Object, frozen=True, kw_only=True):
    """Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, CloneSet, Rollout: their common fields."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class ScaleSpec(ApiValue, frozen=True, kw_only=True):
    replicas: Int64 = 0
    """The API server omits 0."""


class ScaleStatus(ApiValue, frozen=True, kw_only=True):
    replicas: Int64 = 0


class Scale(Object, frozen=True, kw_only=True):
    """autoscaling/v1: desired and actual replicas of a workload of any kind."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class CustomStatus(ApiValue, frozen=True, kw_only=True):
    """Status fields that custom workloads have by convention."""

    ready_replicas: Int64 | None = None
    observed_generation: Int64 | None = None


class CustomWorkload(Object, frozen=True, kw_only=True):
    """A workload of a kind without a model here."""

    status: CustomStatus = CustomStatus()


class PodDisruptionBudgetSpec(ApiValue, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    min_available: Int64 | str | None = None
    """A number, or a percentage such as `50%`."""

    max_unavailable: Int64 | str | None = None


class PodDisruptionBudgetStatus(ApiValue, frozen=True, kw_only=True):
    disruptions_allowed: Int64 = 0
    disrupted_pods: dict[str, str] = {}
    """The time at which an eviction was accepted, by name of the pod."""

    expected_pods: Int64 = 0
    observed_generation: Int64 = 0


class PodDisruptionBudget(Object, frozen=True, kw_only=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class NamespaceStatus(ApiValue, frozen=True, kw_only=True):
    phase: str = ""


class Namespace(Object, frozen=True, kw_only=True):
    status: NamespaceStatus = NamespaceStatus()


class KubernetesServiceSpec(ApiValue, frozen=True, kw_only=True):
    selector: dict[str, str] = {}


class KubernetesService(Object, frozen=True, kw_only=True):
    spec: KubernetesServiceSpec = KubernetesServiceSpec()


class ReplicationControllerSpec(ApiValue, frozen=True, kw_only=True):
    selector: dict[str, str] = {}


class ReplicationController(Object, frozen=True, kw_only=True):
    """Its selector is a set of labels, unlike that of newer workloads."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class ConfigMap(Object, frozen=True, kw_only=True):
    data: dict[str, str] = {}


class PolicyRule(ApiValue, frozen=True, kw_only=True):
    """A rule of a Role. Without resource names it applies to objects of every name."""

    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []
    verbs: list[str] = []


class Role(Object, frozen=True, kw_only=True):
    rules: list[PolicyRule] | None = None
    """The API server writes null when there are none."""


class PolicyValidation(ApiValue, frozen=True, kw_only=True):
    message: str = ""


class AdmissionPolicySpec(ApiValue, frozen=True, kw_only=True):
    validations: list[PolicyValidation] = []


class AdmissionPolicy(Object, frozen=True, kw_only=True):
    """ValidatingAdmissionPolicy."""

    spec: AdmissionPolicySpec = AdmissionPolicySpec()


class LeaseSpec(ApiValue, frozen=True, kw_only=True):
    holder_identity: str = ""
    lease_duration_seconds: Int64 = 0
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: Int64 = 0


class Lease(Object, frozen=True, kw_only=True):
    spec: LeaseSpec = LeaseSpec()


class ObjectReference(ApiValue, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Event(Object, frozen=True, kw_only=True, omit_defaults=False):
    """events.k8s.io/v1: `note` holds at most 1,024 bytes. Its type is always set: the API server has no default."""

    event_time: Time | None = None
    type: str = "Normal"
    reason: str = ""
    action: str = ""
    note: str = ""
    regarding: ObjectReference = ObjectReference()
    reporting_controller: str = ""
    reporting_instance: str = ""
    series: dict[str, Any] | None = None


class PersistentVolumeClaimSpec(ApiValue, frozen=True, kw_only=True):
    volume_name: str = ""
    storage_class_name: str = ""
    """Absent and empty mean the same once the API server has set a default class."""

    access_modes: list[str] = []
    resources: ResourceRequirements = ResourceRequirements()
    selector: LabelSelector | None = None
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""


class PersistentVolumeClaimStatus(ApiValue, frozen=True, kw_only=True):
    phase: str = ""


class PersistentVolumeClaim(Object, frozen=True, kw_only=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class VolumeNodeAffinity(ApiValue, frozen=True, kw_only=True):
    required: NodeSelector | None = None


class CsiVolume(ApiValue, frozen=True, kw_only=True):
    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(ApiValue, frozen=True, kw_only=True):
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str = ""
    capacity: dict[str, str] = {}
    access_modes: list[str] = []
    claim_ref: ObjectReference | None = None
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""
    csi: CsiVolume | None = None


class PersistentVolumeStatus(ApiValue, frozen=True, kw_only=True):
    phase: str = ""


class PersistentVolume(Object, frozen=True, kw_only=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologyRequirement(ApiValue, frozen=True, kw_only=True):
    """A label of nodes and the values that are allowed."""

    key: str = ""
    values: list[str] = []


class TopologyTerm(ApiValue, frozen=True, kw_only=True):
    match_label_expressions: list[TopologyRequirement] = []


class StorageClass(Object, frozen=True, kw_only=True):
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologyTerm] = []


class VolumeCount(ApiValue, frozen=True, kw_only=True):
    count: Int64 | None = None


class CSINodeDriver(ApiValue, frozen=True, kw_only=True):
    name: str = ""
    allocatable: VolumeCount | None = None


class CSINodeSpec(ApiValue, frozen=True, kw_only=True):
    drivers: list[CSINodeDriver] | None = None
    """The API server writes null for none."""


class CSINode(Object, frozen=True, kw_only=True):
    """What a node's storage drivers can attach. It has the name of the node."""

    spec: CSINodeSpec = CSINodeSpec()


class AttachmentSource(ApiValue, frozen=True, kw_only=True):
    persistent_volume_name: str = ""


class VolumeAttachmentSpec(ApiValue, frozen=True, kw_only=True):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Object, frozen=True, kw_only=True):
    """A volume that is attached to a node, or is to be."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


class ResourceAttributes(ApiValue, frozen=True, kw_only=True):
    """A verb on a resource, for an access review."""

    verb: str
    group: str = ""
    resource: str
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    """Empty: all namespaces, or a resource without namespaces."""


class AccessReviewSpec(ApiValue, frozen=True, kw_only=True):
    resource_attributes: ResourceAttributes
    user: str = ""
    """Empty: the caller."""

    groups: list[str] = []


class AccessReviewStatus(ApiValue, frozen=True, kw_only=True):
    allowed: bool = False


class AccessReview(Object, frozen=True, kw_only=True):
    """Asks the API server, by its creation, whether a user has a permission. It is not stored."""

    spec: AccessReviewSpec
    status: AccessReviewStatus = AccessReviewStatus()
