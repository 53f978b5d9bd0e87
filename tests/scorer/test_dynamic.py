"""The Dynamic plugin of crane-scheduler: its filter, its score, and the hot value of a burst."""

import json
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from scorer.fleets import WINDOWS, a_demand, evenly, node_loads

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.scorer.decisions.policies.dynamic import Dynamic, HotValue, Predicate, Priority
from equipoise.scorer.state.arrays import Array, NodeLoads
from equipoise.scorer.state.recent_placements import Arrivals

CASES = json.loads((Path(__file__).parents[1] / "data" / "crane_cases.json").read_text())["cases"]
Metric = tuple[str, Literal["mean", "max"], Literal["cpu", "memory"]]
METRICS: dict[str, Metric] = {
    "cpu_usage_avg_5m": ("5m", "mean", "cpu"),
    "cpu_usage_max_avg_1h": ("1h", "max", "cpu"),
    "cpu_usage_max_avg_1d": ("1d", "max", "cpu"),
    "mem_usage_avg_5m": ("5m", "mean", "memory"),
    "mem_usage_max_avg_1h": ("1h", "max", "memory"),
    "mem_usage_max_avg_1d": ("1d", "max", "memory"),
}
POD = a_demand(1.0)


def cases(feature: str) -> pytest.MarkDecorator:
    found = [case for case in CASES if case["feature"] == feature]
    return pytest.mark.parametrize("case", found, ids=[case["id"] for case in found])


def a_policy(shipped: dict[str, Any]) -> Dynamic:
    """What crane's policy file says, in our words."""
    predicates, priorities = [], []
    for entry in shipped["predicate"]:
        window, statistic, resource = METRICS[entry["name"]]
        limit = round(100 * entry["max"], 6)
        predicates.append(Predicate(window=window, statistic=statistic, resource=resource, limit=limit))
    for entry in shipped["priority"]:
        window, statistic, resource = METRICS[entry["name"]]
        priorities.append(Priority(window=window, statistic=statistic, resource=resource, weight=entry["weight"]))
    return Dynamic(predicates=tuple(predicates), priorities=tuple(priorities))


def a_node(inputs: dict[str, Any]) -> NodeLoads:
    """What stands in its annotations and is not too old; the rest is unknown.

    crane believes a value for its sync period and 5 min; how long we do says `load.freshness`, before a policy looks.
    """
    mean, highest = np.full((1, 4, 2), np.nan), np.full((1, 4, 2), np.nan)
    lives = {entry["name"]: entry["period_s"] + 300 for entry in inputs["policy"]["sync"]}
    for name, (usage, age) in inputs["annotations"].items():
        if name in METRICS and age < lives.get(name, 0):
            window, statistic, resource = METRICS[name]
            values = mean if statistic == "mean" else highest
            values[0, WINDOWS.index(window), ("cpu", "memory").index(resource)] = float(usage)
    hot, age = inputs["annotations"].get("node_hot_value", ("0", 0))
    placed = np.array([[5.0 * int(hot) if age < 300 else 0.0, 0.0]])
    return node_loads(mean, statistics={"max": highest}, placed=placed)


@cases("crane_filter")
def test_filter_case(case: dict[str, Any]) -> None:
    """A node above a limit is refused, and the first such predicate is named; what is unknown refuses nobody."""
    inputs = case["inputs"]
    demand = msgspec.structs.replace(POD, daemon=inputs["daemonset"])

    refused = a_policy(inputs["policy"]).refuse(a_node(inputs), demand)

    assert bool(refused) == case["expected"]["filtered"]
    if refused:
        window, statistic, resource = METRICS[case["expected"]["by"]]
        assert refused["node-0"].startswith(f"{resource} {statistic} of {window} is ")


