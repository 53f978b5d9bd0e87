"""Whether the claim of NATS can get a volume: without one its pod waits, and an installation ends with a timeout."""

from collections.abc import Iterable

from equipoise.contracts.kubernetes.objects.storage import PersistentVolume, StorageClass
from equipoise.runtime.kubernetes.client import CLAIMS, STORAGE_CLASSES, VOLUMES, Kube, find

CLAIM = "data-nats-0"

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
BETA_DEFAULT_CLASS = "storageclass.beta.kubernetes.io/is-default-class"
"""The annotations of the StorageClass of claims that name none. The API server accepts both."""


def storage_problem(classes: Iterable[StorageClass], volumes: Iterable[PersistentVolume]) -> str:
    """Why a claim without a StorageClass gets no volume, and what to do; empty if it may get one."""
    names = []
    for each in classes:
        names.append(each.metadata.name)
        if "true" in map(each.metadata.annotations.get, (DEFAULT_CLASS, BETA_DEFAULT_CLASS)):
            return ""
    if any(not each.spec.storage_class_name and each.status.phase == "Available" for each in volumes):
        return ""
    return (
        f"the cluster has no default StorageClass for the volume of NATS (it has: {', '.join(names) or 'none'}): set "
        "nats.persistence.storageClass to one of them; or nats.persistence.enabled to false, then messages, and with "
        "them the outcomes of evictions, end with the pod of NATS"
    )


async def missing_storage(kube: Kube, namespace: str) -> str:
    """The problem, unless the claim exists already. Raises KubeError."""
    if await find(kube, CLAIMS, CLAIM, namespace) is not None:
        return ""
    return storage_problem(await kube.list(STORAGE_CLASSES), await kube.list(VOLUMES))
