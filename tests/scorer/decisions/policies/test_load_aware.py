"""The load_aware policy; tests/peers/test_load_aware.py has Koordinator's cases."""

from typing import Any

import msgspec
import numpy as np
import pytest
from builders import a_workload_utilization
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.configuration.settings import ResourceThresholds
from equipoise.contracts.load.demand import expected_usage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.policies.load_aware import Aggregated, LoadAware, LoadAwareWeights

POD = a_demand(0.0)


def test_the_measured_usage_of_the_workload_comes_before_the_estimate() -> None:
    """A deliberate difference: Koordinator does not use other replicas; its factors are constants."""
    usage, sources = expected_usage(
        requests=Resources(cpu=4.0, memory=8.0),
        limits=Resources(),
        workload=a_workload_utilization(cpu=1.5, memory=None),
        window="5m",
        chain=LoadAware().demand_chain,
    )

    assert (usage.cpu, usage.memory) == (1.5, 5.6)
    assert {resource: str(link) for resource, link in sources.items()} == {"cpu": "measured", "memory": "estimate"}


@pytest.mark.parametrize(("percent", "refused"), [(65.4, False), (65.5, True), (66.0, True)])
def test_percent_are_rounded_before_the_comparison(percent: float, refused: bool) -> None:
    """Less than half a percent above the threshold passes, as in Koordinator."""
    policy = LoadAware(usage_thresholds=ResourceThresholds(cpu=65))

    assert bool(policy.refuse(node_loads(evenly([percent])), POD)) == refused


def test_without_its_own_thresholds_the_shared_ones_count() -> None:
    """So the descheduler does not evict what the filter admits."""
    assert LoadAware().refuse(node_loads(evenly([99.0])), POD) is None
    with pytest.raises(ValueError, match="must not name pods"):
        LoadAware(usage_thresholds=ResourceThresholds(pods=50))


@pytest.mark.parametrize("thresholds", [ResourceThresholds(cpu=0, memory=0), ResourceThresholds()])
def test_a_threshold_of_0_or_null_refuses_no_node(thresholds: ResourceThresholds) -> None:
    """As in Koordinator."""
    assert LoadAware(usage_thresholds=thresholds).refuse(node_loads(evenly([99.0])), POD) == {}


def test_a_production_pod_is_filtered_by_production_usage() -> None:
    """No other threshold counts for it; other pods are filtered by the usage of the whole node."""
    policy = LoadAware(
        usage_thresholds=ResourceThresholds(cpu=65),
        prod_usage_thresholds=ResourceThresholds(cpu=40),
        prod_usage_include_system=True,
    )
    nodes = node_loads(
        evenly([70, 70, 30]), statistics={"production": evenly([35, 45, 35]), "system": evenly([4, 0, 10])}
    )
    other = msgspec.structs.replace(POD, production=False)

    assert policy.statistics == ("production", "system")
    assert policy.refuse(nodes, POD) == {
        "node-1": "cpu production load would be 45%, above 40%",
        "node-2": "cpu production load would be 45%, above 40%",
    }
    assert policy.refuse(nodes, other).keys() == {"node-0", "node-1"}
    assert policy.score(nodes, POD) == pytest.approx([30.0, 30.0, 70.0])


def test_a_production_pod_is_scored_by_production_usage() -> None:
    """If configured, and only production pods."""
    policy = LoadAware(score_according_prod_usage=True)
    nodes = node_loads(evenly([70.0]), statistics={"production": evenly([20.0])})

    assert policy.statistics == ("production",)
    assert policy.score(nodes, POD) == pytest.approx([80.0])
    assert policy.score(nodes, msgspec.structs.replace(POD, production=False)) == pytest.approx([30.0])


