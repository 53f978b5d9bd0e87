"""Live reads of the objects that decide about one pod. Nothing is cached between intents, except `recent_workloads`."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from equipoise.binder.state.ledger import ReplacementStatus
from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.contracts.eviction.candidate import Candidate
from equipoise.contracts.eviction.protection import REPLACING_KINDS, cannot_create
from equipoise.contracts.kubernetes.objects.metadata import OwnerReference
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject, WorkloadSpec, WorkloadStatus
from equipoise.contracts.kubernetes.owners import OWNED_KINDS, workload_of
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.runtime.kubernetes.client import (
    CLAIMS,
    NAMESPACES,
    PODS,
    VOLUMES,
    WORKLOAD_RESOURCES,
    Forbidden,
    Kube,
    KubeError,
    NotFound,
    find,
    scale_of,
)
from equipoise.scheduling.model.volumes import ClaimKey, Volumes

_NEVER_SCALED = frozenset({("", "Node"), ("apps", "DaemonSet"), ("batch", "Job"), ("batch", "CronJob")})
"""(group, kind) of owners whose pods are never evicted: they are not read."""


_REPLACED_AT_ONCE = frozenset({("apps", "Deployment"), ("apps", "ReplicaSet"), ("", "ReplicationController")})
"""(group, kind) of workloads that create the replacement of a pod while it terminates, which may take hours."""


class Unreadable(Exception):
    """An object that decides about the pod cannot be read, now or later: it is gone, or a permission is missing."""


def has_left(pod: Pod | None, uid: str) -> bool:
    """Whether the pod with this UID is gone or terminating."""
    return pod is None or pod.metadata.uid != uid or pod.metadata.deletion_timestamp is not None


async def read_candidate(kube: Kube, pod: Pod) -> Candidate:
    """The pod with its namespace and owners. Raises KubeError only for reads that may succeed later."""
    namespace, (owners, unreadable) = await asyncio.gather(
        find(kube, NAMESPACES, pod.metadata.namespace), _owners(kube, pod)
    )
    workload = None
    if not unreadable:
        # The pod's owner has been read, so its own controller is known.
        controller = owners[0].metadata.controller if owners else None
        workload = workload_of(pod, lambda _: controller)
    return Candidate(pod=pod, namespace=namespace, workload=workload, owners=owners, unreadable=unreadable)


async def _owners(kube: Kube, pod: Pod) -> tuple[tuple[WorkloadObject, ...], str]:
    """The pod's controller and its own controller, and the reason why one of them could not be read.

    Owners that are not the controller are ignored; a pod without a controller is bare.
    """
    owners: list[WorkloadObject] = []
    reference = pod.metadata.controller
    try:
        while reference is not None and _group_kind(reference) not in _NEVER_SCALED:
            owner = await _owner(kube, reference, pod.metadata.namespace)
            owners.append(owner)
            if len(owners) > 1 or _group_kind(reference) not in OWNED_KINDS:
                break
            reference = owner.metadata.controller
    except Unreadable as error:
        return tuple(owners), str(error)
    return tuple(owners), ""


def _group_kind(reference: OwnerReference) -> tuple[str, str]:
    return reference.api_version.rpartition("/")[0], reference.kind


async def _owner(kube: Kube, reference: OwnerReference, namespace: str) -> WorkloadObject:
    what = f"{reference.kind} {namespace}/{reference.name}"
    group, kind = _group_kind(reference)
    try:
        owner = await read_workload(kube, Workload(kind=kind, group=group, namespace=namespace, name=reference.name))
    except NotFound:
        raise Unreadable(f"its owner {what} is gone") from None
    except Forbidden as error:
        raise Unreadable(f"its owner {what} may not be read ({error.message}): grant `get` on it") from None
    except KubeError as error:
        if error.reason != "Unreadable" and (error.status == 0 or error.status >= 429):
            raise
        raise Unreadable(f"its owner {what} cannot be read: {error}") from None
    if owner.metadata.uid != reference.uid:
        raise Unreadable(f"its owner {what} was deleted and created again")
    return owner


async def read_volumes(kube: Kube, pod: Pod) -> Volumes:
    """The pod's claims, with their volumes. Raises Unreadable, and KubeError as above."""
    claims: dict[ClaimKey, PersistentVolumeClaim] = {}
    volumes: dict[str, PersistentVolume] = {}
    for volume in pod.spec.volumes:
        name = volume.claim_of(pod.metadata.name)
        if not name:
            continue
        try:
            claim = await kube.get(CLAIMS, name, pod.metadata.namespace)
            volumes[claim.spec.volume_name] = await kube.get(VOLUMES, claim.spec.volume_name)
        except (NotFound, Forbidden) as error:
            raise Unreadable(f"the nodes of volume {volume.name} are unknown: {error}") from None
        claims[pod.metadata.namespace, name] = claim
    return Volumes(claims=claims, volumes=volumes)


