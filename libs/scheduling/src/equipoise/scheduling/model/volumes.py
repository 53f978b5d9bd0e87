"""The objects that determine on which nodes the volumes of a pod can be used: claims, volumes, classes, CSINodes."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec

from equipoise.contracts.kubernetes.objects.pod import Volume
from equipoise.contracts.kubernetes.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.quantities import Quantity, read_quantity

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Annotation of claims and volumes with their class. It takes precedence over the field storageClassName."""

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim whose binding is complete in both directions."""

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim with the node for which its volume is being provisioned."""

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"

DEFAULT_NAMESPACE = "default"

ClaimKey = tuple[str, str]
"""The namespace and name of a claim."""


class Volumes(msgspec.Struct, frozen=True, kw_only=True):
    """The storage objects of the cluster. The caller may change the mappings between two attempts to schedule a pod."""

    claims: Mapping[ClaimKey, PersistentVolumeClaim] = MappingProxyType({})
    volumes: Mapping[str, PersistentVolume] = MappingProxyType({})
    classes: Mapping[str, StorageClass] = MappingProxyType({})
    csi_nodes: Mapping[str, CSINode] = MappingProxyType({})
    """The CSINodes, by name of the node."""

    attachments: Mapping[str, VolumeAttachment] = MappingProxyType({})

    def claim_of(self, pod: PodInfo, volume: Volume) -> PersistentVolumeClaim | None:
        """The claim of a volume with a claim; None if the claim does not exist."""
        return self.claims.get((pod.namespace, claim_name(pod, volume)))

    def waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim is bound only when a pod that uses it is scheduled. A claim of an unknown class is bound at
        once."""
        storage_class = self.classes.get(class_of(claim))
        return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    def of_class(self, name: str) -> Iterator[PersistentVolume]:
        """The volumes of this storage class."""
        return (volume for volume in self.volumes.values() if class_of(volume) == name)


def claim_name(pod: PodInfo, volume: Volume) -> str:
    # The API server allows only one source. A volume with both is read as kube-scheduler does.
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return volume.claim_of(pod.name)


def class_of(value: PersistentVolume | PersistentVolumeClaim) -> str:
    """The name of the storage class of a volume or claim; empty if it has none."""
    return value.metadata.annotations.get(BETA_CLASS, value.spec.storage_class_name)


def claim_key(claim: PersistentVolumeClaim) -> ClaimKey:
    """The namespace and name of a claim. Without a namespace in its manifest, as for a pod, the default namespace."""
    return claim.metadata.namespace or DEFAULT_NAMESPACE, claim.metadata.name


def requested_bytes(claim: PersistentVolumeClaim) -> Quantity:
    """The requested size of a claim; 0 without a request. Raises ValueError for an invalid quantity."""
    return read_quantity(claim.spec.resources.requests.get("storage", "0"))


def capacity_bytes(volume: PersistentVolume) -> Quantity:
    """The size of a volume; 0 without a capacity. Raises ValueError for an invalid quantity."""
    return read_quantity(volume.spec.capacity.get("storage", "0"))


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def refers_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is bound to this claim, or reserved for it. A reference without a uid refers to any claim with
    the name."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace or DEFAULT_NAMESPACE, reference.name) == claim_key(claim)
        and reference.uid in ("", claim.metadata.uid)
    )


def wrong_owner(pod: PodInfo, claim: PersistentVolumeClaim) -> str | None:
    """Why the claim of an ephemeral volume does not belong to this pod; None if it does."""
    owner = claim.metadata.controller
    namespace, name = claim_key(claim)
    if namespace == pod.namespace and owner is not None and owner.uid == pod.pod.metadata.uid:
        return None
    return f"PVC {namespace}/{name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"


def claim_not_found(name: str) -> str:
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found(name: str) -> str:
    return f'persistentvolume "{name}" not found'


def class_not_found(name: str) -> str:
    return f'storageclass.storage.k8s.io "{name}" not found'
