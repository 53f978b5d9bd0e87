"""Pods and nodes with amounts that no machine can have: the API server accepts a request of `1e308` cores.

kube-scheduler reads such an amount in its own way (`equipoise.scheduling.model.quantities`). For everything else it is
unknown, and its object is marked like one that cannot be decoded: a pod is protected, and its node no target.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

import msgspec

from equipoise.contracts.kubernetes.objects import Container, Node, ObjectMeta, Pod, ResourceRequirements
from equipoise.contracts.kubernetes.quantity import known_quantity, most_of
from equipoise.contracts.kubernetes.requests import pod_requests

_PARTS = 10_000.0
"""More than a pod has containers: if each amount is below this part of the largest one, so is their sum."""


def with_known_amounts(pod: Pod) -> Pod:
    """The pod itself. If one of its amounts cannot be true: without all amounts, and with `metadata.unreadable`."""
    why = _pod_problem(pod)
    return unknown_pod(pod, why) if why else pod


def unknown_pod(pod: Pod, why: str) -> Pod:
    """Without all amounts, and marked."""
    spec, status = pod.spec, pod.status
    spec = msgspec.structs.replace(
        spec,
        containers=None if spec.containers is None else [_without_amounts(each) for each in spec.containers],
        init_containers=[_without_amounts(each) for each in spec.init_containers],
        overhead={},
        resources=None,
    )
    status = msgspec.structs.replace(
        status, container_statuses=[], init_container_statuses=[], resources=None, allocated_resources={}
    )
    return msgspec.structs.replace(pod, metadata=_marked(pod.metadata, why), spec=spec, status=status)


def node_with_known_amounts(node: Node) -> Node:
    """The same for a node, whose amounts are its capacity and what is allocatable."""
    why = _problem(node.status.allocatable) or _problem(node.status.capacity)
    return unknown_node(node, why) if why else node


def unknown_node(node: Node, why: str) -> Node:
    """Without all amounts, and marked."""
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
        if why := _problem(quantities):
            return why
        large = True  # a sum with them
    if not large:
        return ""
    requests = pod_requests(pod)
    return next(
        (f"{name} of all containers is {each:g}" for name, each in requests.items() if each > most_of(name)), ""
    )


def _other_quantities(pod: Pod) -> Iterator[Mapping[str, str]]:
    """Few pods have any of them."""
    spec, status = pod.spec, pod.status
    if spec.overhead:
        yield spec.overhead
    if spec.resources is not None:
        yield spec.resources.requests
        yield spec.resources.limits
    if status.resources is not None:
        yield status.resources.requests
        yield status.resources.limits
    if status.allocated_resources:
        yield status.allocated_resources
    for reported in (*status.container_statuses, *status.init_container_statuses):
        if reported.allocated_resources:
            yield reported.allocated_resources
        if reported.resources is not None:
            yield reported.resources.requests
            yield reported.resources.limits


def _problem(quantities: Mapping[str, str]) -> str:
    return next((why for item in quantities.items() if (why := _checked(item)[0])), "")


@lru_cache(maxsize=16_384)
def _checked(item: tuple[str, str]) -> tuple[str, bool]:
    """Of a resource and its quantity: why it is unknown, and whether a pod with many of them needs another look."""
    resource, text = item
    try:
        return "", known_quantity(resource, text) > most_of(resource) / _PARTS
    except ValueError as error:
        return str(error), False


def _without_amounts(container: Container) -> Container:
    return msgspec.structs.replace(container, resources=ResourceRequirements())


def _marked(metadata: ObjectMeta, why: str) -> ObjectMeta:
    return msgspec.structs.replace(metadata, unreadable=metadata.unreadable or why)
