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
    for quantities in _quantities(pod):
        for resource, text in quantities.items():
            why, is_large = _checked(resource, text)
            if why:
                return why
            large = large or is_large
    if not large:
        return ""
    requests = pod_requests(pod)
    return next(
        (f"{name} of all containers is {each:g}" for name, each in requests.items() if each > most_of(name)), ""
    )


def _quantities(pod: Pod) -> Iterator[Mapping[str, str]]:
    spec, status = pod.spec, pod.status
    for container in (*(spec.containers or ()), *spec.init_containers):
        yield container.resources.requests
        yield container.resources.limits
    if spec.overhead:
        yield spec.overhead
    for each in (spec.resources, status.resources):
        if each is not None:
            yield each.requests
            yield each.limits
    for reported in (*status.container_statuses, *status.init_container_statuses):
        yield reported.allocated_resources
        if reported.resources is not None:
            yield reported.resources.requests
            yield reported.resources.limits
    if status.allocated_resources:
        yield status.allocated_resources


def _problem(quantities: Mapping[str, str]) -> str:
    return next((why for resource, text in quantities.items() if (why := _checked(resource, text)[0])), "")


@lru_cache(maxsize=16_384)
def _checked(resource: str, text: str) -> tuple[str, bool]:
    """Why it is unknown, and whether a pod with many such amounts needs another look."""
    try:
        return "", known_quantity(resource, text) > most_of(resource) / _PARTS
    except ValueError as error:
        return str(error), False


def _without_amounts(container: Container) -> Container:
    return msgspec.structs.replace(container, resources=ResourceRequirements())


def _marked(metadata: ObjectMeta, why: str) -> ObjectMeta:
    return msgspec.structs.replace(metadata, unreadable=metadata.unreadable or why)
