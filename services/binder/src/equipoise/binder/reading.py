"""Live reads of what decides about one pod. Nothing is kept from one intent to the next."""

import asyncio

from equipoise.contracts.objects import Namespace, NodeSelector, OwnerReference, Pod, WorkloadObject
from equipoise.contracts.owners import CLIMBED, workload_of
from equipoise.contracts.protection import MOVED_KINDS, Candidate
from equipoise.contracts.workload import Workload
from equipoise.runtime.kube import (
    CLAIMS,
    NAMESPACES,
    PODS,
    VOLUMES,
    WORKLOAD_RESOURCES,
    Forbidden,
    Kube,
    KubeError,
    NotFound,
)


class Unreadable(Exception):
    """Something that has a say cannot be read for good: it is gone, or we lack the right."""


async def read_pod(kube: Kube, namespace: str, name: str) -> Pod | None:
    """None: there is no pod of this name. Raises KubeError."""
    try:
        return await kube.get(PODS, name, namespace)
    except NotFound:
        return None


def has_left(pod: Pod | None, uid: str) -> bool:
    """Is the pod that had this UID gone or on its way out?"""
    return pod is None or pod.metadata.uid != uid or pod.metadata.deletion_timestamp is not None


async def read_candidate(kube: Kube, pod: Pod) -> Candidate:
    """The pod with its namespace and owners. Raises KubeError only for what may succeed when tried again."""
    namespace, (owners, unreadable) = await asyncio.gather(_namespace(kube, pod.metadata.namespace), _owners(kube, pod))
    workload = None
    if not unreadable:
        # The first owner is the one that is climbed from: its own controller is known by now.
        above = owners[0].metadata.controller if owners else None
        workload = workload_of(pod, lambda _: above)
    return Candidate(pod=pod, namespace=namespace, workload=workload, owners=owners, unreadable=unreadable)


async def _namespace(kube: Kube, name: str) -> Namespace | None:
    try:
        return await kube.get(NAMESPACES, name)
    except NotFound:
        return None


async def _owners(kube: Kube, pod: Pod) -> tuple[tuple[WorkloadObject, ...], str]:
    """The controllers that are known to bring pods back, from the pod upwards, and what could not be read."""
    owners: list[WorkloadObject] = []
    reference = pod.metadata.controller
    try:
        while reference is not None and _group_kind(reference) in MOVED_KINDS:
            owner = await _owner(kube, reference, pod.metadata.namespace)
            owners.append(owner)
            if len(owners) > 1 or _group_kind(reference) not in CLIMBED:
                break
            reference = owner.metadata.controller
    except Unreadable as error:
        return tuple(owners), str(error)
    return tuple(owners), ""


def _group_kind(reference: OwnerReference) -> tuple[str, str]:
    return reference.api_version.rpartition("/")[0], reference.kind


async def _owner(kube: Kube, reference: OwnerReference, namespace: str) -> WorkloadObject:
    what = f"{reference.kind} {namespace}/{reference.name}"
    resource = WORKLOAD_RESOURCES[_group_kind(reference)]
    try:
        owner = await kube.get(resource, reference.name, namespace)
    except NotFound:
        raise Unreadable(f"its owner {what} is gone") from None
    except Forbidden as error:
        raise Unreadable(f"its owner {what} may not be read ({error.message}): grant `get` on it") from None
    except KubeError as error:
        if error.status == 0 or error.status >= 429:
            raise
        raise Unreadable(f"its owner {what} cannot be read: {error}") from None
    if owner.metadata.uid != reference.uid:
        raise Unreadable(f"its owner {what} was deleted and made anew")
    return owner


async def read_volume_nodes(kube: Kube, pod: Pod) -> list[NodeSelector]:
    """Where the pod's persistent volumes can be reached. Raises Unreadable, and KubeError as above."""
    selectors: list[NodeSelector] = []
    for volume in pod.spec.volumes:
        claim_name = volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim else ""
        if volume.ephemeral is not None:
            claim_name = f"{pod.metadata.name}-{volume.name}"
        if not claim_name:
            continue
        try:
            claim = await kube.get(CLAIMS, claim_name, pod.metadata.namespace)
            persistent = await kube.get(VOLUMES, claim.spec.volume_name)
        except (NotFound, Forbidden) as error:
            raise Unreadable(f"it is not known where volume {volume.name} can be reached: {error}") from None
        affinity = persistent.spec.node_affinity
        if affinity is not None and affinity.required is not None:
            selectors.append(affinity.required)
    return selectors


async def has_recovered(kube: Kube, *, namespace: str, pod: str, uid: str, workload: Workload | None) -> bool:
    """Is the pod gone, and does its workload have all its replicas ready? What cannot be read has not recovered."""
    resource = WORKLOAD_RESOURCES.get((workload.group, workload.kind)) if workload else None
    if workload is None or resource is None:
        return False
    try:
        current, owner = await asyncio.gather(
            read_pod(kube, namespace, pod), kube.get(resource, workload.name, workload.namespace)
        )
    except NotFound:
        return True  # the workload itself is gone: nobody waits for its replica
    except KubeError:
        return False
    if current is not None and current.metadata.uid == uid:
        return False
    desired = 1 if owner.spec.replicas is None else owner.spec.replicas
    settled = owner.status.observed_generation >= owner.metadata.generation
    return settled and owner.status.ready_replicas >= desired
