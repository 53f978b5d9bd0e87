"""The base of load on nodes whose allocatable was amplified for kube-scheduler.

Koordinator raises a node's allocatable, so that more requests fit on it, and keeps the raw amount in an annotation.
Load as a share of the amplified amount would be too low. Those who can write the annotation (the node's kubelet,
Koordinator's webhook) can also write the node's status, so using it grants nothing new.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.quantity import known_quantity
from equipoise.contracts.unreadable.lenient_decoding import DECODE_ERRORS

RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"
"""JSON, quantities by resource. Source: koordinator, apis/extension/node_resource_amplification.go."""


def base_of(node: Node, kind: Literal["allocatable", "capacity"]) -> Mapping[str, str]:
    """The quantities by resource of the node: its capacity, or its allocatable before Koordinator amplified it."""
    if kind == "capacity":
        return node.status.capacity
    if node.metadata.unreadable:
        return node.status.allocatable
    return {**node.status.allocatable, **_raw(node.metadata.annotations.get(RAW_ALLOCATABLE, "{}"))}


def _raw(text: str) -> Mapping[str, str]:
    """The quantities in the annotation. Empty if the annotation is invalid, so that those of the status are used."""
    try:
        amounts = msgspec.json.decode(text, type=dict[str, str])
        return amounts if all(known_quantity(name, amount) > 0 for name, amount in amounts.items()) else {}
    except (ValueError, *DECODE_ERRORS):
        return {}
