"""crane-scheduler's annotations on nodes, for programs that read them: its keys, values and time format.

Source: crane-scheduler, pkg/controller/annotator and deploy/manifests/dynamic/policy.yaml. Times of crane end in Z but
are in the time zone of its environment variable TZ. Equipoise writes UTC, so crane's scheduler must run with TZ=UTC.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Literal

import msgspec

from equipoise.contracts.load.correction import load_of
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.resources import Resources

PERIOD = 180.0
"""Seconds between two writes of crane's most frequent metrics. After another five minutes crane reads them as 0."""

HOT_VALUE = "node_hot_value"

HOT_SPANS: tuple[tuple[float, int], ...] = ((300.0, 5), (60.0, 2))
"""(seconds, count): a node's hot value rises by one for every `count` pods placed on it within this many seconds."""


class _Measure(msgspec.Struct, frozen=True):
    window: str
    statistic: Literal["mean", "max"]
    resource: Literal["cpu", "memory"]


_MEASURES: Mapping[str, _Measure] = {
    "cpu_usage_avg_5m": _Measure("5m", "mean", "cpu"),
    "cpu_usage_max_avg_1h": _Measure("1h", "max", "cpu"),
    "cpu_usage_max_avg_1d": _Measure("1d", "max", "cpu"),
    "mem_usage_avg_5m": _Measure("5m", "mean", "memory"),
    "mem_usage_max_avg_1h": _Measure("1h", "max", "memory"),
    "mem_usage_max_avg_1d": _Measure("1d", "max", "memory"),
}

KEYS: tuple[str, ...] = (*_MEASURES, HOT_VALUE)


def crane_annotations(utilization: NodeUtilization, hot: int | None, now: float) -> dict[str, str]:
    """A node's known usage under crane's keys. Unknown values are left out, so that the old ones expire.

    Usage is a share of the base (crane writes a share of the machine), with the time of its newest sample (crane writes
    the time of writing).
    """
    annotations = {}
    for key, measure in _MEASURES.items():
        window = utilization.windows.get(measure.window)
        if window is None:
            continue
        usage: Resources = getattr(window, measure.statistic)
        share: float | None = getattr(load_of(usage, utilization.base), measure.resource)
        if share is not None:
            annotations[key] = f"{share:.5f},{_time(window.sampled_at)}"
    if hot is not None:
        annotations[HOT_VALUE] = f"{hot},{_time(now)}"
    return annotations


def hot_value(placed_at: Iterable[float], now: float) -> int:
    """The hot value of a node, from the times (Unix seconds) at which pods were placed on it."""
    times = list(placed_at)
    return sum(sum(at > now - span for at in times) // count for span, count in HOT_SPANS)


def _time(seconds: float) -> str:
    # fromtimestamp may round a fraction of a second up.
    return f"{datetime.fromtimestamp(math.floor(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}"
