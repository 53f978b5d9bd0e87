"""Whether the load of enough nodes is known to act on it (design law 2): for scores, and for evictions."""

from collections.abc import Iterable
from typing import Literal

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.correction import is_fresh, skew_of
from equipoise.contracts.messages.utilization import UtilizationCycle

Use = Literal["score", "eviction"]
"""What the loads are used for: `load.freshness` and `load.coverage` have a limit for each."""

SHARD_LIFETIME = 10.0
"""Multiples of `load.freshness.score` after which a shard without new cycles no longer exists.

By default 1,800 s: as long as the bus keeps its last cycle, so that a restarted process decides in the same way.
"""


def coverage_problem(
    cycles: Iterable[UtilizationCycle], *, known: int, load: LoadSettings, use: Use, now: float
) -> str:
    """Why the coverage is too low: the load of too few nodes is known; "" when it is sufficient.

    `known`: the number of nodes whose load the caller itself knows and may use, because the bus may lose messages; at
    most as many count as the collectors report. Nodes of a shard without new cycles remain expected, with an unknown
    load. Evictions fail closed: every shard must reach the limit on its own, and the nodes of a shard that reports a
    problem count as unknown.
    """
    max_age: float = getattr(load.freshness, use)
    needed: float = getattr(load.coverage, use)
    shards = [cycle for cycle in cycles if now - cycle.queried_at <= SHARD_LIFETIME * load.freshness.score]
    current = [cycle for cycle in shards if is_fresh(cycle.queried_at, now, max_age)]
    problem = next((cycle.problem for cycle in shards if cycle.problem), "")
    because = f" ({problem})" if problem else ""
    if not shards:
        return "no collector has completed a cycle yet: `equipoise doctor` finds why"
    if not current:
        return f"no collector has completed a cycle within {max_age:g} s{because}"
    if abs(skew := skew_of(current)) > load.freshness.skew_unknown:
        return f"Prometheus' clock differs by {skew:+.1f} s: the age of no sample is known{because}"
    expected = sum(cycle.expected for cycle in shards)
    if expected == 0:
        return f"no node is expected to have a load yet{because}"
    closed = use == "eviction"
    fresh = {cycle.shard: 0 if closed and cycle.problem else cycle.fresh for cycle in current}
    for cycle in shards if closed and len(shards) > 1 else ():
        if (fresh_nodes := fresh.get(cycle.shard, 0)) < needed * cycle.expected:
            why = f" ({cycle.problem})" if cycle.problem else ("" if cycle.shard in fresh else " (its cycles stopped)")
            return f"shard {cycle.shard}: {_share_known(fresh_nodes, cycle.expected, needed)}{why}"
    total = min(known, sum(fresh.values()))
    if total >= needed * expected:
        return ""
    missing = next((f" ({node}: {why})" for cycle in current for node, why in cycle.missing.items()), "")
    return f"{_share_known(total, expected, needed)}{because or missing}"


def readiness_problem(ready: int, nodes: int, load: LoadSettings) -> str:
    """Why nothing may be evicted while too many nodes are not Ready, whatever is known of the others; "" otherwise."""
    if ready >= load.coverage.eviction * nodes:
        return ""
    return f"{ready} of {nodes} nodes are Ready, {load.coverage.eviction:.0%} needed (load.coverage.eviction)"


def _share_known(known: int, expected: int, needed: float) -> str:
    return f"the load of {known} of {expected} nodes is known, {needed:.0%} needed"
