"""Nodes are scored by mean and deviation of their load, as Trimaran's LoadVariationRiskBalancing scores them."""

from typing import Any

import msgspec
import numpy as np
import pytest
from scorer.fleets import a_demand, evenly, node_loads
from scorer.trimaran import Case, a_node, cases, measured, rounded, usage_of

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.messages.resources import Resources
from equipoise.scorer.decisions.policies.risk_balancing import RiskBalancing
from equipoise.scorer.state.arrays import Array, NodeLoads

OURS = {
    # A negative amount is no measurement: the node is unknown. Trimaran takes it for 0.
    "lvrb-03": 0,
    # Trimaran reads a mean that is not there as 0 once there is a deviation.
    "lvrb-20": 0,
}
"""Scores that differ from Trimaran's."""

UNKNOWN = ["musig-02", "musig-06", "musig-07"]
"""Without capacity, or with a negative mean or deviation, there is nothing to score; Trimaran reads each as 0."""


def of_cpu(inputs: Case) -> NodeLoads:
    """A node of which only CPU is measured; amounts are taken as cores."""
    return a_node(
        base=Resources(cpu=inputs["capacity"], memory=1.0),
        mean=Resources(cpu=inputs["used_avg"]),
        deviation=Resources(cpu=inputs["used_std"]),
    )


def of_metrics(inputs: Case) -> NodeLoads:
    base = Resources(cpu=inputs["cpu_alloc_m"] / 1000.0, memory=inputs["mem_alloc_b"])
    return a_node(
        base=base,
        mean=measured(inputs["metrics"], base, operators=("AVG", "Latest", "")),
        deviation=measured(inputs["metrics"], base, operators=("STD",)),
    )


@cases("lvrb_score", but=["lvrb-08"])
def test_scores_as_trimaran_scores(case: dict[str, Any]) -> None:
    """The worse resource counts, and the only one when the other is unknown. Where ours differs, OURS says why."""
    inputs = case["inputs"]
    policy = RiskBalancing(safe_variance_margin=inputs["margin"], safe_variance_sensitivity=inputs["sensitivity"])
    if "metrics" in inputs:
        nodes, demand = of_metrics(inputs), usage_of(inputs["pod_req_cpu_m"] / 1000.0, inputs["pod_req_mem_b"])
    else:
        nodes, demand = of_cpu(inputs), usage_of(inputs["pod_req"])

    assert rounded(policy.score(nodes, demand)[0]) == OURS.get(case["id"], case["expected"]["score"])


@cases("trimaran_mu_sigma")
def test_mean_and_deviation_count_as_shares_of_the_node(case: dict[str, Any]) -> None:
    """The mean with the pod, and the deviation, each at most 1: what the score is made of, apart by the margin."""
    nodes, demand = of_cpu(case["inputs"]), usage_of(case["inputs"]["pod_req"])
    steady = RiskBalancing(safe_variance_margin=0).score(nodes, demand)[0]
    wavering = RiskBalancing().score(nodes, demand)[0]

    mean, deviation = (100 - steady) / 50, (steady - wavering) / 50

    if case["id"] in UNKNOWN:
        assert (steady, wavering) == (0, 0)
    else:
        assert (mean, deviation) == pytest.approx((case["expected"]["mu"], case["expected"]["sigma"]))


@cases("trimaran_resource_stats")
def test_measured_amounts_become_shares(case: dict[str, Any]) -> None:
    """A mean and a deviation each, the mean whatever else there is: here as shares of the base, there as amounts."""
    inputs, expected = case["inputs"], case["expected"]
    position = ["CPU", "Memory"].index(inputs["type"])
    base = Resources(cpu=inputs["capacity"], memory=inputs["capacity"])

    nodes = a_node(
        base=base,
        mean=measured(inputs["metrics"], base, operators=("AVG",)),
        deviation=measured(inputs["metrics"], base, operators=("STD",)),
    )

    assert nodes.base[0, position] == expected["capacity"]
    assert nodes.load[0, 1, position] * expected["capacity"] == pytest.approx(expected["used_avg"])
    assert nodes.statistics["deviation"][0, 1, position] * expected["capacity"] == pytest.approx(expected["used_std"])


def with_deviation(load: Array, percent: Array) -> NodeLoads:
    return node_loads(load, statistics={"deviation": percent})


def test_an_unknown_deviation_is_not_read_as_none() -> None:
    """Nobody measures it: the resource does not count, and without another the node gets 0."""
    load, deviation = evenly([30, 30]), evenly([10, 10])
    deviation[0, :, 0], deviation[1] = np.nan, np.nan

    scores = RiskBalancing().score(with_deviation(load, deviation), a_demand(0.0))

    assert scores == pytest.approx([80.0, 0.0])


def test_the_steadier_of_two_nodes_comes_first() -> None:
    """At equal means the deviation decides."""
    scores = RiskBalancing().score(with_deviation(evenly([40, 40]), evenly([5, 30])), a_demand(1.0))

    assert scores == pytest.approx([77.0, 64.5])


@pytest.mark.parametrize(
    ("margin", "sensitivity", "score"), [(0, 1, 80), (2, 1, 71), (1, 2, 65), (1, 0, 80), (1e6, 1, 30)]
)
def test_margin_and_sensitivity(margin: float, sensitivity: float, score: float) -> None:
    """The deviation of 9 % counts as margin times its root, at most 1; at sensitivity 0 not at all."""
    policy = RiskBalancing(safe_variance_margin=margin, safe_variance_sensitivity=sensitivity)

    assert policy.score(with_deviation(evenly([40]), evenly([9])), a_demand(0.0)) == pytest.approx([score])


def test_a_window_nobody_configured_is_unknown() -> None:
    """The policy looks at one window, and asks for the deviation."""
    policy = RiskBalancing(window="7d")

    assert policy.score(node_loads(evenly([10])), a_demand(0.0)).tolist() == [0.0]
    assert (policy.windows, policy.statistics) == (("7d",), ("deviation",))


class _Holder(Section, frozen=True, kw_only=True):
    policy: RiskBalancing = RiskBalancing()


@pytest.mark.parametrize("fault", [{"safeVarianceMargin": -1}, {"safeVarianceSensitivity": -1}])
def test_negative_settings_are_refused(fault: dict[str, object]) -> None:
    """lvrb-08: Trimaran takes a negative sensitivity for 1 in silence (as it does a negative margin)."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"policy": {"name": "risk_balancing"} | fault}, _Holder)


@cases("lvrb_score", but=[f"lvrb-{number:02}" for number in range(1, 21) if number != 8])
def test_the_default_sensitivity_is_what_trimaran_takes_a_negative_one_for(case: dict[str, Any]) -> None:
    """lvrb-08 in our settings."""
    found = RiskBalancing().score(of_cpu(case["inputs"]), usage_of(case["inputs"]["pod_req"]))[0]

    assert rounded(found) == case["expected"]["score"]
