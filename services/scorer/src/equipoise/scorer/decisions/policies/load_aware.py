"""load_aware: Koordinator's LoadAwareScheduling, which prefers the node with the lowest expected load with the pod.

Load is the usage of the whole node or of its production pods, as a mean or another statistic. Source: koordinator,
pkg/scheduler/plugins/loadaware. Statistics are `mean`, `p95` and `max`, which `collector.statistics` must list;
Koordinator's p50, p90 and p99 are not measured.

The load already contains recently placed pods: their usage is added for the part of the window before they ran.
(Koordinator adds a full estimate for about a minute, then nothing.) `load.freshness` applies to filter and score. A
node whose load is unknown passes the filter and scores 0.
"""

from typing import Literal

import msgspec

from equipoise.contracts.configuration.settings import ResourceThresholds, Section
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.demand import Estimate, EstimateSource
from equipoise.contracts.numeric import Array, np
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand, Statistic, pod_share
from equipoise.scorer.decisions.policies.policy import ScoringPolicy, Weight, above

Aggregation = Literal["mean", "p95", "max"]


class LoadAwareWeights(Section, frozen=True, kw_only=True):
    """The weight of each resource, relative to the other. A missing weight is 0."""

    cpu: Weight = 0.0
    memory: Weight = 0.0


class Aggregated(Section, frozen=True, kw_only=True):
    """Use another statistic than the mean of `window`."""

    usage_thresholds: ResourceThresholds = ResourceThresholds()
    """The thresholds of the filter. Empty: the policy's `usageThresholds`."""

    statistic: Aggregation = "p95"
    """The statistic of the filter."""

    window: str | None = None
    """null: the longest window that is known for each node."""

    score_statistic: Aggregation | None = None
    """null: scores use the mean."""

    score_window: str | None = None
    """The same as `window`, for scores."""


