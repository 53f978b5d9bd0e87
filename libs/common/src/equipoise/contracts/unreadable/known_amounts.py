"""Pods and nodes with impossible amounts: the API server accepts a request of `1e308` cores.

kube-scheduler reads such an amount in its own way (`equipoise.scheduling.model.quantities`). For everything else, the
amount is unknown, and its object is marked like one that cannot be decoded. Such a pod is protected. If it requests an
impossible amount of a planned resource, the free resources of its node are unknown, too, and the node is no target.
Other impossible amounts do not affect the node. For example, an impossible limit is no limit, because the node bounds
the container.
"""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from equipoise.contracts.colocation.bands import OFFERED_NAMES
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, ResourceRequirements
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Container, ContainerStatus, Pod
from equipoise.contracts.kubernetes.quantity import known_quantity, most_of, parse_quantity
from equipoise.contracts.kubernetes.requests import pod_requests

PLANNED = ("cpu", "memory", *OFFERED_NAMES)
"""The resources whose amounts decide about loads, moves and co-location."""

_PARTS = 10_000.0
"""A number above that of the containers of any pod. If each amount is below the largest plausible amount divided by
this number, their sum is plausible."""

_NO_LIMIT, _LARGEST_PAGE = 2.0**63, 2.0**20


def with_known_amounts(pod: Pod) -> Pod:
    """The pod. If one of its amounts is impossible, a copy without this amount, and with `metadata.unreadable`.

    If the requests of the pod are unknown (`unknown_requests`), the copy has no amounts at all.
    """
    marked = with_named_amounts(pod)
    if marked is pod:
        return pod
    return _without_unknown_amounts(marked) if marked.metadata.requests_known else _without_amounts(marked)


def with_named_amounts(pod: Pod) -> Pod:
    """Marks the pod like `with_known_amounts`, but keeps all amounts. The scheduling library reads them as
    kube-scheduler does."""
    why = _pod_problem(pod)
    if not why:
        return pod
    requests = _requests_problem(pod)
    return _with_metadata(pod, _marked(pod.metadata, requests or why, requests_known=not requests))


def unknown_requests(pod: Pod) -> str:
    """Why the requests of a pod, and thereby the free resources of its node, are unknown. Empty if they are known."""
    meta = pod.metadata
    if not meta.unreadable or meta.requests_known:
        return ""
    return f"what its pod {meta.namespace}/{meta.name} requests is not known: {meta.unreadable}"


def unknown_pod(pod: Pod, why: str) -> Pod:
    """A copy of the pod that is marked, and has no amounts."""
    return _without_amounts(_with_metadata(pod, _marked(pod.metadata, why)))


def node_with_known_amounts(node: Node) -> Node:
    """The node. If its capacity or allocatable has an impossible amount, a copy that is marked, and has no amounts."""
    why = _problem(node.status.allocatable) or _problem(node.status.capacity)
    return unknown_node(node, why) if why else node


def unknown_node(node: Node, why: str) -> Node:
    """A copy of the node that is marked, and has no amounts."""
    status = msgspec.structs.replace(node.status, allocatable={}, capacity={})
    return msgspec.structs.replace(node, metadata=_marked(node.metadata, why), status=status)


def _pod_problem(pod: Pod) -> str:
    large = False
    for container in (*(pod.spec.containers or ()), *pod.spec.init_containers):  # of every pod of a cluster
        resources = container.resources
        for quantities in (resources.requests, resources.limits):
            for item in quantities.items():
                why, is_large = _checked(item)
                if why:
                    return why
                large = large or is_large
    for quantities in _other_quantities(pod):
        if why := _problem(quantities) and _problem_besides_no_limit(pod, quantities):
            return why
        large = True  # a sum with them
    return _sum_problem(pod) if large else ""


def _sum_problem(pod: Pod) -> str:
    requests = pod_requests(pod)
    return next(
        (
            f"{name} of all containers is {requests[name]:g}"
            for name in PLANNED
            if name in requests and requests[name] > most_of(name)
        ),
        "",
    )


def _requests_problem(pod: Pod) -> str:
    """Describes an impossible request of a planned resource. Empty if there is none."""
    spec, status = pod.spec, pod.status
    reported = (*status.container_statuses, *status.init_container_statuses)
    resources = [container.resources for container in (*(spec.containers or ()), *spec.init_containers)]
    resources += [
        requirements
        for requirements in (spec.resources, status.resources, *(container.resources for container in reported))
        if requirements is not None
    ]
    quantities = [requirements.requests for requirements in resources]
    quantities += [spec.overhead, status.allocated_resources or {}]
    quantities += [container.allocated_resources or {} for container in reported]
    planned = ((name, amounts[name]) for amounts in quantities for name in PLANNED if name in amounts)
    return next(filter(None, (_checked(item)[0] for item in planned)), "") or _sum_problem(
        _without_unknown_amounts(pod)
    )


