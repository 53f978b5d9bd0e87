"""Requests of pods and capacities of nodes as whole numbers: millicores of cpu, the base unit of everything else.

A sum is rounded up and its parts are not, as in kube-scheduler (`Resource.Add` of pkg/scheduler/framework).
"""

import math
from collections.abc import Mapping
from functools import lru_cache

from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.requests import pod_requests_as
from equipoise.scheduling.model.quantities import MILLI, Quantity, higher, read_quantity

Amounts = dict[str, int]
"""Amounts by resource name."""

CPU, MEMORY, STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"

MISSING: Mapping[str, str] = {CPU: "100m", MEMORY: "200Mi"}
"""What scores assume for a container that requests none. A request of 0 remains 0."""


EXACT = 2**53
"""Up to this amount floats are exact, and 100 times the amount fits in 64 bits."""

_MOST = 2**63 - 1


def requested(pod: Pod) -> Amounts:
    """Raises ValueError for an invalid quantity."""
    return _integers(pod_requests_as(pod, read_quantity, higher))


def requested_or_assumed(pod: Pod) -> tuple[int, int]:
    """Millicores and bytes, with MISSING for containers without a request.

    In a pod with requests at pod level, MISSING applies only to a resource that neither the pod nor any of its
    containers requests.
    """
    missing = MISSING
    if pod.spec.resources is not None and pod.spec.resources.requests:
        given = pod_requests_as(pod, read_quantity, higher)
        missing = {name: amount for name, amount in MISSING.items() if name not in given}
    amounts = _integers(pod_requests_as(pod, read_quantity, higher, missing=missing))
    return amounts.get(CPU, 0), amounts.get(MEMORY, 0)


def requested_by_containers(pod: Pod) -> Amounts:
    """The requests, with MISSING for each container without one, whatever the pod as a whole requests."""
    return _integers(pod_requests_as(pod, read_quantity, higher, missing=MISSING))


def allocatable(node: Node) -> Amounts:
    """Raises ValueError for an invalid quantity."""
    return {name: _integer(text, MILLI if name == CPU else 0) for name, text in node.status.allocatable.items()}


@lru_cache(maxsize=16_384)
def _integer(text: str, scale: int) -> int:
    return read_quantity(text).value(scale)


def whole(amounts: Mapping[str, float]) -> Amounts:
    """Whole numbers of amounts in base units."""
    # A float of 1.1 cores is 1100.0000000000002 millicores.
    return {
        name: min(math.ceil(round(amount * 1_000, 6)) if name == CPU else math.ceil(round(amount, 6)), _MOST)
        for name, amount in amounts.items()
    }


def _integers(quantities: Mapping[str, Quantity]) -> Amounts:
    return {name: each.value(MILLI if name == CPU else 0) for name, each in quantities.items()}
