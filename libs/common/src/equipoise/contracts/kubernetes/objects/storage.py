"""Volumes, their claims, and the numbers of volumes that nodes can attach."""

from equipoise.contracts.kubernetes.objects.metadata import (
    ApiValue,
    Int64,
    LabelSelector,
    Object,
    ObjectReference,
    ResourceRequirements,
)
from equipoise.contracts.kubernetes.objects.node import NodeSelector


class PersistentVolumeClaimSpec(ApiValue, frozen=True, kw_only=True):
    volume_name: str = ""
    storage_class_name: str = ""
    """Absent values are decoded as empty ones. They mean the same once the API server has set a default class."""

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
    """None if there are no drivers: the API server writes null."""


class CSINode(Object, frozen=True, kw_only=True):
    """The storage drivers of a node and how many volumes they can attach. The object has the name of the node."""

    spec: CSINodeSpec = CSINodeSpec()


class AttachmentSource(ApiValue, frozen=True, kw_only=True):
    persistent_volume_name: str = ""


class VolumeAttachmentSpec(ApiValue, frozen=True, kw_only=True):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class VolumeAttachment(Object, frozen=True, kw_only=True):
    """A volume that is, or will be, attached to a node."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