@cases("crane_score")
def test_score_case(case: dict[str, Any]) -> None:
    """crane's integers are our floats, cut off: of the base, and with the hot value taken off."""
    inputs = case["inputs"]
    if "policy" in inputs:
        policy, node = a_policy(inputs["policy"]), a_node(inputs)
    else:  # only sums are known of these: one statistic has all of the sum, an unknown one the rest of the weight
        weights = (1.0, inputs["total_weight"] - 1.0)
        policy = Dynamic(
            priorities=tuple(
                Priority(window=window, resource="cpu", weight=weight)
                for window, weight in zip(("5m", "1d"), weights, strict=True)
            )
        )
        load = evenly([100.0 - inputs["weighted_sum"]])
        load[:, 3] = np.nan
        node = node_loads(load, placed=np.array([[5.0 * inputs["hot_value"], 0.0]]))

    base = policy.score(msgspec.structs.replace(node, placed=np.zeros((1, 2))), POD)

    assert int(base[0]) == case["expected"]["base"]
    assert int(policy.score(node, POD)[0]) == case["expected"]["final"]


@cases("crane_hot_value")
def test_hot_value_case(case: dict[str, Any]) -> None:
    """Each full count of pods within its span makes one; a pod exactly as old as the span is out."""
    policy = Dynamic(
        hot_value=tuple(
            HotValue(span=Duration(entry["range_s"]), count=entry["count"]) for entry in case["inputs"]["policy"]
        )
    )
    arrivals = Arrivals(policy.counted_within)
    for age in case["inputs"]["binding_ages_s"]:
        arrivals.add(0, placed_at=1_000.0 - age, now=1_000.0)

    assert policy.hot_values(arrivals.counts(1, 1_000.0)).tolist() == [case["expected"]["hot_value"]]


@cases("crane_binding_heap")
def test_no_binding_is_lost_case(case: dict[str, Any]) -> None:
    """Differs on purpose: crane keeps a fixed number of bindings for the whole cluster and drops the oldest.

    Above 1,024 in five minutes its hot values are too low. We keep all that lie within the longest span.
    """
    bindings = case["inputs"]["bindings"]
    now = max(binding["ts"] for binding in bindings)
    arrivals = Arrivals((300.0,))
    for binding in bindings:
        arrivals.add(0, binding["ts"], now)

    counted = arrivals.counts(1, now)[0, 0]

    assert counted == len(bindings)
    assert counted > len(case["expected"]["kept"])


def test_the_defaults_are_those_of_the_shipped_policy() -> None:
    """Predicates, weights and hot values of crane's policy file, in its order."""
    shipped = next(case["inputs"]["policy"] for case in CASES if case["id"] == "cranef-01")
    policy = Dynamic()

    assert policy == msgspec.structs.replace(a_policy(shipped), hot_value=policy.hot_value)
    assert [(hot.span, hot.count) for hot in policy.hot_value] == [(300.0, 5), (60.0, 2)]


def test_a_burst_costs_ten_points_for_each_hot_value() -> None:
    """Ten pods in the last minute: 10/5 + 10/2 = 7, so 70 points; the score never falls below 0."""
    nodes = node_loads(evenly([20, 20, 20]), placed=np.array([[0.0, 0.0], [10.0, 10.0], [20.0, 20.0]]))

    assert Dynamic().score(nodes, POD) == pytest.approx([80.0, 10.0, 0.0])


def test_a_placed_pod_is_in_the_load_and_in_the_count() -> None:
    """Differs on purpose: to crane a single new pod is invisible; our load holds it before anybody measured it.

    Its count comes on top, as crane has it; `hotValue: []` leaves that out.
    """
    nodes = node_loads(evenly([20, 30]), placed=np.array([[0.0, 0.0], [2.0, 2.0]]))
    quiet = Dynamic(hot_value=())

    assert Dynamic().score(nodes, POD) == pytest.approx([80.0, 60.0])
    assert quiet.score(nodes, POD) == pytest.approx([80.0, 70.0])
    assert quiet.counted_within == ()


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
