"""Which nodes should have data. The share of them that has decides whether anything is acted upon at all."""

from equipoise.collector.state.placement import readiness
from equipoise.collector.state.pod_times import seconds
from equipoise.contracts.kubernetes.objects import Node

VIRTUAL_TAINT = "virtual-kubelet.io/provider"
"""Set on every node that virtual-kubelet makes; it labels them `type: virtual-kubelet`."""


def unmeasurable(node: Node) -> str:
    """Why this node may well have no data for ever; empty when that would be a fault.

    A virtual node has no machine behind it, a Windows node no node-exporter. One that has data all the same counts.
    """
    labels = node.metadata.labels
    if labels.get("type") == "virtual-kubelet" or any(taint.key == VIRTUAL_TAINT for taint in node.spec.taints):
        return "virtual: there is no machine to measure"
    if "windows" in (labels.get("kubernetes.io/os"), labels.get("beta.kubernetes.io/os")):
        return "Windows: its metrics are others"
    return ""


def not_yet_expected(node: Node, now: float, settling: float) -> str:
    """Why no data is expected of a node at `now`: not Ready, or younger than `settling` seconds; else empty."""
    if not readiness(node)[0]:
        return "not Ready"
    age = now - (seconds(node.metadata.creation_timestamp) or 0.0)
    return f"here for {age:.0f} s: data is expected after {settling:g} s" if age < settling else ""
