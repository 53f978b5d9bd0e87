"""Checks whether the claim of NATS can get a volume. Otherwise its pod is Pending, and the installation times out."""

from collections.abc import Iterable

from equipoise.contracts.kubernetes.objects.storage import PersistentVolume, StorageClass
from equipoise.runtime.kubernetes.client import CLAIMS, STORAGE_CLASSES, VOLUMES, Kube, find

CLAIM = "data-nats-0"

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
BETA_DEFAULT_CLASS = "storageclass.beta.kubernetes.io/is-default-class"
"""The two annotations that mark the StorageClass for claims without a StorageClass. The API server accepts both."""


def storage_problem(classes: Iterable[StorageClass], volumes: Iterable[PersistentVolume]) -> str:
    """Why a claim without a StorageClass gets no volume, and what to do; empty if it may get one."""
    names = []
    for storage_class in classes:
        names.append(storage_class.metadata.name)
        if "true" in map(storage_class.metadata.annotations.get, (DEFAULT_CLASS, BETA_DEFAULT_CLASS)):
            return ""
    if any(not volume.spec.storage_class_name and volume.status.phase == "Available" for volume in volumes):
        return ""
    return (
        f"the cluster has no default StorageClass for the volume of NATS (it has: {', '.join(names) or 'none'}): set "
        "nats.persistence.storageClass to one of them; or nats.persistence.enabled to false, then messages, and with "
        "them the outcomes of evictions, end with the pod of NATS"
    )


async def missing_storage(kube: Kube, namespace: str) -> str:
    """The problem of `storage_problem`; empty if the claim already exists. Raises KubeError."""
    if await find(kube, CLAIMS, CLAIM, namespace) is not None:
        return ""
    return storage_problem(await kube.list(STORAGE_CLASSES), await kube.list(VOLUMES))
