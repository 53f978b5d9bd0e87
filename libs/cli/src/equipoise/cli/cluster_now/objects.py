"""Lists the objects of the API server that a plan depends on. Requires only the permission to list them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.prometheus.services import SERVICES
from equipoise.contracts.kubernetes.objects.metadata import Object, OwnerReference
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.unreadable.known_amounts import node_with_known_amounts, with_known_amounts
from equipoise.descheduler.decisions.evaluation.read_annotations import with_read_annotations
from equipoise.descheduler.decisions.evaluation.snapshot import WatchedObjects
from equipoise.runtime.kubernetes.client import (
    BUDGETS,
    CLAIMS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    VOLUMES,
    WORKLOAD_RESOURCES,
    Forbidden,
    Kube,
    KubeError,
    NotFound,
    Resource,
)
from equipoise.runtime.kubernetes.reflector import Interner
from equipoise.scheduling.model.volumes import claim_key

GRANT = "kubectl create clusterrole equipoise-reader --verb=list --resource={resources}"

T = TypeVar("T", bound=Object)


class ListedObjects(msgspec.Struct, frozen=True, kw_only=True):
    """What was listed."""

    watched: WatchedObjects
    owners: Mapping[Workload, OwnerReference | None]
    """The controllers of ReplicaSets and Jobs."""

    missing: tuple[str, ...] = ()
    """Names of resources that this user may not list; without them no move can be planned."""


async def list_nodes_and_pods(kube: Kube, workloads: Sequence[str], *, volumes: bool) -> ListedObjects:
    """Nodes, pods and, as far as it is permitted, what protects pods. `workloads`: the kinds of workloads to list, for
    their replica counts.

    `volumes`: claims and volumes too. Raises CommandFailed if nodes or pods may not be listed, and KubeError.
    """
    kinds = [resource for resource in WORKLOAD_RESOURCES.values() if resource.kind in workloads]
    optional: list[Resource[Any]] = [NAMESPACES, BUDGETS, *kinds]
    if volumes:
        optional += [CLAIMS, VOLUMES]
    required: list[Resource[Any]] = [NODES, PODS]
    listed: dict[Resource[Any], list[Any]] = {}
    forbidden: list[Resource[Any]] = []
    for resource in dict.fromkeys((*required, *optional, REPLICA_SETS, JOBS)):
        try:
            listed[resource] = await _list(kube, resource)
        except Forbidden as error:
            if resource in required:
                names = ",".join(map(_name, (*required, *optional, JOBS, SERVICES)))
                raise CommandFailed(
                    f"this user may not list {_name(resource)} in all namespaces ({error.message}). An administrator "
                    f"can permit it: {GRANT.format(resources=names)}"
                ) from None
            forbidden.append(resource)
        except NotFound:
            listed[resource] = []  # a kind of workload that this cluster does not have
    owners = {
        _workload(resource, item): item.metadata.controller
        for resource in (REPLICA_SETS, JOBS)
        for item in listed.get(resource, ())
    }
    return ListedObjects(
        watched=WatchedObjects(
            nodes=list(map(node_with_known_amounts, listed[NODES])),
            pods=list(map(with_known_amounts, listed[PODS])),
            namespaces={item.metadata.name: item for item in listed.get(NAMESPACES, ())},
            budgets=listed.get(BUDGETS, ()),
            workloads={_workload(resource, item): item for resource in kinds for item in listed.get(resource, ())},
            claims={claim_key(claim): claim for claim in listed.get(CLAIMS, ())},
            volumes={volume.metadata.name: volume for volume in listed.get(VOLUMES, ())},
        ),
        owners=owners,
        missing=tuple(_name(resource) for resource in forbidden if resource in optional),
    )


async def _list(kube: Kube, resource: Resource[T]) -> list[T]:
    """All objects. Equal parts are stored once, because a large cluster has 150,000 pods of a few thousand workloads.

    Pods keep only the annotations that a plan reads; nodes keep all, as only administrators write them.
    """
    interner, found = Interner(), list[T]()
    try:
        async for page in kube.pages(resource):
            kept = page if resource is NODES else map(with_read_annotations, page)
            found += map(interner.intern, kept)
    except KubeError as error:
        if error.status == 0:
            raise CommandFailed(f"the API server does not respond: {error.message}") from None
        raise
    return found


def _workload(resource: Resource[WorkloadObject], item: WorkloadObject) -> Workload:
    meta = item.metadata
    return Workload(kind=resource.kind, group=resource.group, namespace=meta.namespace, name=meta.name)


def _name(resource: Resource[Any]) -> str:
    """The name of the resource as kubectl writes it: `deployments.apps`."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
