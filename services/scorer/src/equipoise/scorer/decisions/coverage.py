"""Is enough of the fleet known to tell nodes apart? When not, all load would go to the few that are known."""

from collections.abc import Iterable

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.correction import is_fresh, skew_of
from equipoise.contracts.messages.utilization import UtilizationCycle

_FORGOTTEN_AFTER = 10.0
"""Lives after which a silent shard counts as dissolved: by default as long as the bus keeps its last word."""


def doubt(cycles: Iterable[UtilizationCycle], *, fresh_here: int, load: LoadSettings, now: float) -> str:
    """Why every score should be neutral now; empty when there is no reason.

    `fresh_here` is how many nodes this scorer itself knows: what the bus lost does not count as covered. A shard
    that fell silent still expects its nodes, and has none.
    """
    life = load.freshness.score
    current = [cycle for cycle in cycles if now - cycle.queried_at <= life * _FORGOTTEN_AFTER]
    if not current:
        return "no collector has ended a round yet"
    expected = sum(cycle.expected for cycle in current)
    speaking = [cycle for cycle in current if is_fresh(cycle.queried_at, now, life)]
    if not speaking:
        return f"no collector has ended a round within {load.freshness.score}"
    if expected <= 0:
        return "no node is expected to have a load yet"
    skew = skew_of(speaking)
    if abs(skew) > load.freshness.skew_unknown:
        return f"Prometheus' clock is {skew:+.1f} s off (allowed: {load.freshness.skew_unknown})"
    known = min(fresh_here, sum(cycle.fresh for cycle in speaking))
    if known / expected < load.coverage.score:
        return f"the load of {known} of {expected} nodes is known, at least {load.coverage.score:.0%} are needed"
    return ""
