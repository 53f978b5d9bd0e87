"""Limits how often one namespace may lose a pod."""

from equipoise.binder.decisions.limits.rule import Count, WindowedLimit
from equipoise.contracts.configuration.duration import Duration


class EvictionsPerNamespace(WindowedLimit, frozen=True, kw_only=True):
    """Evictions in one namespace in any window."""

    per = scope = "namespace"
    replaced_by_campaign = True
    counts = "evictions in namespace {eviction.namespace} in {limit.window}"

    max: Count = 5
    window: Duration = Duration(600)
