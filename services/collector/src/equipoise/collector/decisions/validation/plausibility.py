"""Makes readings of nodes unknown that contradict those of other nodes, or of the other resource."""

from collections.abc import Collection

import msgspec

from equipoise.collector.decisions.query import ResourceName
from equipoise.collector.decisions.validation.nodes import NodeReading, Readings
from equipoise.collector.decisions.validation.usage import Reason, UnknownUsage

MIN_ZEROS = 2
MAX_ZERO_SHARE = 0.5
"""The metrics path is faulty if at least this many nodes with pods, and this share of them, read exactly 0."""


def check_plausibility(readings: Readings, with_pods: Collection[str]) -> dict[ResourceName, dict[str, NodeReading]]:
    """The same readings, with implausible ones made unknown. `with_pods`: nodes that ran pods throughout the window.

    - `frozen`: cpu of exactly 0 while memory is in use. The exporter repeats an old page, which rate() reads as idle.
    - `zeros`: half of the nodes with pods at exactly 0. The metrics path is broken, and it is not known for which
    nodes.
    """
    checked = {resource: dict(by_node) for resource, by_node in readings.items()}
    cpu, memory = checked.get("cpu", {}), checked.get("memory", {})
    for node, reading in cpu.items():
        other = memory.get(node)
        if reading.mean == 0.0 and other is not None and other.mean:
            text = "its cpu counter does not change while memory is in use"
            cpu[node] = _made_unknown(reading, "frozen", f"cpu: {text}")
            memory[node] = _made_unknown(other, "frozen", f"memory: {text}")
    return {resource: _without_zeros(resource, by_node, with_pods) for resource, by_node in checked.items()}


def _without_zeros(
    resource: ResourceName, readings: dict[str, NodeReading], with_pods: Collection[str]
) -> dict[str, NodeReading]:
    measured = [node for node, reading in readings.items() if reading.mean is not None and node in with_pods]
    zeros = [node for node in measured if readings[node].mean == 0.0]
    if len(zeros) < MIN_ZEROS or len(zeros) < MAX_ZERO_SHARE * len(measured):
        return readings
    text = f"{resource}: {len(zeros)} of {len(measured)} nodes with pods read exactly 0"
    # An empty node may really use nothing, but its 0 comes through the same path.
    return {
        node: _made_unknown(reading, "zeros", text) if reading.mean == 0.0 else reading
        for node, reading in readings.items()
    }


def _made_unknown(reading: NodeReading, reason: Reason, text: str) -> NodeReading:
    return msgspec.structs.replace(reading, mean=None, statistics={}, unknown=UnknownUsage(reason, text))
