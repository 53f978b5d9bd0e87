"""rules: keeps pods off nodes by the values of single metrics, and prefers the nodes with the lowest or highest value.

After the strategies `dontschedule` and `scheduleonmetric` of Telemetry Aware Scheduling, with these differences. The
score is the value itself and not the rank, so that a small difference is a small one, and no score is negative. A value
that is unknown matches no rule. Where the metric is preferred, it counts as the worst value of all nodes: no node is
better because its metric has vanished, and the other parts of a mix decide where all have. Old values are unknown.
Source: intel/platform-aware-scheduling, telemetry-aware-scheduling/pkg/strategies and pkg/telemetryscheduler.
"""

from collections.abc import Sequence
from typing import Literal

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.metric_rule import Match, MetricRule, further_metrics, matching
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand
from equipoise.scorer.decisions.policies.policy import SingleWindowPolicy

NEUTRAL = 50.0
"""The score where the preferred metric is known of no node."""


class Preference(Section, frozen=True, kw_only=True):
    """Which nodes come first. A node whose metric is unknown is as the worst whose metric is known."""

    metric: str
    """See `avoid`."""

    operator: Literal["LessThan", "GreaterThan"] = "LessThan"
    """LessThan: the node with the lowest value is best, and scores 100 at 0%. GreaterThan: that with the highest value,
    and scores 100 at 100%."""


class MetricRules(SingleWindowPolicy, frozen=True, kw_only=True, tag="rules"):
    """Scores by single metrics. To score by load as well, combine it with another policy in a `mix`."""

    window: str = "5m"
    """The name in `load.windows` of the window of cpu and memory. Other metrics are those of the shortest window."""

    avoid: tuple[MetricRule, ...] = ()
    """Nodes that match score 0. The filter refuses them, if it is enabled (`scorer.extender.filter`)."""

    match: Match = "any"
    """Whether one rule of `avoid` has to match, or all."""

    prefer: Preference | None = None
    """null: all nodes that are not avoided score 100."""

    def __post_init__(self) -> None:
        if not self.avoid and self.prefer is None:
            raise ValueError(
                "rules needs avoid or prefer (example: avoid: [{metric: cpu, operator: GreaterThan, target: 80}])"
            )

    @property
    def further(self) -> tuple[str, ...]:
        metrics = [rule.metric for rule in self.avoid]
        return further_metrics([*metrics, *(() if self.prefer is None else (self.prefer.metric,))])

    def score_window(self, nodes: CandidateNodes, demand: Demand, at: int) -> Array:
        """The preferred metric as points; 0 for nodes that are avoided, and for those whose load is unknown."""
        if self.prefer is None:
            points = np.full(len(nodes.load), 100.0)
        else:
            lowest_first = self.prefer.operator == "LessThan"
            percent = _percent(nodes, self.prefer.metric, at)
            percent = np.where(np.isnan(percent), _worst_percent(nodes, self.prefer, at), percent)
            value = np.clip(percent, 0.0, 100.0)
            points = np.nan_to_num(100.0 - value if lowest_first else value, nan=NEUTRAL)
        points[[index for index, why in enumerate(self._matches(nodes, at)) if why]] = 0.0
        points[np.isnan(nodes.load[:, at]).all(axis=1)] = 0.0
        return points

    def refuse(self, nodes: CandidateNodes, demand: Demand) -> dict[str, str] | None:
        """The nodes that `avoid` matches, with the values. None without `avoid`: use the shared `thresholds.high`."""
        if not self.avoid:
            return None
        if self.window not in nodes.windows:
            return {}
        matches = self._matches(nodes, nodes.windows.index(self.window))
        return {name: why for name, why in zip(nodes.names, matches, strict=True) if why}

    def _matches(self, nodes: CandidateNodes, at: int) -> Sequence[str]:
        """The rules that each node matches, as a text; empty if it is not avoided."""
        columns = {rule.metric: _percent(nodes, rule.metric, at).tolist() for rule in self.avoid}
        return [
            matching(self.avoid, {metric: values[index] for metric, values in columns.items()}, self.match)
            for index in range(len(nodes.load))
        ]


def _percent(nodes: CandidateNodes, metric: str, at: int) -> Array:
    """The metric of each node in percent; NaN is unknown. `at`: the position of the window of cpu and memory."""
    if metric in RESOURCES:
        percent: Array = 100.0 * nodes.load[:, at, RESOURCES.index(metric)]
        return percent
    if nodes.further is None:
        return np.full(len(nodes.load), np.nan)
    return 100.0 * nodes.further.column(metric).load


def _worst_percent(nodes: CandidateNodes, prefer: Preference, at: int) -> float:
    """The least preferred value of all nodes; NaN if none is known."""
    highest = prefer.operator == "LessThan"
    if prefer.metric in RESOURCES:
        values = nodes.cluster.maximum if highest else nodes.cluster.minimum
        worst = float(values[at, RESOURCES.index(prefer.metric)])
    elif nodes.further is None:
        return np.nan
    else:
        column = nodes.further.column(prefer.metric)
        worst = column.highest if highest else column.lowest
    return 100.0 * worst if np.isfinite(worst) else np.nan
