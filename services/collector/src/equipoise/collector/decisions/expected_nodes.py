"""Which nodes are expected to have data. Coverage is the share of them that has."""

from equipoise.collector.state.placement import readiness
from equipoise.collector.state.pod_times import unix_seconds
from equipoise.contracts.kubernetes.objects import Node

VIRTUAL_TAINT = "virtual-kubelet.io/provider"
"""Virtual-kubelet sets it on every node that it creates, with the label `type: virtual-kubelet`."""


def unmeasurable(node: Node) -> str:
    """Why missing data of this node is no fault; empty when it is one.

    A virtual node has no machine, a Windows node no node-exporter. Such a node counts when it has data all the same.
    """
    labels = node.metadata.labels
    if labels.get("type") == "virtual-kubelet" or any(taint.key == VIRTUAL_TAINT for taint in node.spec.taints):
        return "virtual node: there is no machine to measure"
    if "windows" in (labels.get("kubernetes.io/os"), labels.get("beta.kubernetes.io/os")):
        return "Windows node: it has other metrics"
    return ""


def not_yet_expected(node: Node, now: float, settling_period: float) -> str:
    """Why no data is expected of a node at `now`: not Ready, or younger than the period (seconds); else empty."""
    if not readiness(node)[0]:
        return "not Ready"
    age = now - (unix_seconds(node.metadata.creation_timestamp) or 0.0)
    if age < settling_period:
        return f"created {age:.0f} s ago: data is expected after {settling_period:g} s"
    return ""
