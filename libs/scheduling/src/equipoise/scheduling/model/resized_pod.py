"""Pods whose containers are being resized: what their nodes account for is not only what their specification requests.

Source: `determineEffectiveRequests` of kubernetes component-helpers/resource, 1.36. The status of containers is not in
`Pod`, because no other decision needs it: it would be the larger part of every pod.
"""

from collections.abc import Iterable, Mapping

import msgspec

from equipoise.contracts.kubernetes.objects import ApiValue, Container, Pod, PodStatus, ResourceRequirements
from equipoise.contracts.kubernetes.quantity import parse_quantity

Quantities = Mapping[str, str]


class ContainerResources(ApiValue, frozen=True, kw_only=True):
    """Of the status of a container."""

    name: str = ""
    resources: ResourceRequirements | None = None
    """None: the kubelet has not reported it."""

    allocated_resources: dict[str, str] = msgspec.field(default_factory=dict)


class ResizedPodStatus(PodStatus, frozen=True, kw_only=True):
    container_statuses: list[ContainerResources] = msgspec.field(default_factory=list)
    init_container_statuses: list[ContainerResources] = msgspec.field(default_factory=list)
    resources: ResourceRequirements | None = None
    """Of the pod as a whole."""

    allocated_resources: dict[str, str] = msgspec.field(default_factory=dict)


class ResizedPod(Pod, frozen=True, kw_only=True):
    """A pod that is read with the status of its containers."""

    status: ResizedPodStatus = ResizedPodStatus()


def with_actual_requests(pod: Pod) -> Pod:
    """The pod with the requests that its node accounts for: the highest of those wanted, in effect and allocated.

    A resize that the node can never carry out is not counted. Raises ValueError for an invalid quantity.
    """
    if not isinstance(pod, ResizedPod):
        return pod
    status, spec = pod.status, pod.spec
    infeasible = next(
        (each.reason == "Infeasible" for each in status.conditions if each.type == "PodResizePending"), False
    )
    reported = {each.name: each for each in (*status.container_statuses, *status.init_container_statuses)}
    changed = {
        each.name: _effective(each, reported[each.name], infeasible)
        for each in (
            *(spec.containers or ()),
            *(each for each in spec.init_containers if each.restart_policy == "Always"),
        )
        if each.name in reported and reported[each.name].resources is not None
    }
    resources = spec.resources
    if resources is not None and resources.requests and status.resources is not None:
        wanted = {} if infeasible else resources.requests
        highest = _highest(wanted, status.resources.requests, status.allocated_resources)
        requests = {name: highest.get(name, "0") for name in resources.requests}
        resources = msgspec.structs.replace(resources, requests=requests)
    if not changed and resources is spec.resources:
        return pod
    containers = [changed.get(each.name, each) for each in spec.containers or ()]
    initial = [changed.get(each.name, each) for each in spec.init_containers]
    spec = msgspec.structs.replace(spec, containers=containers, init_containers=initial, resources=resources)
    return msgspec.structs.replace(pod, spec=spec)


def _effective(container: Container, reported: ContainerResources, infeasible: bool) -> Container:
    wanted = {} if infeasible else container.resources.requests
    actual = reported.resources.requests if reported.resources else {}
    requests = _highest(wanted, actual, reported.allocated_resources)
    return msgspec.structs.replace(container, resources=msgspec.structs.replace(container.resources, requests=requests))


def _highest(*all_of: Quantities) -> dict[str, str]:
    names: Iterable[str] = dict.fromkeys(name for each in all_of for name in each)
    return {name: max((each[name] for each in all_of if name in each), key=parse_quantity) for name in names}