def test_the_filter_may_use_another_statistic() -> None:
    """Aggregated thresholds replace the others, independently of the score."""
    policy = LoadAware(aggregated=Aggregated(usage_thresholds=ResourceThresholds(cpu=50), statistic="max", window="1h"))
    nodes = node_loads(evenly([70, 30]), statistics={"max": evenly([40, 60])})

    assert policy.windows == ("5m", "1h")
    assert policy.refuse(nodes, POD) == {"node-1": "cpu max load would be 60%, above 50%"}
    assert policy.score(nodes, POD) == pytest.approx([30.0, 70.0])


def test_the_score_may_use_the_mean_of_another_window() -> None:
    """`mean` needs no `collector.statistics`."""
    load = evenly([20.0])
    load[0, 2] = 0.5
    policy = LoadAware(aggregated=Aggregated(score_statistic="mean", score_window="1h"))

    assert policy.score(node_loads(load), POD) == pytest.approx([50.0])


def test_a_node_without_the_statistic_does_not_count_as_empty() -> None:
    """The estimates of its pods count, or its mean if that is higher; Koordinator uses the estimates only."""
    policy = LoadAware(aggregated=Aggregated(score_statistic="p95", score_window="1h"))
    quantile = np.full((3, 4, 2), np.nan)
    nodes = node_loads(
        np.concatenate([evenly([10, 60]), np.full((1, 4, 2), np.nan)]),
        statistics={"p95": quantile},
        limits=np.array([[40.0, 20.0], [0.0, 0.0], [10.0, 10.0]]),
    )

    assert policy.score(nodes, POD) == pytest.approx([(66.0 + 86.0) / 2, 40.0, 0.0])


def test_no_node_is_refused_for_a_daemonset_pod() -> None:
    """It has no other node."""
    assert LoadAware().refuse(node_loads(evenly([99.0])), msgspec.structs.replace(POD, daemon=True)) == {}


def test_the_reason_names_the_expected_load_and_the_threshold() -> None:
    """With the pod, for the first resource above its threshold."""
    policy = LoadAware(usage_thresholds=ResourceThresholds(cpu=65, memory=95))
    assert policy.refuse(node_loads(evenly([60.0])), a_demand(40.0)) == {"node-0": "cpu load would be 100%, above 65%"}


def test_an_unknown_resource_counts_as_fully_used() -> None:
    """A deliberate difference: in Koordinator it is unused. It passes the filter."""
    load = evenly([20.0])
    load[0, :, 1] = np.nan

    assert LoadAware().score(node_loads(load), POD) == pytest.approx([40.0])
    assert not LoadAware(usage_thresholds=ResourceThresholds(cpu=65, memory=95)).refuse(node_loads(load), POD)


def test_a_window_that_is_not_configured_is_unknown() -> None:
    """All scores are equal, and no node is refused."""
    policy = LoadAware(window="7d")

    assert policy.score(node_loads(evenly([20.0])), POD).tolist() == [0.0]
    assert not policy.refuse(node_loads(evenly([99.0])), POD)


@pytest.mark.parametrize(
    ("settings", "points"),
    [
        ({}, 65.0),
        ({"resource_weights": LoadAwareWeights(cpu=3.0, memory=1.0)}, 57.5),
        ({"resource_weights": LoadAwareWeights(cpu=1.0)}, 50.0),
        ({"dominant_resource_weight": 10.0}, 50.0),
        ({"resource_weights": LoadAwareWeights(memory=1.0), "dominant_resource_weight": 1.0}, 65.0),
    ],
)
def test_weights_of_resources(settings: dict[str, Any], points: float) -> None:
    """1 and 1 unless there is a dominant weight; a missing resource does not count, but may be dominant."""
    load = evenly([50.0])
    load[0, :, 1] = 0.2

    assert LoadAware(**settings).score(node_loads(load), POD) == pytest.approx([points])


def test_weights_of_nothing_are_refused() -> None:
    """No resource would count."""
    with pytest.raises(msgspec.ValidationError, match="needs a weight above 0"):
        msgspec.convert({"resourceWeights": {"cpu": 0}}, LoadAware)
