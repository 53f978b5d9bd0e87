"""dynamic: the Dynamic plugin of crane-scheduler. Prefers the least used nodes, by a weighted list of statistics.

A node is refused if one of its statistics is above a limit, and loses points for pods that were placed on it recently.
The pod's own demand is not used. Source: crane-scheduler, pkg/plugins/dynamic and pkg/controller/annotator.

The defaults are those of crane, with the windows of Equipoise. Crane's `*_usage_avg_5m` is the mean of `5m`. Its
`*_usage_max_avg_1h` and `_1d` (the highest five-minute average) are the `max` of `1h` and `1d`, which has a shorter
inner step. The collector must measure these statistics: `statistics: [max]` and `statisticsWindowLimit: 1d`. A
statistic that is not measured counts as fully used on every node.

Crane only counts new pods. In Equipoise, the expected usage of a new pod is part of the load as soon as it is placed
(unless `load.compensation` is off), and the count is subtracted in addition; `hotValue: []` disables the count.
"""

from typing import Annotated, Literal

from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Percent, Section
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand, Statistic
from equipoise.scorer.decisions.policies.policy import ScoringPolicy, Weight, above

_PENALTY = 10.0
"""Points subtracted for each unit of the hot value."""


class DynamicStatistic(Section, frozen=True, kw_only=True):
    """One statistic of one window and resource."""

    window: str
    """A name in `load.windows`. The statistic is unknown for any other window."""

    statistic: Literal["mean", "p95", "max"] = "mean"
    resource: Literal["cpu", "memory"]

    def __str__(self) -> str:
        return f"{self.resource} {self.statistic} of {self.window}"

    def of(self, nodes: CandidateNodes) -> Array:
        """The statistic of each node, as a share (0 or more) of the base; NaN if unknown."""
        if self.window not in nodes.windows:
            return np.full(len(nodes.load), np.nan)
        values = nodes.load if self.statistic == "mean" else nodes.statistics[self.statistic]
        shares: Array = values[:, nodes.windows.index(self.window), RESOURCES.index(self.resource)]
        return shares


class Predicate(DynamicStatistic, frozen=True, kw_only=True):
    """Refuses nodes whose statistic is above the limit. An unknown statistic refuses no node."""

    limit: Percent
    """0 disables this predicate."""


class Priority(DynamicStatistic, frozen=True, kw_only=True):
    """The weight of a statistic in the score."""

    weight: Weight


class HotValue(Section, frozen=True, kw_only=True):
    """A node's hot value rises by 1 for every `count` pods placed on it within `span`."""

    span: Duration
    count: Annotated[int, Meta(ge=1)]


_PREDICATES = (
    Predicate(window="5m", resource="cpu", limit=65.0),
    Predicate(window="1h", statistic="max", resource="cpu", limit=75.0),
    Predicate(window="5m", resource="memory", limit=65.0),
    Predicate(window="1h", statistic="max", resource="memory", limit=75.0),
)

_PRIORITIES = (
    Priority(window="5m", resource="cpu", weight=0.2),
    Priority(window="1h", statistic="max", resource="cpu", weight=0.3),
    Priority(window="1d", statistic="max", resource="cpu", weight=0.5),
    Priority(window="5m", resource="memory", weight=0.2),
    Priority(window="1h", statistic="max", resource="memory", weight=0.3),
    Priority(window="1d", statistic="max", resource="memory", weight=0.5),
)


class Dynamic(ScoringPolicy, frozen=True, kw_only=True, tag="dynamic"):
    """Scores nodes by their unused share, which is the weighted mean over `priorities`."""

    predicates: tuple[Predicate, ...] = _PREDICATES
    priorities: tuple[Priority, ...] = _PRIORITIES
    hot_value: tuple[HotValue, ...] = (
        HotValue(span=Duration(300), count=5),
        HotValue(span=Duration(60), count=2),
    )

    def __post_init__(self) -> None:
        if not any(priority.weight for priority in self.priorities):
            raise ValueError("priorities needs at least one entry with a weight above 0")
        if any(hot.span <= 0 for hot in self.hot_value):
            raise ValueError("the span of a hotValue must be longer than 0s")

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        used = (entry.statistic for entry in (*self.priorities, *self.predicates))
        return tuple(dict.fromkeys(statistic for statistic in used if statistic != "mean"))

    @property
    def placement_spans(self) -> tuple[float, ...]:
        return tuple(float(hot.span) for hot in self.hot_value)

    @property
    def windows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entry.window for entry in (*self.priorities, *self.predicates)))

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        """The unused share in percent, minus 10 times the hot value. An unknown statistic counts as fully used."""
        unused = np.zeros(len(nodes.load))
        for priority in self.priorities:
            unused += priority.weight * np.maximum(1.0 - np.nan_to_num(priority.of(nodes), nan=1.0), 0.0)
        base = 100.0 * unused / sum(priority.weight for priority in self.priorities)
        return np.clip(base - _PENALTY * self.hot_values(nodes.recent_placements), 0.0, 100.0)

    def hot_values(self, recent_placements: Array) -> Array:
        """The hot value of each node. `recent_placements`: nodes × `placement_spans`."""
        values = np.zeros(len(recent_placements))
        for index, hot in enumerate(self.hot_value):
            values += np.floor(recent_placements[:, index] / hot.count)
        return values

    def refuse(self, nodes: CandidateNodes, demand: Demand) -> dict[str, str]:
        """The nodes that a predicate refuses, with the first reason. The demand of the pod is not added.

        No node is refused for the pod of a DaemonSet.
        """
        active = [predicate for predicate in self.predicates if predicate.limit and not demand.daemon]
        checks = [(f"{predicate} is", 100.0 * predicate.of(nodes), predicate.limit) for predicate in active]
        return above(nodes.names, checks)