class LoadAware(ScoringPolicy, frozen=True, kw_only=True, tag="load_aware"):
    """Scores by the unused share of each resource. Thresholds are percent; with 0 or null, a resource is ignored."""

    window: str = "5m"
    """A name in `load.windows`."""

    usage_thresholds: ResourceThresholds | None = None
    """null: the shared `thresholds.high`, so that the descheduler does not evict what the filter admits."""

    prod_usage_thresholds: ResourceThresholds = ResourceThresholds()
    """Thresholds of production usage. If set, no other threshold filters production pods
    (`contracts.load.pod_priority`)."""

    prod_usage_include_system: bool = False
    """The usage of production pods includes the usage of the node outside its pods."""

    score_according_prod_usage: bool = False
    """Production pods are scored by the usage of production pods."""

    resource_weights: LoadAwareWeights | None = None
    """null: both weights are 1, or both are 0 if dominantResourceWeight is set."""

    dominant_resource_weight: Weight = 0.0
    """The weight of the most used resource, whatever its own weight is."""

    aggregated: Aggregated | None = None

    estimated_scaling_factors: Estimate = Estimate()
    """Percent of its limit or request that a pod is expected to use if its workload was never measured."""

    def __post_init__(self) -> None:
        weights = self.resource_weights
        if weights is not None and not (weights.cpu or weights.memory or self.dominant_resource_weight):
            raise ValueError("resourceWeights or dominantResourceWeight needs a weight above 0")
        aggregated = ResourceThresholds() if self.aggregated is None else self.aggregated.usage_thresholds
        if any(
            thresholds is not None and thresholds.pods
            for thresholds in (self.usage_thresholds, self.prod_usage_thresholds, aggregated)
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
        if _any_set(self.prod_usage_thresholds) or self.score_according_prod_usage:
            names += ["production", *(("system",) if self.prod_usage_include_system else ())]
        return tuple(dict.fromkeys(name for name in names if name is not None and name != "mean"))

    @property
    def windows(self) -> tuple[str, ...]:
        others = () if self.aggregated is None else (self.aggregated.score_window, self.aggregated.window)
        return tuple(dict.fromkeys(name for name in (self.window, *others) if name is not None))

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        """The weighted mean of the unused shares of CPU and memory, and of the lower of the two.

        An unknown resource counts as fully used.
        """
        aggregated = self.aggregated
        if demand.production and self.score_according_prod_usage:
            used = self._production(nodes, demand)
        elif aggregated is not None and aggregated.score_statistic is not None:
            used = self._aggregated(nodes, demand, aggregated.score_statistic, aggregated.score_window)
        else:
            used = self._mean(nodes, demand)
        unused = 100.0 * np.clip(1.0 - np.nan_to_num(used, nan=1.0), 0.0, 1.0)
        cpu, memory, dominant = self._weights
        total = cpu * unused[:, 0] + memory * unused[:, 1] + dominant * np.minimum(unused[:, 0], unused[:, 1])
        points: Array = total / (cpu + memory + dominant)
        return points

    def refuse(self, nodes: CandidateNodes, demand: Demand) -> dict[str, str] | None:
        """The nodes whose load with the pod, in whole percent, is above a threshold.

        No node is refused for the pod of a DaemonSet. None: use the shared `thresholds.high`.
        """
        if demand.daemon:
            return {}
        aggregated = self.aggregated
        if demand.production and _any_set(self.prod_usage_thresholds):
            load, thresholds, used = "production load", self.prod_usage_thresholds, self._production(nodes, demand)
        elif aggregated is not None and _any_set(aggregated.usage_thresholds):
            used = self._aggregated(nodes, demand, aggregated.statistic, aggregated.window)
            load, thresholds = f"{aggregated.statistic} load", aggregated.usage_thresholds
        elif self.usage_thresholds is None:
            return None
        else:
            load, thresholds, used = "load", self.usage_thresholds, self._mean(nodes, demand)
        percent = np.floor(100.0 * used + 0.5)
        checks = [
            (f"{resource} {load} would be", percent[:, position], threshold)
            for position, resource in enumerate(RESOURCES)
            if (threshold := getattr(thresholds, resource))
        ]
        return above(nodes.names, checks, digits=0)

    @property
    def _weights(self) -> tuple[float, float, float]:
        """The weights of cpu, memory, and the scarcer of the two."""
        weights, dominant = self.resource_weights, self.dominant_resource_weight
        if weights is None:
            weights = LoadAwareWeights() if dominant else LoadAwareWeights(cpu=1.0, memory=1.0)
        return weights.cpu, weights.memory, dominant

    # The next three methods return the load with the pod as a share of the base: nodes × resources; NaN is unknown.

    def _mean(self, nodes: CandidateNodes, demand: Demand) -> Array:
        return _with_pod(nodes, demand, nodes.load, self.window)

    def _production(self, nodes: CandidateNodes, demand: Demand) -> Array:
        used = nodes.statistics["production"]
        if self.prod_usage_include_system:
            used = used + nodes.statistics["system"]
        return _with_pod(nodes, demand, used, self.window)

    def _aggregated(self, nodes: CandidateNodes, demand: Demand, statistic: Aggregation, window: str | None) -> Array:
        """The load by a statistic. Where it is unknown: the higher of the mean and the estimated usage of the pods.

        A node whose measurement has just begun must not appear empty. (Koordinator uses the estimates only.)
        """
        values = nodes.load if statistic == "mean" else nodes.statistics[statistic]
        mean = self._mean(nodes, demand)
        if window is None:
            used = mean
            for name in nodes.windows:
                longer = _with_pod(nodes, demand, values, name)
                used = np.where(np.isnan(longer), used, longer)
            return used
        used = _with_pod(nodes, demand, values, window)
        if not np.isnan(used).any():
            return used
        factors = self.estimated_scaling_factors
        of_pods = nodes.limits * (factors.cpu / 100.0, factors.memory / 100.0) / nodes.base
        estimate = _with_pod(nodes, demand, np.repeat(of_pods[:, np.newaxis], len(nodes.windows), axis=1), self.window)
        return np.where(np.isnan(used), np.maximum(mean, estimate), used)


def _with_pod(nodes: CandidateNodes, demand: Demand, values: Array, window: str) -> Array:
    """One window of `values` (nodes × windows × resources) plus the pod; NaN if the window is not configured."""
    if window not in nodes.windows:
        return np.full(nodes.base.shape, np.nan)
    index = nodes.windows.index(window)
    pod = pod_share(nodes, msgspec.structs.replace(demand, usage=demand.usage[index : index + 1]))
    used: Array = values[:, index] + pod[:, 0]
    return used


def _any_set(thresholds: ResourceThresholds) -> bool:
    return thresholds.cpu is not None or thresholds.memory is not None
