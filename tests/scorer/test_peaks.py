"""Nodes are scored by the power that a pod adds, as Trimaran's Peaks scores them."""

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scorer.fleets import a_demand, evenly, node_loads
from scorer.trimaran import Case, case_of, cases

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.messages.resources import Resources
from equipoise.scorer.decisions.policies.peaks import Peaks, PowerModel, extra_power, spread
from equipoise.scorer.state.arrays import NodeLoads

STEEP_LATE = PowerModel(k0=100.0, k1=20.0, k2=0.03)
NO_ROOM = {
    "no-metrics",  # peaks-11
    "full",  # peaks-12
}
"""Nodes that cost nothing in Trimaran (unknown, or overfull with the pod) and come first. Here they get 0."""


def a_policy(nodes: dict[str, Case]) -> Peaks:
    return Peaks(node_power_model={name: PowerModel(**node["model"]) for name, node in nodes.items()})


def a_fleet(nodes: dict[str, Case]) -> NodeLoads:
    utilization = [np.nan if node["cpu_util_pct"] is None else float(node["cpu_util_pct"]) for node in nodes.values()]
    base = np.array([[node["cpu_capacity_m"] / 1000.0, 1.0] for node in nodes.values()])
    return msgspec.structs.replace(node_loads(evenly(utilization), names=list(nodes)), base=base)


@cases("peaks", but=["peaks-05", "peaks-07", "peaks-08", "peaks-09", "peaks-11", "peaks-12"])
def test_extra_power_is_trimarans(case: dict[str, Any]) -> None:
    """In units of 10⁻¹⁵, cut off. That of a pod which asks for nothing is 0, on a full node too."""
    inputs = case["inputs"]
    node, model = inputs["node"], inputs["node"]["model"]
    used, share = np.array([node["cpu_util_pct"] / 100]), np.array([inputs["pod_req_cpu_m"] / node["cpu_capacity_m"]])

    raw = extra_power(used, share, np.array(model["k1"]), np.array(model["k2"]))

    assert math.trunc(raw[0] * 1e15) == pytest.approx(case["expected"]["raw_score"])


@cases("peaks", but=[f"peaks-{number:02}" for number in range(1, 13) if number != 5])
def test_an_unknown_node_has_no_cost(case: dict[str, Any]) -> None:
    """peaks-05: Trimaran's raw score is 0, the best there is; here the score is 0, the worst."""
    nodes = {"node": case["inputs"]["node"]}

    assert a_policy(nodes).score(a_fleet(nodes), a_demand(0.0)).tolist() == [0.0]


@cases("peaks", but=["peaks-03", "peaks-04", "peaks-05", "peaks-09", "peaks-12"])
def test_costs_are_spread_as_trimaran_normalises_them(case: dict[str, Any]) -> None:
    """The points lost are cut off. Costs that are all 0 are equal like others: 100, for 0 would say keep away."""
    costs = {name: raw for name, raw in case["inputs"]["raw_scores"].items() if name not in NO_ROOM}
    values = np.array(list(costs.values()), np.float64)
    expected = case["expected"]["normalised"]
    if NO_ROOM & expected.keys():
        # Without the node that costs nothing because it is unknown, the next one is the cheapest.
        expected = {"b": 100, "c": 0}
    elif not values.any():
        expected = dict.fromkeys(costs, 100)

    points = 100 - np.trunc(100 - spread(values, values))

    assert dict(zip(costs, points, strict=True)) == expected


def test_the_node_that_draws_least_more_wins() -> None:
    """peaks-09: three equal loads, three models."""
    case = case_of("peaks-09")
    nodes = case["inputs"]["nodes"]

    scores = a_policy(nodes).score(a_fleet(nodes), a_demand(case["inputs"]["pod_req_cpu_m"] / 1000))

    assert list(nodes)[int(scores.argmax())] == case["expected"]["winner"]
    assert scores == pytest.approx([100.0, 50.0, 1.0])


def test_a_node_that_would_be_overfull_loses() -> None:
    """peaks-12: Trimaran's winner, for it costs nothing, gets 0 here."""
    case = case_of("peaks-12")
    nodes = case["inputs"]["nodes"]

    scores = a_policy(nodes).score(a_fleet(nodes), a_demand(case["inputs"]["pod_req_cpu_m"] / 1000))

    assert case["expected"]["winner"] == "full"
    assert dict(zip(nodes, scores, strict=True)) == {"idle": 100.0, "full": 0.0}


