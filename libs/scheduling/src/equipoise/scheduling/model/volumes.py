"""The objects that say where the volumes of pods are: claims, volumes, storage classes, and what nodes can attach."""

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
"""Annotation of claims and volumes, which takes precedence over their field."""

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim whose binding is complete in both directions."""

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim for which a volume is being provisioned, for this node."""

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"

DEFAULT_NAMESPACE = "default"

ClaimKey = tuple[str, str]
"""Namespace and name."""


class Volumes(msgspec.Struct, frozen=True, kw_only=True):
    """Mappings of the caller, who may change them between two attempts to schedule a pod."""

    claims: Mapping[ClaimKey, PersistentVolumeClaim] = MappingProxyType({})
    volumes: Mapping[str, PersistentVolume] = MappingProxyType({})
    classes: Mapping[str, StorageClass] = MappingProxyType({})
    csi_nodes: Mapping[str, CSINode] = MappingProxyType({})
    """The CSINodes, by name of the node."""

    attachments: Mapping[str, VolumeAttachment] = MappingProxyType({})

    def claim_of(self, pod: PodInfo, volume: Volume) -> PersistentVolumeClaim | None:
        """The claim of a volume that has one; None: there is no such claim."""
        return self.claims.get((pod.namespace, claim_name(pod, volume)))

    def waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim is bound only when a pod that uses it is scheduled. A claim of an unknown class is bound at
        once."""
        storage_class = self.classes.get(class_of(claim))
        return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    def of_class(self, name: str) -> Iterator[PersistentVolume]:
        """The volumes of this storage class."""
        return (each for each in self.volumes.values() if class_of(each) == name)


def claim_name(pod: PodInfo, volume: Volume) -> str:
    # A volume with both sources is read as by kube-scheduler; the API server allows one.
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return volume.claim_of(pod.name)


def class_of(value: PersistentVolume | PersistentVolumeClaim) -> str:
    """The name of its storage class; empty: none."""
    return value.metadata.annotations.get(BETA_CLASS, value.spec.storage_class_name)


def claim_key(claim: PersistentVolumeClaim) -> ClaimKey:
    """A manifest without a namespace is one of the default namespace, as for a pod."""
    return claim.metadata.namespace or DEFAULT_NAMESPACE, claim.metadata.name


def requested_bytes(claim: PersistentVolumeClaim) -> Quantity:
    """0 without a request. Raises ValueError for an invalid quantity."""
    return read_quantity(claim.spec.resources.requests.get("storage", "0"))


def capacity_bytes(volume: PersistentVolume) -> Quantity:
    """0 without a capacity. Raises ValueError for an invalid quantity."""
    return read_quantity(volume.spec.capacity.get("storage", "0"))


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def refers_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """The volume is bound to this claim, or reserved for it. A reference without uid is to any claim of the name."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace or DEFAULT_NAMESPACE, reference.name) == claim_key(claim)
        and reference.uid in ("", claim.metadata.uid)
    )


def wrong_owner(pod: PodInfo, claim: PersistentVolumeClaim) -> str | None:
    """Why the claim of an ephemeral volume is not one of this pod; None: it is."""
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
