"""Messages of the reclaimer for tests of commands."""

from typing import Any

from builders import GIB, NOW

from equipoise.contracts.messages.reclaimed import ReclaimedBand, ReclaimedNode, ReclaimedTerms
from equipoise.contracts.messages.values.resources import Resources

DAY = 24


def cores(cpu: float | None, memory: float | None = None) -> Resources:
    """Cores and GiB; without GiB, four per core."""
    gib = memory if memory is not None or cpu is None else 4 * cpu
    return Resources(cpu=cpu, memory=None if gib is None else gib * GIB)


def a_band(offered: float | None, requested: float | None = 0.0, hours: float = 24.0, **fields: Any) -> ReclaimedBand:
    values = {"reclaimed": cores(offered), "offered": cores(offered), "requested": cores(requested), "hours": hours}
    return ReclaimedBand(**(values | fields))


def a_reclaimed_node(name: str = "node-a", **fields: Any) -> ReclaimedNode:
    """8 cores and 32 GiB: 3 cores used, 1 idle for a day, 1.5 for 6 hours, 2 now; 1 core of batch requested."""
    terms = {
        resource: ReclaimedTerms(
            capacity=8 * unit, margin=3 * unit, system=unit, reserved=0.5 * unit, high_priority=2 * unit
        )
        for resource, unit in (("cpu", 1.0), ("memory", 4 * GIB))
    }
    bands = {"mid": a_band(1.0), "batch": a_band(1.5, 1.0, 6.0), "free": ReclaimedBand(reclaimed=cores(2.0))}
    values = {
        "node": name, "uid": f"uid-{name}", "evaluated_at": NOW - 10, "sampled_at": NOW - 20, "terms": terms,
        "bands": bands, "highest": {}, "mode": "enforce", "written": True, "epoch": 1, "sequence": 1,
    }  # fmt: skip
    return ReclaimedNode(**(values | fields))


def a_stale_node(name: str, **fields: Any) -> ReclaimedNode:
    """As the reclaimer publishes a node that is no longer measured: without terms, with a part of what it offered."""
    unknown = {"reclaimed": Resources()}
    bands = {"mid": a_band(0.5, **unknown), "batch": a_band(0.75, 0.5, 6.0, **unknown)}
    degraded = "its newest sample is 500 s old: 67% of the last known amounts are offered"
    return a_reclaimed_node(name, **({"terms": {}, "bands": bands, "degraded": degraded} | fields))
