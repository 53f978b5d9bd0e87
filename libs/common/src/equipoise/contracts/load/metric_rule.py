"""A rule about one metric of a node, as in the policies of Telemetry Aware Scheduling."""

import math
from collections.abc import Iterable, Mapping
from typing import Literal

from equipoise.contracts.configuration.settings import Section

Operator = Literal["LessThan", "GreaterThan", "Equals"]

PRESSURE_METRICS: Mapping[str, Literal["cpu", "memory", "io"]] = {
    "pressure.cpu": "cpu",
    "pressure.memory": "memory",
    "pressure.io": "io",
}
"""The metrics of pressure, and their resources."""

FIXED_METRICS = ("cpu", "memory", *PRESSURE_METRICS)
"""The metrics that need no setting."""

_ROUNDING = 1e-9


class MetricRule(Section, frozen=True, kw_only=True):
    """Compares one metric of a node with a target. A node whose metric is unknown never matches."""

    metric: str
    """cpu or memory: the load in percent. pressure.cpu, pressure.memory or pressure.io: the percentage of time in which
    processes wait. Another name: the load of this further resource (`load.resources`) in percent of its capacity."""

    operator: Operator
    target: float
    """A percentage."""

    def __post_init__(self) -> None:
        if not self.metric:
            raise ValueError(f"metric must be {', '.join(FIXED_METRICS)} or a name in load.resources")
        if not math.isfinite(self.target):
            raise ValueError("target must be a number in percent")

    def matches(self, value: float | None) -> bool:
        """Whether a value in percent matches; None: it is unknown."""
        if value is None or math.isnan(value):
            return False
        match self.operator:
            case "LessThan":
                return value < self.target - _ROUNDING
            case "GreaterThan":
                return value > self.target + _ROUNDING
            case "Equals":
                return abs(value - self.target) <= _ROUNDING

    def text(self, value: float) -> str:
        """`network 93.0 GreaterThan 80`."""
        return f"{self.metric} {value:.1f} {self.operator} {self.target:g}"


Match = Literal["any", "all"]


def matching(rules: Iterable[MetricRule], values: Mapping[str, float | None], match: Match) -> str:
    """The rules that a node matches, as a text; empty if these are too few. `values`: percent by metric."""
    listed = list(rules)
    texts = [
        rule.text(value) for rule in listed if (value := values.get(rule.metric)) is not None and rule.matches(value)
    ]
    return ", ".join(texts) if texts and (match == "any" or len(texts) == len(listed)) else ""


def further_metrics(metrics: Iterable[str]) -> tuple[str, ...]:
    """The metrics that are neither cpu nor memory, each once."""
    return tuple(dict.fromkeys(name for name in metrics if name not in ("cpu", "memory")))