def _other_quantities(pod: Pod) -> list[Mapping[str, str]]:
    """The quantities outside of the specifications of containers. Most pods have none. A generator would be slower."""
    spec, status = pod.spec, pod.status
    found: list[Mapping[str, str]] = []
    if spec.overhead:
        found.append(spec.overhead)
    if spec.resources is not None:
        found += (spec.resources.requests, spec.resources.limits)
    if status.resources is not None:
        found += (status.resources.requests, status.resources.limits)
    if status.allocated_resources:
        found.append(status.allocated_resources)
    for reported in (*status.container_statuses, *status.init_container_statuses):
        if reported.allocated_resources:
            found.append(reported.allocated_resources)
        if reported.resources is not None:
            found += (reported.resources.requests, reported.resources.limits)
    return found


def _problem_besides_no_limit(pod: Pod, quantities: Mapping[str, str]) -> str:
    """The problem of quantities of the pod; if the node reports them as limits, besides a limit that is none."""
    status = pod.status
    reported = [each.resources for each in (*status.container_statuses, *status.init_container_statuses)]
    if not any(each is not None and each.limits is quantities for each in (status.resources, *reported)):
        return _problem(quantities)
    return _problem({name: text for name, text in quantities.items() if not _is_no_limit((name, text))})


def _is_no_limit(item: tuple[str, str]) -> bool:
    """Whether a limit that a node reports is none.

    A group of cgroup v1 without a limit of memory has 2**63 - 1 bytes, rounded down to a page. The kubelet reports it:
    9007199254740988Ki with pages of 4 KiB.
    """
    resource, text = item
    try:
        return resource == "memory" and _NO_LIMIT - _LARGEST_PAGE <= parse_quantity(text) <= _NO_LIMIT
    except ValueError:
        return False


def _problem(quantities: Mapping[str, str]) -> str:
    return next((why for item in quantities.items() if (why := _checked(item)[0])), "")


@lru_cache(maxsize=16_384)
def _checked(item: tuple[str, str]) -> tuple[str, bool]:
    """Why the quantity of a resource is unknown, and whether the sum of many such quantities may be impossible."""
    resource, text = item
    try:
        return "", known_quantity(resource, text) > most_of(resource) / _PARTS
    except ValueError as error:
        return str(error), False


def _without_amounts(pod: Pod) -> Pod:
    """A copy of the pod without any amounts."""
    spec, status, replace = pod.spec, pod.status, msgspec.structs.replace
    nothing = ResourceRequirements()
    spec = replace(
        spec,
        containers=None
        if spec.containers is None
        else [replace(container, resources=nothing) for container in spec.containers],
        init_containers=[replace(container, resources=nothing) for container in spec.init_containers],
        overhead={},
        resources=None,
    )
    status = replace(
        status, container_statuses=(), init_container_statuses=(), resources=None, allocated_resources=None
    )
    return replace(pod, spec=spec, status=status)


def _without_unknown_amounts(pod: Pod) -> Pod:
    spec, status, replace = pod.spec, pod.status, msgspec.structs.replace
    containers = spec.containers
    spec = replace(
        spec,
        containers=None if containers is None else [_with_known_resources(container) for container in containers],
        init_containers=[_with_known_resources(container) for container in spec.init_containers],
        overhead=_known(spec.overhead),
        resources=_known_requirements(spec.resources),
    )
    status = replace(
        status,
        container_statuses=tuple(map(_with_known_status, status.container_statuses)),
        init_container_statuses=tuple(map(_with_known_status, status.init_container_statuses)),
        resources=_known_requirements(status.resources),
        allocated_resources=_known(status.allocated_resources or {}),
    )
    return replace(pod, spec=spec, status=status)


def _with_known_resources(container: Container) -> Container:
    resources = _known_requirements(container.resources) or ResourceRequirements()
    return msgspec.structs.replace(container, resources=resources)


def _with_known_status(status: ContainerStatus) -> ContainerStatus:
    return msgspec.structs.replace(
        status,
        resources=_known_requirements(status.resources),
        allocated_resources=_known(status.allocated_resources or {}),
    )


def _known_requirements(resources: ResourceRequirements | None) -> ResourceRequirements | None:
    if resources is None:
        return None
    return ResourceRequirements(requests=_known(resources.requests), limits=_known(resources.limits))


def _known(quantities: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in quantities.items() if not _checked((name, text))[0]}


def _marked(metadata: ObjectMeta, why: str, *, requests_known: bool = False) -> ObjectMeta:
    if metadata.unreadable:
        why, requests_known = metadata.unreadable, requests_known and metadata.requests_known
    return msgspec.structs.replace(metadata, unreadable=why, requests_known=requests_known)


def _with_metadata(pod: Pod, metadata: ObjectMeta) -> Pod:
    return msgspec.structs.replace(pod, metadata=metadata)
