"""The Dynamic plugin of crane-scheduler: its filter, its score, and the hot value of a burst."""

from typing import Any

import msgspec
import numpy as np
import pytest
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.scorer.decisions.policies.dynamic import Dynamic, Predicate, Priority
from equipoise.scorer.state.arrays import Array

POD = a_demand(1.0)


def test_a_burst_costs_ten_points_for_each_hot_value() -> None:
    """Ten pods in the last minute: 10/5 + 10/2 = 7, so 70 points; the score never falls below 0."""
    nodes = node_loads(evenly([20, 20, 20]), recent_placements=np.array([[0.0, 0.0], [10.0, 10.0], [20.0, 20.0]]))

    assert Dynamic().score(nodes, POD) == pytest.approx([80.0, 10.0, 0.0])


def test_a_placed_pod_is_in_the_load_and_in_the_count() -> None:
    """Differs on purpose: to crane a single new pod is invisible; our load holds it before anybody measured it.

    Its count comes on top, as crane has it; `hotValue: []` leaves that out.
    """
    nodes = node_loads(evenly([20, 30]), recent_placements=np.array([[0.0, 0.0], [2.0, 2.0]]))
    quiet = Dynamic(hot_value=())

    assert Dynamic().score(nodes, POD) == pytest.approx([80.0, 60.0])
    assert quiet.score(nodes, POD) == pytest.approx([80.0, 70.0])
    assert quiet.placement_spans == ()


def test_more_than_everything_is_used_counts_as_everything() -> None:
    """Differs on purpose: in crane 150 % of cpu takes points off for memory; an unknown node must not look better."""
    load = evenly([0, 0])
    load[0, :, 0] = 1.5
    load[1, :, 0] = np.nan

    assert Dynamic().score(node_loads(load), POD) == pytest.approx([50.0, 50.0])


def test_the_pod_itself_does_not_count() -> None:
    """crane judges a node by what it uses already."""
    nodes = node_loads(evenly([60.0]))

    assert Dynamic().score(nodes, a_demand(90.0)).tolist() == Dynamic().score(nodes, a_demand(0.0)).tolist()
    assert not Dynamic().refuse(nodes, a_demand(90.0))


def test_pods_of_daemonsets_are_never_refused() -> None:
    """They have no other node to go to."""
    nodes = node_loads(evenly([99.0]))

    assert Dynamic().refuse(nodes, POD) == {"node-0": "cpu mean of 5m is 99.0%, above 65%"}
    assert Dynamic().refuse(nodes, msgspec.structs.replace(POD, daemon=True)) == {}


def test_a_window_that_nobody_configured_is_unknown() -> None:
    """It counts as fully used in the score, refuses nobody, and does not break anything."""
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
def test_it_says_what_it_looks_at(
    priorities: tuple[Priority, ...], statistics: tuple[str, ...], windows: tuple[str, ...]
) -> None:
    """The statistics and windows of its priorities, then of its predicates; the mean is always there."""
    policy = Dynamic(priorities=priorities)

    assert policy.statistics == statistics
    assert policy.windows == windows


def test_each_statistic_is_read_from_its_own_values() -> None:
    """The highest value of the hour refuses a node whose mean is low."""
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
def test_settings_that_say_nothing_are_refused(settings: dict[str, Any], fault: str) -> None:
    """Without a weight there is no order; a span or count of nothing counts nothing."""
    with pytest.raises(msgspec.ValidationError, match=fault):
        read(settings, Dynamic)


def read(settings: dict[str, Any], kind: type[Section]) -> Section:
    return msgspec.convert(
        settings, kind, dec_hook=lambda kind, text: Duration.parse(text) if kind is Duration else text
    )
