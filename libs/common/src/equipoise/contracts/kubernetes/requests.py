"""What a pod asks of its node and may use there, summed over its containers as kube-scheduler does."""

from collections.abc import Iterable, Mapping

from equipoise.contracts.kubernetes.objects import Container, Pod
from equipoise.contracts.kubernetes.quantity import parse_quantity

Amounts = dict[str, float]
"""By resource name, in its base unit."""

_POD_LEVEL = ("cpu", "memory", "hugepages-")
"""Only these can be requested for a whole pod."""


def amounts_of(quantities: Mapping[str, str]) -> Amounts:
    """Raises ValueError for what is no quantity (the API server lets none in)."""
    return {resource: parse_quantity(text) for resource, text in quantities.items()}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0.0) + amount
    return total


def _with_starting(pod: Pod, running: Amounts) -> Amounts:
    """The most that is asked at any time: while one init container after another runs, or all the others."""
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, _requested(container)))
            starting = _highest(starting, sidecars)
        else:
            starting = _highest(starting, _sum((sidecars, _requested(container))))
    return _highest(_sum((running, sidecars)), starting)


def _highest(left: Amounts, right: Amounts) -> Amounts:
    return {resource: max(left.get(resource, 0.0), right.get(resource, 0.0)) for resource in {**left, **right}}


def _requested(container: Container) -> Amounts:
    return amounts_of(container.resources.requests)


def pod_requests(pod: Pod) -> Amounts:
    """max(Σ containers + Σ sidecars, each init container + the sidecars before it), pod-level values, + overhead.

    A sidecar is an init container with restartPolicy Always. Source: `PodRequests` of kubernetes
    component-helpers/resource.
    """
    total = _sum(_requested(container) for container in pod.spec.containers or ())
    if pod.spec.init_containers:
        total = _with_starting(pod, total)
    if pod.spec.resources is not None:
        whole = amounts_of(pod.spec.resources.requests)
        total |= {resource: amount for resource, amount in whole.items() if resource.startswith(_POD_LEVEL)}
    return _sum((total, amounts_of(pod.spec.overhead))) if pod.spec.overhead else total


def pod_limit(pod: Pod, resource: str) -> float | None:
    """Pod-level limit, else Σ containers + Σ sidecars; None as soon as one of them has no limit (0 is none).

    Raises ValueError for what is no quantity.
    """
    whole = pod.spec.resources.limits.get(resource) if pod.spec.resources is not None else None
    if whole is not None:
        return parse_quantity(whole)
    sidecars = [container for container in pod.spec.init_containers if container.restart_policy == "Always"]
    total = 0.0
    for container in (*(pod.spec.containers or ()), *sidecars):
        limit = container.resources.limits.get(resource)
        if limit is None:
            return None
        total += parse_quantity(limit)
    return total or None
