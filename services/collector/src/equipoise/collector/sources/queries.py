"""PromQL for every question. One query asks for all nodes (or pods) at once.

A mean of cpu is the rate of its counter over the whole window, never a mean of rates. Only questions about raw
samples (`count`, `newest`, `last`, `spacing`) tell whether such a mean may be trusted: rate() divides by the window
however little of it has samples, and goes on answering for a whole window after its source died.
"""

from collections.abc import Mapping

import msgspec

from equipoise.collector.questions import Ask, Resource, Subject


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Which metrics hold the usage of nodes and pods: cpu as a counter of seconds, memory as a gauge of bytes."""

    metrics: Mapping[tuple[Subject, Resource], str]
    memory: str
    """What the memory metrics count, as `load.memory` names it."""


PROFILES: Mapping[str, Profile] = {
    "kubelet": Profile(
        metrics={
            ("node", "cpu"): "node_cpu_usage_seconds_total",
            ("node", "memory"): "node_memory_working_set_bytes",
            ("pod", "cpu"): "pod_cpu_usage_seconds_total",
            ("pod", "memory"): "pod_memory_working_set_bytes",
        },
        memory="workingSet",
    ),
}


def milliseconds(seconds: float) -> str:
    """A duration as every PromQL dialect reads it, however short: 1.333 s is `1333ms`."""
    return f"{max(1, round(seconds * 1000))}ms"


def selector(metric: str, matchers: Mapping[str, str]) -> str:
    """`metric{name="value"}` with values quoted as PromQL wants them."""
    if not matchers:
        return metric
    pairs = ",".join(f'{name}="{_quoted(value)}"' for name, value in sorted(matchers.items()))
    return f"{metric}{{{pairs}}}"


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def promql(ask: Ask, profile: Profile, matchers: Mapping[str, str]) -> str:
    """The query for one question."""
    raw = selector(profile.metrics[(ask.subject, ask.resource)], matchers)
    window, step = milliseconds(ask.length), milliseconds(ask.step)
    match ask.what:
        case "mean":
            return f"rate({raw}[{window}])" if ask.resource == "cpu" else f"avg_over_time({raw}[{window}])"
        case "count":
            return f"count_over_time({raw}[{window}])"
        case "newest":
            return f"timestamp({raw})"
        case "last":
            return f"max_over_time(timestamp({raw})[{window}:{step}])"
        case "spacing":
            return f"{raw}[{window}]"
    values = f"rate({raw}[{step}])[{window}:{step}]" if ask.resource == "cpu" else f"{raw}[{window}]"
    match ask.what:
        case "p95":
            return f"quantile_over_time(0.95, {values})"
        case "max":
            return f"max_over_time({values})"
        case "deviation":
            return f"stddev_over_time({values})"
