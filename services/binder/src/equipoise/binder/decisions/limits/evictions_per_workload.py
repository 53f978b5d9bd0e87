"""Limits how often one workload may lose a pod."""

from equipoise.binder.decisions.limits.rule import Count, WindowedLimit
from equipoise.contracts.configuration.duration import Duration


class EvictionsPerWorkload(WindowedLimit, frozen=True, kw_only=True):
    """Evictions of one workload's pods in any window."""

    per = scope = "workload"
    counts = "evictions of {eviction.workload} in {limit.window}"

    max: Count = 1
    window: Duration = Duration(300)
