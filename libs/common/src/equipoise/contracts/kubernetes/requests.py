"""Requests and limits of a pod, summed over its containers as kube-scheduler does.

For a pod that is being resized in place, the amounts in its status count as well as those in its specification.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, ContainerStatus, Pod
from equipoise.contracts.kubernetes.quantity import magnitude, most_of, parse_quantity
from equipoise.contracts.kubernetes.resizes import INFEASIBLE, pending_resize

Amounts = dict[str, float]
"""Amounts by resource name, each in its base unit."""


class Number(Protocol):
    """The type of number to which quantities are converted."""

    def __add__(self, other: Any, /) -> Self: ...


N = TypeVar("N", bound=Number)

_POD_LEVEL = ("cpu", "memory", "hugepages-")
"""The resources that can be requested at pod level."""


def amounts_of(quantities: Mapping[str, str]) -> Amounts:
    """The quantities as numbers. Raises ValueError for an invalid quantity, which the API server does not accept."""
    return {resource: parse_quantity(text) for resource, text in quantities.items()}


def _sum(parts: Iterable[dict[str, N]]) -> dict[str, N]:
    total: dict[str, N] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total[resource] + amount if resource in total else amount
    return total


def _with_init_containers(
    pod: Pod,
    running: dict[str, N],
    missing: Mapping[str, str],
    read: Callable[[str], N],
    higher: Callable[[N, N], N],
) -> dict[str, N]:
    """The highest requests at any time: while the init containers run one after another, or after all of them."""
    sidecars: dict[str, N] = {}
    starting: dict[str, N] = {}
    for container in pod.spec.init_containers:
        own = _requested(container, missing, read)
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, own))
            running = _sum((running, own))
            starting = _highest(starting, sidecars, higher)
        else:
            starting = _highest(starting, _sum((own, sidecars)), higher)
    return _highest(running, starting, higher)


def _highest(left: dict[str, N], right: dict[str, N], higher: Callable[[N, N], N]) -> dict[str, N]:
    highest = dict(left)
    for resource, amount in right.items():
        highest[resource] = higher(left[resource], amount) if resource in left else amount
    return highest


def _requested(container: Container, missing: Mapping[str, str], read: Callable[[str], N]) -> dict[str, N]:
    quantities = {**missing, **container.resources.requests} if missing else container.resources.requests
    return {resource: read(text) for resource, text in quantities.items()}


_NONE: Mapping[str, str] = {}


def pod_requests(pod: Pod, *, missing: Mapping[str, str] = _NONE) -> Amounts:
    """The result of `pod_requests_as`, in base units."""
    return pod_requests_as(pod, parse_quantity, max, missing=missing)


def pod_requests_as(
    pod: Pod, read: Callable[[str], N], higher: Callable[[N, N], N], *, missing: Mapping[str, str] = _NONE
) -> dict[str, N]:
    """max(Σ containers + Σ sidecars, each init container + the sidecars before it) + overhead.

    Values at pod level replace this maximum. While the pod is being resized, the requests of `with_actual_resources`
    count. `missing`: the requests of a container that has none. A sidecar is an init container with restartPolicy
    Always. Raises ValueError for an invalid quantity. Source: `PodRequests` of kubernetes component-helpers/resource.
    """
    pod = with_actual_resources(pod)
    total = _sum(_requested(container, missing, read) for container in pod.spec.containers or ())
    if pod.spec.init_containers:
        total = _with_init_containers(pod, total, missing, read, higher)
    if pod.spec.resources is not None:
        whole = pod.spec.resources.requests
        total |= {resource: read(text) for resource, text in whole.items() if resource.startswith(_POD_LEVEL)}
    if pod.spec.overhead:
        total = _sum((total, {resource: read(text) for resource, text in pod.spec.overhead.items()}))
    return total


def pod_limit(pod: Pod, resource: str) -> float | None:
    """The limit of the pod in cores or bytes, computed like `pod_requests`; None if it has no limit.

    While the pod is being resized, the higher of the desired limit and the limit in effect is used. As for the kubelet,
    a pod has no limit if one container or sidecar has none. A limit of 0, or of more than any machine has, is no limit.
    An init container without a limit adds nothing. Overhead is added to a limit. Raises ValueError for an invalid
    quantity. Source: `PodLimits` of kubernetes component-helpers/resource.
    """
    pod = with_actual_resources(pod)
    whole = pod.spec.resources.limits.get(resource) if pod.spec.resources is not None else None
    if whole is not None:
        total = parse_quantity(whole)
    else:
        running = [_limit(container, resource) for container in pod.spec.containers or ()]
        starting = sidecars = 0.0
        for container in pod.spec.init_containers:
            if container.restart_policy == "Always":
                running.append(_limit(container, resource))
                sidecars += running[-1]
            else:
                starting = max(starting, sidecars + _limit(container, resource))
        total = max(sum(running), starting) if all(running) else 0.0
    if total:
        total += parse_quantity(pod.spec.overhead.get(resource, "0"))
    return total if 0 < total <= most_of(resource) else None


def _limit(container: Container, resource: str) -> float:
    return parse_quantity(container.resources.limits.get(resource, "0"))


def with_actual_resources(pod: Pod) -> Pod:
    """The pod with the requests that its node accounts for: the highest of the desired, effective and allocated ones.

    Limits are the higher of the desired and effective ones. Desired amounts of an infeasible resize, which the node can
    never provide, are ignored. Returns the same object if the status reports the amounts of the specification. Raises
    ValueError for an invalid quantity. Source: `determineContainerReqs` and `determineContainerLimits` of kubernetes
    component-helpers/resource, 1.36.
    """
    if not _reports_other_resources(pod):
        return pod
    status, spec = pod.status, pod.spec
    pending = pending_resize(status)
    feasible = pending is None or pending.reason != INFEASIBLE
    reported = {
        container.name: container for container in (*status.container_statuses, *status.init_container_statuses)
    }
    containers = [_actual(container, reported, feasible) for container in spec.containers or ()]
    initial = [
        _actual(container, reported, feasible) if container.restart_policy == "Always" else container
        for container in spec.init_containers
    ]
    resources = spec.resources
    if resources is not None and status.resources is not None:
        highest = _actual_resources(resources, status.resources, status.allocated_resources, feasible)
        requests = {name: highest.requests.get(name, "0") for name in resources.requests}
        resources = msgspec.structs.replace(highest, requests=requests)
    if (containers, initial, resources) == (spec.containers or [], spec.init_containers, spec.resources):
        return pod
    spec = msgspec.structs.replace(spec, containers=containers, init_containers=initial, resources=resources)
    return msgspec.structs.replace(pod, spec=spec)


def _reports_other_resources(pod: Pod) -> bool:
    """Whether the text of any amount differs. This check is fast, because nearly all pods report what they request."""
    status, spec = pod.status, pod.spec
    if status.container_statuses and _differs(spec.containers or (), status.container_statuses):
        return True
    if status.init_container_statuses and _differs(spec.init_containers, status.init_container_statuses):
        return True
    return spec.resources is not None and status.resources is not None


def _differs(containers: Sequence[Container], statuses: Iterable[ContainerStatus]) -> bool:
    for status in statuses:
        if status.resources is None:
            continue
        resources = next((container.resources for container in containers if container.name == status.name), None)
        if resources is not None:
            allocated = status.allocated_resources
            if resources != status.resources or (allocated and allocated != resources.requests):
                return True
    return False


def without_equal_status(pod: Pod) -> Pod:
    """The pod without the resources in its status, which need much memory in a large cluster. They remain if they
    change the result of `with_actual_resources`, and while a resize is pending."""
    status = pod.status
    if not status.container_statuses and not status.init_container_statuses and status.resources is None:
        return pod
    if _reports_other_resources(pod):
        try:
            if pending_resize(status) is not None or with_actual_resources(pod) is not pod:
                return pod
        except ValueError:
            return pod
    status = msgspec.structs.replace(
        status, container_statuses=(), init_container_statuses=(), resources=None, allocated_resources=None
    )
    return msgspec.structs.replace(pod, status=status)


def _actual(container: Container, reported: Mapping[str, ContainerStatus], feasible: bool) -> Container:
    status = reported.get(container.name)
    if status is None or status.resources is None:
        return container
    resources = _actual_resources(container.resources, status.resources, status.allocated_resources, feasible)
    return container if resources is container.resources else msgspec.structs.replace(container, resources=resources)


def _actual_resources(
    wanted: ResourceRequirements, in_effect: ResourceRequirements, allocated: Mapping[str, str] | None, feasible: bool
) -> ResourceRequirements:
    if wanted == in_effect and (not allocated or allocated == wanted.requests):
        return wanted
    requests = (wanted.requests if feasible else {}, in_effect.requests, allocated or {})
    limits = (wanted.limits if feasible else {}, in_effect.limits)
    return ResourceRequirements(requests=_highest_quantities(*requests), limits=_highest_quantities(*limits))


def _highest_quantities(*alternatives: Mapping[str, str]) -> dict[str, str]:
    """The largest quantity of each resource. Of equal quantities, the first text is kept, so that the text of the
    specification remains."""
    names = dict.fromkeys(name for quantities in alternatives for name in quantities)
    return {
        name: max((quantities[name] for quantities in alternatives if name in quantities), key=magnitude)
        for name in names
    }
