"""Converts the placement of a node, from a message, to a Node object and to the requests of its pods."""

import math
from collections.abc import Callable, Iterator

from equipoise.contracts.colocation.bands import RESOURCE_NAMES, OfferedBand
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec, NodeStatus
from equipoise.contracts.kubernetes.requests import Amounts
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.values.resources import Resources

REPORTED = frozenset({"cpu", "memory", "pods", *(name for names in RESOURCE_NAMES.values() for name in names)})
"""The resources whose amounts a placement contains completely."""


def node_object(placement: NodePlacement) -> Node:
    """The Node of a placement, with the REPORTED resources."""
    bands = placement.colocation.amounts
    offered = {
        **_amounts(placement.allocatable),
        **{name: amount for band in bands for name, amount in _band_amounts(band, bands[band])},
        "pods": float(placement.pod_capacity),
    }
    return Node(
        metadata=ObjectMeta(name=placement.node, uid=placement.uid, labels=placement.labels),
        spec=NodeSpec(taints=placement.taints, unschedulable=placement.cordoned),
        status=NodeStatus(allocatable=quantities(offered, math.floor)),
    )


def requested_amounts(placement: NodePlacement) -> Amounts:
    """The amounts that all pods of the node request."""
    total: Amounts = {}
    for pod in placement.pods:
        for resource, amount in amounts_of_pod(pod).items():
            total[resource] = total.get(resource, 0.0) + amount
    return total


def amounts_of_pod(pod: PlacedPod) -> Amounts:
    """The amounts that a pod requests."""
    band = pod.band
    return _amounts(pod.requests) | (dict(_band_amounts(band, pod.reclaimed_requests)) if band is not None else {})


def quantities(amounts: Amounts, rounded: Callable[[float], int] = math.ceil) -> dict[str, str]:
    """Amounts as quantities. `rounded` converts to whole millicores and bytes: upwards for requests, downwards for
    capacities."""
    # The inner rounding removes errors of floats: 1.1 cores are 1100.0000000000002 millicores.
    return {
        name: f"{rounded(round(amount * 1_000, 6))}m" if name == "cpu" else str(rounded(round(amount, 6)))
        for name, amount in amounts.items()
    }


def _amounts(resources: Resources) -> Amounts:
    pairs = (("cpu", resources.cpu), ("memory", resources.memory))
    return {name: amount for name, amount in pairs if amount is not None}


def _band_amounts(band: OfferedBand, amounts: Resources) -> Iterator[tuple[str, float]]:
    cpu, memory = RESOURCE_NAMES[band]
    if amounts.cpu is not None:
        yield cpu, amounts.cpu * 1_000
    if amounts.memory is not None:
        yield memory, amounts.memory
