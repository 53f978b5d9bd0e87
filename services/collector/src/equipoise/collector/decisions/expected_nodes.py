"""Which nodes are expected to have data. Coverage is the share of these nodes that has data."""

from collections.abc import Mapping, Sequence

from equipoise.collector.decisions.pod_times import unix_seconds
from equipoise.collector.state.placement import readiness
from equipoise.contracts.kubernetes.nodes.virtual_nodes import virtual_node
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.recent import is_recent


def unmeasurable(node: Node, unmeasured: Sequence[Mapping[str, str]] = ()) -> str:
    """The reason why this node may lack data; empty if missing data is a fault.

    A virtual node has no machine, a Windows node no node-exporter, and a node with all labels of an entry of
    `unmeasured` (`collector.unmeasuredNodes`) is not measured. If such a node has data nevertheless, it counts.
    """
    labels = node.metadata.labels
    if virtual := virtual_node(labels, node.spec.taints):
        return f"{virtual}: there is no machine to measure"
    if "windows" in (labels.get("kubernetes.io/os"), labels.get("beta.kubernetes.io/os")):
        return "Windows node: it has other metrics"
    for selector in unmeasured:
        if selector.items() <= labels.items():
            names = ", ".join(f"{label}={value}" for label, value in selector.items())
            return f"collector.unmeasuredNodes has {names}"
    return ""


def not_yet_expected(node: Node, now: float, settling_period: float) -> str:
    """Why no data is expected of a node at `now`: not Ready, or younger than the period (seconds); else empty."""
    if not readiness(node)[0]:
        return "not Ready"
    created_at = unix_seconds(node.metadata.creation_timestamp) or 0.0
    if is_recent(created_at, now, settling_period):
        return f"created {max(0.0, now - created_at):.0f} s ago: data is expected after {settling_period:g} s"
    return ""
