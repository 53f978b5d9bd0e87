"""Whether enough of the cluster is seen to move anything in it."""

from collections.abc import Collection

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.correction import skew_of
from equipoise.contracts.messages.utilization import UtilizationCycle


def blindness(cycles: Collection[UtilizationCycle], fresh: int, settings: LoadSettings) -> str:
    """Why nothing may be moved for want of data; "" when enough is known.

    `fresh`: nodes whose load is known right now, counted here and not taken from the collector: when that is silent,
    its last word stays.
    """
    if not cycles:
        return "the collector has not said yet how many nodes it expects"
    problem = next((cycle.problem for cycle in cycles if cycle.problem), "")
    because = f" ({problem})" if problem else ""
    skew = skew_of(cycles)
    if abs(skew) > settings.freshness.skew_unknown:
        return f"Prometheus' clock differs by {skew:.1f} s: no sample's age is known{because}"
    expected = sum(cycle.expected for cycle in cycles)
    if expected == 0:
        return f"the collector expects no node{because}"
    share = min(1.0, fresh / expected)
    if share < settings.coverage.eviction:
        needed = settings.coverage.eviction
        return f"load is known of {fresh} of {expected} nodes, {share:.0%} of {needed:.0%} needed{because}"
    return ""