def test_nodes_that_draw_ever_less_are_filled() -> None:
    """With Trimaran's model the fullest node with room comes first, the emptiest still has a point."""
    scores = Peaks().score(node_loads(evenly([0, 30, 60, 98.5, 99.5, np.nan])), a_demand(1.0))

    assert scores[0] == 1.0
    assert scores[:4].tolist() == sorted(scores[:4])
    assert scores[3:] == pytest.approx([100.0, 0.0, 0.0])
    assert Peaks().level(node_loads(evenly([10]))) == Resources(cpu=1.0)


def test_nodes_that_draw_ever_more_are_spared() -> None:
    """Where the last percent costs most, the emptiest comes first, and nodes are led nowhere."""
    policy = Peaks(default_power_model=STEEP_LATE)

    scores = policy.score(node_loads(evenly([10, 40, 80])), a_demand(1.0))

    assert scores.tolist() == sorted(scores, reverse=True)
    assert (scores[0], scores[2]) == pytest.approx((100.0, 1.0))
    assert policy.level(node_loads(evenly([10]))) == Resources()


def test_a_named_node_has_its_own_model() -> None:
    """Others have the default one; without it they are not scored."""
    nodes = node_loads(evenly([30, 30, 30]), names=["old", "new", "other"])
    models = {"old": PowerModel(k0=0, k1=40, k2=0.02), "new": PowerModel(k0=0, k1=20, k2=0.02)}

    assert Peaks(node_power_model=models, default_power_model=None).score(nodes, a_demand(1.0)) == pytest.approx(
        [1.0, 100.0, 0.0]
    )
    default = PowerModel(k0=0, k1=30, k2=0.02)
    assert Peaks(node_power_model=models, default_power_model=default).score(nodes, a_demand(1.0)) == pytest.approx(
        [1.0, 100.0, 50.0]
    )


def test_a_larger_node_of_the_same_model_draws_less() -> None:
    """The same pod is a smaller share of it."""
    nodes = msgspec.structs.replace(node_loads(evenly([30, 30])), base=np.array([[10.0, 1.0], [20.0, 1.0]]))

    assert Peaks().score(nodes, a_demand(1.0)) == pytest.approx([1.0, 100.0])


def test_noise_is_not_stretched_over_all_points() -> None:
    """Of costs within 5 % of one another, the points are apart as little."""
    scores = Peaks().score(node_loads(evenly([30, 30.1])), a_demand(1.0))

    assert scores == pytest.approx([86, 100], abs=1)


@given(loads=st.lists(st.floats(0, 120), min_size=2, max_size=6), pod=st.floats(0, 50))
@settings(max_examples=100)
def test_a_cheaper_node_never_comes_after_a_dearer_one(loads: list[float], pod: float) -> None:
    """Whatever the spread: the order is that of the extra power."""
    nodes = node_loads(evenly(loads))
    known = np.array(loads) + pod <= 100
    cost = extra_power(nodes.load[:, 1, 0], np.array(pod / 100), np.array(-91.5), np.array(-0.0719))

    scores = Peaks(default_power_model=PowerModel(k0=0, k1=-91.5, k2=-0.0719)).score(nodes, a_demand(pod))

    by_cost = scores[known][np.argsort(cost[known])]
    assert np.all(np.diff(by_cost) <= 1e-9)


def test_a_window_nobody_configured_is_unknown() -> None:
    """The policy looks at one window."""
    assert Peaks(window="7d").score(node_loads(evenly([10])), a_demand(1.0)).tolist() == [0.0]
    assert Peaks(window="7d").windows == ("7d",)


class _Holder(Section, frozen=True, kw_only=True):
    policy: Peaks = Peaks()


def test_settings_bear_trimarans_names() -> None:
    """`nodePowerModel` maps a node's name to k0, k1 and k2."""
    document = {"policy": {"name": "peaks", "nodePowerModel": {"a": {"k0": 1, "k1": 2, "k2": 0.5}}}}

    assert msgspec.convert(document, _Holder).policy.node_power_model == {"a": PowerModel(k0=1, k1=2, k2=0.5)}


@pytest.mark.parametrize(
    "fault",
    [
        {"defaultPowerModel": None},
        {"nodePowerModel": {"a": {"k1": 1, "k2": 0.1}}},
        {"nodePowerModel": {"a": {"k0": 1, "k1": 1, "k2": -0.1}}},
        {"nodePowerModel": {"a": {"k0": 1, "k1": 1, "k2": 0.1, "k3": 0}}},
        {"nodePowerModel": {"a": {"k0": 1, "k1": 1, "k2": 50}}},
    ],
)
def test_models_that_make_no_sense_are_refused(fault: dict[str, object]) -> None:
    """No model at all, an incomplete or misspelt one, and power that falls as load rises or has no bounds."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"policy": fault}, _Holder)
