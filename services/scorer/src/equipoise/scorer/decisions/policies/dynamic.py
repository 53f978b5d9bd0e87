"""dynamic: the Dynamic plugin of crane-scheduler. Least used first, by a weighted list of statistics.

A node is refused when one of its statistics is above a limit, and loses points when it was given many pods lately.
The pod's own demand does not enter. Source: crane-scheduler, pkg/plugins/dynamic and pkg/controller/annotator.

The defaults are crane's, in our windows: its `*_usage_avg_5m` is the mean of `5m`, its `*_usage_max_avg_1h` and
`_1d` (the highest five-minute average) the `max` of `1h` and `1d`, whose inner step is shorter. The collector has to
measure them: `statistics: [max]`, `statisticsWindowLimit: 1d`. What it does not measure counts as fully used, in every
node alike.

Crane knows of a new pod only by its count. Here its expected usage is in the load from the moment it is placed, unless
`load.compensation` is off, and the count comes on top: `hotValue: []` leaves it out.
"""

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Percent, Section
from equipoise.contracts.load.correction import RESOURCES
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.state.arrays import Array, Demand, NodeLoads, Statistic

_PENALTY = 10.0
"""Points that each hot value costs."""


class Measure(Section, frozen=True, kw_only=True):
    """One statistic of one window and resource."""

    window: str
    """By its name in `load.windows`; one that nobody configured is unknown."""

    statistic: Literal["mean", "p95", "max"] = "mean"
    resource: Literal["cpu", "memory"]

    def __str__(self) -> str:
        return f"{self.resource} {self.statistic} of {self.window}"

    def of(self, nodes: NodeLoads) -> Array:
        """Share (0..) of each node; NaN is unknown."""
        if self.window not in nodes.windows:
            return np.full(len(nodes.load), np.nan)
        values = nodes.load if self.statistic == "mean" else nodes.statistics[self.statistic]
        found: Array = values[:, nodes.windows.index(self.window), RESOURCES.index(self.resource)]
        return found


class Predicate(Measure, frozen=True, kw_only=True):
    """Refuses nodes whose statistic is above the limit. An unknown one refuses nobody."""

    limit: Percent
    """0: this predicate is off."""


class Priority(Measure, frozen=True, kw_only=True):
    """What a statistic counts in the score."""

    weight: Annotated[float, Meta(ge=0)]


class HotValue(Section, frozen=True, kw_only=True):
    """Each full `count` of pods that a node was given within `span` makes it hotter by one."""

    span: Duration
    count: Annotated[int, Meta(ge=1)]


_PREDICATES = tuple(
    predicate
    for resource in RESOURCES
    for predicate in (
        Predicate(window="5m", resource=resource, limit=65.0),
        Predicate(window="1h", statistic="max", resource=resource, limit=75.0),
    )
)

_PRIORITIES = tuple(
    priority
    for resource in RESOURCES
    for priority in (
        Priority(window="5m", resource=resource, weight=0.2),
        Priority(window="1h", statistic="max", resource=resource, weight=0.3),
        Priority(window="1d", statistic="max", resource=resource, weight=0.5),
    )
)


class Dynamic(ScoringPolicy, frozen=True, kw_only=True, tag="dynamic"):
    """Scores by what is left, in the weighted mean of `priorities`."""

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
        measures = (*self.priorities, *self.predicates)
        return tuple(dict.fromkeys(measure.statistic for measure in measures if measure.statistic != "mean"))

    @property
    def counted_within(self) -> tuple[float, ...]:
        return tuple(float(hot.span) for hot in self.hot_value)

    @property
    def windows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(measure.window for measure in (*self.priorities, *self.predicates)))

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        """What is left in percent, less 10 for each hot value. A statistic that is unknown counts as fully used."""
        left = np.zeros(len(nodes.load))
        for priority in self.priorities:
            left += priority.weight * np.maximum(1.0 - np.nan_to_num(priority.of(nodes), nan=1.0), 0.0)
        base = 100.0 * left / sum(priority.weight for priority in self.priorities)
        return np.clip(base - _PENALTY * self.hot_values(nodes.placed), 0.0, 100.0)

    def hot_values(self, placed: Array) -> Array:
        """Per node, from how many pods it was given within each span."""
        values = np.zeros(len(placed))
        for index, hot in enumerate(self.hot_value):
            values += np.floor(placed[:, index] / hot.count)
        return values

    def refuse(self, nodes: NodeLoads, demand: Demand) -> dict[str, str]:
        """Nodes above a limit by what they use already; none for a DaemonSet's pod. The first predicate tells why."""
        refused: dict[str, str] = {}
        if demand.daemon:
            return refused
        for predicate in self.predicates:
            if predicate.limit == 0.0:
                continue
            values = predicate.of(nodes)
            for index in map(int, np.flatnonzero(values > predicate.limit / 100.0)):
                if nodes.names[index] not in refused:
                    why = f"{predicate} is {100.0 * values[index]:.1f}%, above {predicate.limit:g}%"
                    refused[nodes.names[index]] = why
        return refused