async def read_workload(kube: Kube, workload: Workload) -> WorkloadObject:
    """A workload of any kind. Unknown kinds are read through their scale subresource.

    Raises KubeError, and Unreadable when the kind does not report its desired and its ready replicas.
    """
    key = (workload.group, workload.kind)
    if key in REPLACING_KINDS:
        resource = WORKLOAD_RESOURCES[key]
        owner = await kube.get(resource, workload.name, workload.namespace)
        version = f"{resource.group}/{resource.version}".lstrip("/")
        return msgspec.structs.replace(owner, api_version=version, kind=resource.kind)
    what = f"{workload}: its kind is unknown (group {workload.group or 'core'})"
    custom = await kube.find_scalable(*key)
    if custom is None:
        raise Unreadable(f"{what} and has no scale subresource, so its pods are not evicted")
    scalable, scale = await asyncio.gather(
        kube.get(custom, workload.name, workload.namespace),
        kube.get(scale_of(custom), workload.name, workload.namespace),
    )
    if scalable.status.ready_replicas is None:
        raise Unreadable(f"{what} and does not report status.readyReplicas, so its pods are not evicted")
    observed = scalable.status.observed_generation
    return WorkloadObject(
        api_version=f"{custom.group}/{custom.version}".lstrip("/"),
        kind=custom.kind,
        metadata=scalable.metadata,
        spec=WorkloadSpec(replicas=scale.spec.replicas),
        status=WorkloadStatus(
            replicas=scale.status.replicas,
            ready_replicas=scalable.status.ready_replicas,
            observed_generation=scalable.metadata.generation if observed is None else observed,
        ),
    )


async def read_replacement(
    kube: Kube,
    entry: LedgerEntry,
    read: Callable[[Workload], Awaitable[WorkloadObject]],
    *,
    settled: bool,
    long_settled: bool = False,
    expired: bool = False,
) -> ReplacementStatus:
    """The status of an evicted pod's replacement. `read`: reads its workload, as `read_workload`.

    `settled`: whether the eviction is long enough ago for the workload's status to show it; until then only a definite
    failure is used. `long_settled`: whether it is so long ago that ready replicas in the status prove the replacement,
    even if the pod still terminates, which may take hours. `expired`: whether no binder can request the eviction any
    more, and it is not known if the API server executed it; a pod that still runs then needs no replacement.
    """
    workload = entry.workload
    if workload is None:  # nothing replaces a bare pod, and only preemptions concern these
        return ReplacementStatus(state="ready" if entry.preempted_for else "unknown")
    try:
        if expired and not has_left(await find(kube, PODS, entry.pod, entry.namespace), entry.pod_uid):
            return ReplacementStatus(state="ready")
        if (workload.group, workload.kind) in _NEVER_SCALED:
            current = await find(kube, PODS, entry.pod, entry.namespace)
            # A preempted pod. Whether its replacement runs cannot be read, and no limit of its workload needs it.
            return ReplacementStatus(state="ready" if has_left(current, entry.pod_uid) else "pending")
        owner = await read(workload)
        if why := cannot_create(owner):
            return ReplacementStatus(state="failing", why=f"{workload}: {why}")
        desired = 1 if owner.spec.replicas is None else owner.spec.replicas
        if entry.replicas is not None:
            desired = min(desired, entry.replicas)  # replicas that were added since replace no evicted pod
        if not settled or owner.status.observed_generation < owner.metadata.generation:
            return ReplacementStatus(state="pending")
        missing = owner.status.replicas < desired
        if not missing and owner.status.ready_replicas < desired:
            return ReplacementStatus(state="pending")
        current = await find(kube, PODS, entry.pod, entry.namespace)
    except NotFound:
        return ReplacementStatus(state="ready")  # the workload is gone: no replacement is expected
    except (KubeError, Unreadable):
        return ReplacementStatus(state="unknown")
    exists = current is not None and current.metadata.uid == entry.pod_uid
    if exists and not (long_settled and _is_replaced_while_terminating(current, workload)):
        return ReplacementStatus(state="pending")
    if missing and current is None:
        return ReplacementStatus(state="failing", why=f"{workload} has {owner.status.replicas} of {desired} pods")
    return ReplacementStatus(state="ready" if owner.status.ready_replicas >= desired else "pending")


def _is_replaced_while_terminating(pod: Pod | None, workload: Workload) -> bool:
    """Whether the ready replicas of the workload do not include the pod, although it still exists.

    ReplicaSets replace a pod as soon as it terminates, and do not count it. A StatefulSet waits until it is gone.
    """
    replaced_at_once = (workload.group, workload.kind) in _REPLACED_AT_ONCE
    return replaced_at_once and pod is not None and pod.metadata.deletion_timestamp is not None
