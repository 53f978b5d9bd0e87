"""load_aware: Koordinator's LoadAwareScheduling. Least used first, by what a node will use with the pod on it.

Three views of a node: what all of it uses, what its production pods use, or a quantile. Source: koordinator,
pkg/scheduler/plugins/loadaware. Statistics are `mean`, `p95` and `max`, which `collector.statistics` has to name;
Koordinator's p50, p90 and p99 are not measured.

Pods that were placed lately are in the load already: their usage is added for the part of the window that they were
not there, where Koordinator adds an estimate in full for about a minute and then nothing. Freshness, for filter and
score alike, is `load.freshness`; a node of unknown load passes the filter, and scores 0.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from equipoise.contracts.configuration.settings import ResourceThresholds, Section
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.demand import Estimate, EstimateSource
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.state.arrays import Array, Demand, NodeLoads, Statistic, pod_share

Weight = Annotated[float, Meta(ge=0)]

Aggregation = Literal["mean", "p95", "max"]


class Weights(Section, frozen=True, kw_only=True):
    """How much each resource counts, relative to the other; one that is left out does not."""

    cpu: Weight = 0.0
    memory: Weight = 0.0


class Aggregated(Section, frozen=True, kw_only=True):
    """Look at another statistic than the mean of `window`."""

    usage_thresholds: ResourceThresholds = ResourceThresholds()
    """For the filter, in place of the policy's own `usageThresholds`. Empty: those stay."""

    statistic: Aggregation = "p95"
    """Of the filter."""

    window: str | None = None
    """null: of each node the longest that is known."""

    score_statistic: Aggregation | None = None
    """null: scores stay with the mean."""

    score_window: str | None = None
    """As `window`."""


