"""The pod: its containers, scheduling constraints and volumes, and its status."""

from typing import Any

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import (
    ApiValue,
    Condition,
    Int32,
    Int64,
    LabelSelector,
    Object,
    ResourceRequirements,
    Time,
)
from equipoise.contracts.kubernetes.objects.node import NodeSelector, NodeSelectorTerm


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
    """The pods near which a pod is to run; as anti-affinity, the pods away from which it is to run."""

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
    """A volume of type gcePersistentDisk."""

    pd_name: str = ""
    read_only: bool = False


class BlockStore(ApiValue, frozen=True, kw_only=True):
    """A volume of type awsElasticBlockStore."""

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
        """The name of the PersistentVolumeClaim of the volume, in a pod of this name; empty if it has none."""
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
    """The resources of the pod as a whole."""

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
    """The actual resources of a container. They differ from its specification while it is resized in place."""

    name: str = ""
    resources: ResourceRequirements | None = None
    """The resources in effect; None if the kubelet has not reported them."""

    allocated_resources: dict[str, str] | None = None
    """The requests that the kubelet has reserved; None if it has not reported them."""


class PodStatus(ApiValue, frozen=True, kw_only=True):
    phase: str = ""
    conditions: list[Condition] = []
    start_time: Time | None = None
    nominated_node_name: str = ""
    qos_class: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    """A tuple, because an empty tuple needs no memory. Most stored pods have no statuses here."""

    resources: ResourceRequirements | None = None
    """The resources of the pod as a whole in effect; None if the kubelet has not reported them."""

    allocated_resources: dict[str, str] | None = None


class Pod(Object, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
