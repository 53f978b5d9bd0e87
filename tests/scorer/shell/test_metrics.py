"""The metrics of the scorer."""

from math import isnan, nan

import numpy as np
from prometheus_client import CollectorRegistry

from equipoise.scorer.shell.metrics import ScorerMetrics

FOLLOWED, BY_CHANCE = "equipoise_scores_followed_ratio", "equipoise_scores_followed_by_chance_ratio"


def test_the_followed_ratio_is_nan_before_the_first_placed_pod() -> None:
    """0 would mean that kube-scheduler ignores scores."""
    registry = CollectorRegistry()
    metrics = ScorerMetrics(registry)

    assert (metrics.scores_followed().placed, metrics.scores_followed().followed) == (0, None)
    assert isnan(registry.get_sample_value(FOLLOWED) or 0.0)
    assert isnan(registry.get_sample_value(BY_CHANCE) or 0.0)


def test_the_followed_ratio_is_that_of_the_last_thousand_pods() -> None:
    """If kube-scheduler begins to ignore scores, it shows soon."""
    registry = CollectorRegistry()
    metrics = ScorerMetrics(registry)
    for followed in [True] * 1000 + [False] * 750:
        metrics.on_placed(followed=followed, chance=0.25)

    assert (
        metrics.scores_followed().placed,
        metrics.scores_followed().followed,
        metrics.scores_followed().by_chance,
    ) == (1_000, 0.25, 0.25)
    assert registry.get_sample_value(FOLLOWED) == 0.25
    assert registry.get_sample_value(BY_CHANCE) == 0.25


def test_the_load_of_the_cluster_is_that_of_the_nodes_of_known_load() -> None:
    """Unknown is neither 0 nor full; of a node of unknown load the requests do not count either."""
    registry = CollectorRegistry()
    metrics = ScorerMetrics(registry)
    load = np.array([[0.25, nan], [0.75, nan], [nan, nan]])
    metrics.on_cluster(load, np.array([[0.5, 0.1], [0.7, 0.1], [0.9, 0.1]]))

    def value(name: str, **labels: str) -> float:
        return registry.get_sample_value(f"equipoise_scorer_cluster_{name}", labels) or 0.0

    loads = [value("load_ratio", resource="cpu", statistic=each) for each in ("min", "mean", "max", "deviation")]
    buckets = [value("nodes_by_load", resource="cpu", le=le) for le in ("0.2", "0.3", "0.8", "+Inf")]
    assert loads == [0.25, 0.5, 0.75, 0.25]
    assert value("requests_ratio", resource="cpu", statistic="mean") == 0.6
    assert buckets == [0, 1, 2, 2]
    assert isnan(value("load_ratio", resource="memory", statistic="max"))
    assert value("nodes_by_load", resource="memory", le="+Inf") == 0


def test_a_node_counts_if_its_load_and_its_requests_are_known() -> None:
    """Both statistics are of the same nodes. A bound is a part of its bucket."""
    registry = CollectorRegistry()
    load = np.array([[0.3, 0.3], [0.9, 0.9]])
    ScorerMetrics(registry).on_cluster(load, np.array([[0.5, 0.5], [nan, 0.7]]))

    def nodes(resource: str, le: str) -> float | None:
        return registry.get_sample_value("equipoise_scorer_cluster_nodes_by_load", {"resource": resource, "le": le})

    assert [nodes("cpu", le) for le in ("0.2", "0.3", "+Inf")] == [0, 1, 1]
    assert nodes("memory", "+Inf") == 2
