"""Whether the load of enough nodes is known to move pods in the cluster."""

from collections.abc import Collection

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.correction import skew_of
from equipoise.contracts.messages.utilization import UtilizationCycle


def coverage_problem(cycles: Collection[UtilizationCycle], fresh: int, settings: LoadSettings) -> str:
    """Why no pod may be moved for lack of data; "" when enough is known.

    `fresh`: nodes whose load is known now. It is counted here: the collector's own number remains when it stops.
    """
    if not cycles:
        return "no message of the collector yet: the number of expected nodes is not known"
    problem = next((cycle.problem for cycle in cycles if cycle.problem), "")
    because = f" ({problem})" if problem else ""
    skew = skew_of(cycles)
    if abs(skew) > settings.freshness.skew_unknown:
        return f"Prometheus' clock differs by {skew:.1f} s: the age of samples is not known{because}"
    expected = sum(cycle.expected for cycle in cycles)
    if expected == 0:
        return f"the collector expects no node{because}"
    share = min(1.0, fresh / expected)
    if share < settings.coverage.eviction:
        needed = settings.coverage.eviction
        return f"load is known of {fresh} of {expected} nodes, {share:.0%} of {needed:.0%} needed{because}"
    return ""