class LoadAware(ScoringPolicy, frozen=True, kw_only=True, tag="load_aware"):
    """Scores by what is left of each resource. Thresholds are percent; 0 or null: this resource is not looked at."""

    window: str = "5m"
    """By its name in `load.windows`."""

    usage_thresholds: ResourceThresholds | None = None
    """null: the shared `thresholds.high`, so that what the filter lets in the descheduler does not take away."""

    prod_usage_thresholds: ResourceThresholds = ResourceThresholds()
    """If there are any, production pods (`contracts.production`) are filtered by what production uses, and by no other
    thresholds."""

    prod_usage_include_system: bool = False
    """What production uses includes what the node uses beyond its pods."""

    score_according_prod_usage: bool = False
    """Production pods are scored by what production uses."""

    resource_weights: Weights | None = None
    """null: 1 and 1, or none if there is a dominantResourceWeight."""

    dominant_resource_weight: Weight = 0.0
    """Of the resource that is used most, weighted or not."""

    aggregated: Aggregated | None = None

    estimated_scaling_factors: Estimate = Estimate()
    """Percent of its limit or request that a pod is expected to use while neither it nor its siblings are measured."""

    def __post_init__(self) -> None:
        weights = self.resource_weights
        if weights is not None and not (weights.cpu or weights.memory or self.dominant_resource_weight):
            raise ValueError("resourceWeights or dominantResourceWeight needs a weight above 0")
        aggregated = ResourceThresholds() if self.aggregated is None else self.aggregated.usage_thresholds
        if any(
            marks is not None and marks.pods
            for marks in (self.usage_thresholds, self.prod_usage_thresholds, aggregated)
        ):
            raise ValueError("thresholds of load_aware must not name pods: kube-scheduler itself counts them")

    @property
    def demand_chain(self) -> tuple[EstimateSource, ...]:
        return ("measured", self.estimated_scaling_factors, "default")

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        names: list[Aggregation | Statistic | None] = []
        if self.aggregated is not None:
            names += [self.aggregated.statistic, self.aggregated.score_statistic]
        if _any(self.prod_usage_thresholds) or self.score_according_prod_usage:
            names += ["production", *(("system",) if self.prod_usage_include_system else ())]
        return tuple(dict.fromkeys(name for name in names if name is not None and name != "mean"))

    @property
    def windows(self) -> tuple[str, ...]:
        others = () if self.aggregated is None else (self.aggregated.score_window, self.aggregated.window)
        return tuple(dict.fromkeys(name for name in (self.window, *others) if name is not None))

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        """Weighted mean of what is left of each resource, and of the scarcest; nothing is left of an unknown one."""
        aggregated = self.aggregated
        if demand.production and self.score_according_prod_usage:
            used = self._production(nodes, demand)
        elif aggregated is not None and aggregated.score_statistic is not None:
            used = self._aggregated(nodes, demand, aggregated.score_statistic, aggregated.score_window)
        else:
            used = self._mean(nodes, demand)
        left = 100.0 * np.clip(1.0 - np.nan_to_num(used, nan=1.0), 0.0, 1.0)
        cpu, memory, dominant = self._weights
        total = cpu * left[:, 0] + memory * left[:, 1] + dominant * np.minimum(left[:, 0], left[:, 1])
        points: Array = total / (cpu + memory + dominant)
        return points

    def refuse(self, nodes: NodeLoads, demand: Demand) -> dict[str, str] | None:
        """Nodes that would be above a threshold with the pod, in whole percent; none for a DaemonSet's pod."""
        if demand.daemon:
            return {}
        aggregated = self.aggregated
        if demand.production and _any(self.prod_usage_thresholds):
            what, thresholds, used = "production load", self.prod_usage_thresholds, self._production(nodes, demand)
        elif aggregated is not None and _any(aggregated.usage_thresholds):
            used = self._aggregated(nodes, demand, aggregated.statistic, aggregated.window)
            what, thresholds = f"{aggregated.statistic} load", aggregated.usage_thresholds
        elif self.usage_thresholds is None:
            return None
        else:
            what, thresholds, used = "load", self.usage_thresholds, self._mean(nodes, demand)
        return _above(nodes.names, np.floor(100.0 * used + 0.5), thresholds, what)

    @property
    def _weights(self) -> tuple[float, float, float]:
        """Of cpu, of memory, of the scarcer of the two."""
        weights, dominant = self.resource_weights, self.dominant_resource_weight
        if weights is None:
            weights = Weights() if dominant else Weights(cpu=1.0, memory=1.0)
        return weights.cpu, weights.memory, dominant

    # nodes × resources: share of the base that is used with the pod; NaN is unknown

    def _mean(self, nodes: NodeLoads, demand: Demand) -> Array:
        return _with_pod(nodes, demand, nodes.load, self.window)

    def _production(self, nodes: NodeLoads, demand: Demand) -> Array:
        used = nodes.statistics["production"]
        if self.prod_usage_include_system:
            used = used + nodes.statistics["system"]
        return _with_pod(nodes, demand, used, self.window)

    def _aggregated(self, nodes: NodeLoads, demand: Demand, statistic: Aggregation, window: str | None) -> Array:
        """Where the statistic is not known yet: the mean, or what the node's pods are estimated at, if that is more.

        A node that has just begun to be measured must not look empty (Koordinator takes the estimates alone).
        """
        values = nodes.load if statistic == "mean" else nodes.statistics[statistic]
        mean = self._mean(nodes, demand)
        if window is None:
            found = mean
            for name in nodes.windows:
                longer = _with_pod(nodes, demand, values, name)
                found = np.where(np.isnan(longer), found, longer)
            return found
        found = _with_pod(nodes, demand, values, window)
        if not np.isnan(found).any():
            return found
        factors = self.estimated_scaling_factors
        estimated = nodes.limited * (factors.cpu / 100.0, factors.memory / 100.0) / nodes.base
        shares = _with_pod(nodes, demand, np.repeat(estimated[:, np.newaxis], len(nodes.windows), axis=1), self.window)
        return np.where(np.isnan(found), np.maximum(mean, shares), found)


def _with_pod(nodes: NodeLoads, demand: Demand, values: Array, window: str) -> Array:
    """One window of `values` (nodes × windows × resources) and the pod; NaN when nobody configured that window."""
    if window not in nodes.windows:
        return np.full(nodes.base.shape, np.nan)
    row = slice(index := nodes.windows.index(window), index + 1)
    pod = pod_share(nodes, msgspec.structs.replace(demand, usage=demand.usage[row]))
    found: Array = values[:, index] + pod[:, 0]
    return found


def _any(marks: ResourceThresholds) -> bool:
    return marks.cpu is not None or marks.memory is not None


def _above(names: Sequence[str], percent: Array, thresholds: ResourceThresholds, what: str) -> dict[str, str]:
    refused: dict[str, str] = {}
    for position, resource in enumerate(RESOURCES):
        if threshold := getattr(thresholds, resource):
            for index in map(int, np.flatnonzero(percent[:, position] > threshold)):
                if names[index] not in refused:
                    why = f"{resource} {what} would be {percent[index, position]:.0f}%, above {threshold:g}%"
                    refused[names[index]] = why
    return refused
