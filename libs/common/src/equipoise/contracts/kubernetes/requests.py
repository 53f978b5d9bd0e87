"""Requests and limits of a pod, summed over its containers as kube-scheduler does."""

from collections.abc import Iterable, Mapping

from equipoise.contracts.kubernetes.objects import Container, Pod
from equipoise.contracts.kubernetes.quantity import parse_quantity

Amounts = dict[str, float]
"""By resource name, in its base unit."""

_POD_LEVEL = ("cpu", "memory", "hugepages-")
"""Only these can be requested at pod level."""


def amounts_of(quantities: Mapping[str, str]) -> Amounts:
    """Raises ValueError for an invalid quantity (which the API server does not accept)."""
    return {resource: parse_quantity(text) for resource, text in quantities.items()}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0.0) + amount
    return total


def _with_starting(pod: Pod, running: Amounts, missing: Mapping[str, str]) -> Amounts:
    """The highest requests at any time: while the init containers run one after another, or after them."""
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, _requested(container, missing)))
            starting = _highest(starting, sidecars)
        else:
            starting = _highest(starting, _sum((sidecars, _requested(container, missing))))
    return _highest(_sum((running, sidecars)), starting)


def _highest(left: Amounts, right: Amounts) -> Amounts:
    return {resource: max(left.get(resource, 0.0), right.get(resource, 0.0)) for resource in {**left, **right}}


def _requested(container: Container, missing: Mapping[str, str]) -> Amounts:
    return amounts_of({**missing, **container.resources.requests} if missing else container.resources.requests)


_NONE: Mapping[str, str] = {}


def pod_requests(pod: Pod, *, missing: Mapping[str, str] = _NONE) -> Amounts:
    """max(Σ containers + Σ sidecars, each init container + the sidecars before it), pod-level values, + overhead.

    `missing`: the requests of a container that does not have them. A sidecar is an init container with restartPolicy
    Always. Source: `PodRequests` of kubernetes component-helpers/resource.
    """
    total = _sum(_requested(container, missing) for container in pod.spec.containers or ())
    if pod.spec.init_containers:
        total = _with_starting(pod, total, missing)
    if pod.spec.resources is not None:
        whole = amounts_of(pod.spec.resources.requests)
        total |= {resource: amount for resource, amount in whole.items() if resource.startswith(_POD_LEVEL)}
    return _sum((total, amounts_of(pod.spec.overhead))) if pod.spec.overhead else total


def pod_limit(pod: Pod, resource: str) -> float | None:
    """The limit of the pod in cores or bytes, computed like `pod_requests`; None: it has none.

    If one container or sidecar has no limit, the pod has none, as for the kubelet; 0 is no limit. An init container
    without a limit adds nothing. Overhead is added to a limit. Raises ValueError for an invalid quantity. Source:
    `PodLimits` of kubernetes component-helpers/resource.
    """
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
    return total + parse_quantity(pod.spec.overhead.get(resource, "0")) if total else None


def _limit(container: Container, resource: str) -> float:
    return parse_quantity(container.resources.limits.get(resource, "0"))
