"""What no single series tells: readings that cannot be true beside each other. They are unknown, with a reason.

- A machine whose cpu counter stands still while its memory is in use: its exporter repeats an old page, and rate()
  calls that idle.
- Half of the machines that work at exactly 0: something between them and us is broken, and nobody knows for whom.
"""

from collections.abc import Collection, Mapping

import msgspec

from equipoise.collector.decisions.query import Resource
from equipoise.collector.decisions.sample_validation import Reading, Reason

ZERO_SHARE = 0.5
"""Share of the measured nodes with pods from which on exactly 0 is not believed."""

LEAST_ZEROS = 2
"""A single node may be as idle as it says."""

Readings = Mapping[Resource, Mapping[str, Reading]]
"""By resource and node."""


def plausible(readings: Readings, busy: Collection[str]) -> dict[Resource, dict[str, Reading]]:
    """The same readings, those that cannot be true unknown. `busy`: nodes that had running pods all the time."""
    moving = {resource: dict(found) for resource, found in readings.items()}
    _without_frozen(moving)
    return {resource: _without_zeros(resource, found, busy) for resource, found in moving.items()}


def _without_frozen(readings: dict[Resource, dict[str, Reading]]) -> None:
    cpu, memory = readings.get("cpu", {}), readings.get("memory", {})
    for node, reading in cpu.items():
        beside = memory.get(node)
        if reading.mean == 0.0 and beside is not None and beside.mean:
            why = "its cpu counter stands still while memory is in use"
            cpu[node] = _unknown(reading, "frozen", f"cpu: {why}")
            memory[node] = _unknown(beside, "frozen", f"memory: {why}")


def _without_zeros(resource: Resource, readings: dict[str, Reading], busy: Collection[str]) -> dict[str, Reading]:
    measured = [node for node, reading in readings.items() if reading.mean is not None and node in busy]
    zeros = [node for node in measured if readings[node].mean == 0.0]
    if len(zeros) < LEAST_ZEROS or len(zeros) < ZERO_SHARE * len(measured):
        return readings
    why = f"{resource}: {len(zeros)} of {len(measured)} nodes with pods read exactly 0"
    # An empty node may really use nothing, but the same pipe brings its 0 as theirs.
    return {
        node: _unknown(reading, "zeros", why) if reading.mean == 0.0 else reading for node, reading in readings.items()
    }


def _unknown(reading: Reading, reason: Reason, why: str) -> Reading:
    return msgspec.structs.replace(reading, mean=None, statistics={}, reason=reason, why=why)
