"""The dynamic policy; tests/peers/test_dynamic.py has crane's cases."""

from typing import Any

import msgspec
import numpy as np
import pytest
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.numeric import Array
from equipoise.scorer.decisions.policies.dynamic import Dynamic, Predicate, Priority

POD = a_demand(1.0)


def test_each_hot_value_costs_ten_points() -> None:
    """Ten pods in the last minute: 10/5 + 10/2 = 7, so 70 points. The minimum is 0."""
    nodes = node_loads(evenly([20, 20, 20]), recent_placements=np.array([[0.0, 0.0], [10.0, 10.0], [20.0, 20.0]]))

    assert Dynamic().score(nodes, POD) == pytest.approx([80.0, 10.0, 0.0])


def test_a_placed_pod_counts_in_the_load_and_in_the_hot_value() -> None:
    """A deliberate difference: crane does not see a single new pod; the load here includes it before it is measured.

    The hot value comes on top, as in crane; `hotValue: []` switches it off.
    """
    nodes = node_loads(evenly([20, 30]), recent_placements=np.array([[0.0, 0.0], [2.0, 2.0]]))
    without_count = Dynamic(hot_value=())

    assert Dynamic().score(nodes, POD) == pytest.approx([80.0, 60.0])
    assert without_count.score(nodes, POD) == pytest.approx([80.0, 70.0])
    assert without_count.placement_spans == ()


def test_more_than_full_usage_counts_as_full_usage() -> None:
    """A deliberate difference: in crane 150 % of cpu costs points of memory; an unknown node must not score higher."""
    load = evenly([0, 0])
    load[0, :, 0] = 1.5
    load[1, :, 0] = np.nan

    assert Dynamic().score(node_loads(load), POD) == pytest.approx([50.0, 50.0])


def test_the_demand_of_the_pod_does_not_count() -> None:
    """As in crane."""
    nodes = node_loads(evenly([60.0]))

    assert Dynamic().score(nodes, a_demand(90.0)).tolist() == Dynamic().score(nodes, a_demand(0.0)).tolist()
    assert not Dynamic().refuse(nodes, a_demand(90.0))


def test_no_node_is_refused_for_a_daemonset_pod() -> None:
    """It has no other node."""
    nodes = node_loads(evenly([99.0]))

    assert Dynamic().refuse(nodes, POD) == {"node-0": "cpu mean of 5m is 99.0%, above 65%"}
    assert Dynamic().refuse(nodes, msgspec.structs.replace(POD, daemon=True)) == {}


def test_a_window_that_is_not_configured_is_unknown() -> None:
    """It counts as fully used in the score and refuses no node."""
    policy = Dynamic(
        predicates=(Predicate(window="7d", resource="cpu", limit=10.0),),
        priorities=(
            Priority(window="7d", resource="cpu", weight=1.0),
            Priority(window="5m", resource="cpu", weight=3.0),
        ),
    )
    nodes = node_loads(evenly([20.0]))

    assert policy.score(nodes, POD) == pytest.approx([60.0])
    assert not policy.refuse(nodes, POD)


@pytest.mark.parametrize(
    ("priorities", "statistics", "windows"),
    [
        ((Priority(window="1h", statistic="p95", resource="cpu", weight=1.0),), ("p95", "max"), ("1h", "5m")),
        ((Priority(window="5m", resource="memory", weight=1.0),), ("max",), ("5m", "1h")),
    ],
)
def test_it_needs_the_statistics_and_windows_of_its_entries(
    priorities: tuple[Priority, ...], statistics: tuple[str, ...], windows: tuple[str, ...]
) -> None:
    """Those of its priorities, then of its predicates; the mean is always available."""
    policy = Dynamic(priorities=priorities)

    assert policy.statistics == statistics
    assert policy.windows == windows


def test_each_predicate_uses_its_own_statistic() -> None:
    """The maximum of the hour refuses a node with a low mean."""
    mean: Array = evenly([10.0])

    refused = Dynamic().refuse(node_loads(mean, statistics={"max": evenly([80.0])}), POD)

    assert refused == {"node-0": "cpu max of 1h is 80.0%, above 75%"}


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"priorities": []}, "priorities needs at least one entry with a weight above 0"),
        ({"hotValue": [{"span": "0s", "count": 1}]}, "the span of a hotValue must be longer than 0s"),
        ({"hotValue": [{"span": "1m", "count": 0}]}, ">= 1"),
        ({"priorities": [{"window": "5m", "statistic": "p99", "resource": "cpu", "weight": 1}]}, "p99"),
    ],
)
def test_settings_without_effect_are_refused(settings: dict[str, Any], fault: str) -> None:
    """No weight, an empty span, an empty count, an unknown statistic."""
    with pytest.raises(msgspec.ValidationError, match=fault):
        read(settings, Dynamic)


def read(settings: dict[str, Any], kind: type[Section]) -> Section:
    return msgspec.convert(
        settings, kind, dec_hook=lambda kind, text: Duration.parse(text) if kind is Duration else text
    )
