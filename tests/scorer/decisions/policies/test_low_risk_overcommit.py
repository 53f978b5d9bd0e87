"""The low_risk_overcommit policy; tests/peers/test_trimaran.py has Trimaran's cases."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.configuration.settings import Section
from equipoise.scorer.decisions.policies.low_risk_overcommit import LowRiskOvercommit, RiskLimitWeights, load_risk


def risk_at(mean: float, deviation: float, requested: float, limited: float) -> float:
    """All in percent; the deviation includes smoothing."""
    shares = [np.array([value / 100]) for value in (mean, deviation, requested, limited)]
    return float(load_risk(shares[0], shares[1], requests=shares[2], limits=shares[3])[0])


@pytest.mark.parametrize(
    ("mean", "deviation", "requested", "limited", "risk"),
    [
        (30, 0, 30, 200, 0.0),  # a steady load that keeps to the requests
        (31, 0, 30, 200, 1.0),
        (50, 50 / 3**0.5, 30, 200, 0.7),  # deviation of the uniform distribution
        (50, 50 / 3**0.5, 30, 60, 0.5),  # … of which only the part up to the limits can be
        (90, 5, 0, 0, 0.0),  # no pods with limits
        (100, 40, 90, 200, 1.0),
        (0, 40, 0, 200, 0.0),
    ],
)
def test_the_load_risk_is_that_of_a_load_above_the_requests(
    mean: float, deviation: float, requested: float, limited: float, risk: float
) -> None:
    """Given a load below the limits."""
    assert risk_at(mean, deviation, requested, limited) == pytest.approx(risk)


def test_a_node_far_above_its_limits_has_a_high_risk() -> None:
    """At 98 % load, with requests of 30 % and limits of 50 %, Trimaran's risk is almost 0."""
    assert risk_at(98, 10, 30, 50) > 0.9
    assert risk_at(60, 10, 30, 50) > 0.9
    assert risk_at(40, 10, 30, 50) == pytest.approx(1 - 0.159 / 0.841, abs=0.05)  # as of a normal one


@given(
    mean=st.floats(1, 99),
    more=st.floats(0, 60),
    deviation=st.floats(0, 25),
    requested=st.floats(1, 100),
    beyond=st.floats(0, 100),
)
@settings(max_examples=300)
def test_above_the_requests_more_load_has_no_lower_risk(
    mean: float, more: float, deviation: float, requested: float, beyond: float
) -> None:
    """Except for 7 points of the load risk, where a Beta distribution of the same deviation becomes U-shaped."""
    lower = max(mean, requested)
    upper = min(lower + more, 100.0)

    before, after = (risk_at(load, deviation, requested, requested + beyond) for load in (min(lower, upper), upper))

    assert after >= before - 0.07


def test_an_unknown_value_counts_as_full_risk() -> None:
    """A resource without a deviation has the full load risk, a node of unknown load scores 0."""
    load, deviation = evenly([20, 20, 20]), evenly([0, 0, 0])
    deviation[1, :, 1], load[2] = np.nan, np.nan
    nodes = node_loads(
        load, statistics={"deviation": deviation}, requests=np.full((3, 2), 50.0), limits=np.full((3, 2), 60.0)
    )

    assert LowRiskOvercommit().score(nodes, a_demand(1.0)) == pytest.approx([100.0, 50.0, 0.0])


def test_weights_are_per_resource() -> None:
    """The higher risk counts: 60 of memory's limits exceed the node, of 120 that exceed the requests."""
    nodes = node_loads(evenly([10]), requests=np.full((1, 2), 39.0), limits=np.array([[50.0, 159.0]]))
    policy = LowRiskOvercommit(risk_limit_weights=RiskLimitWeights(cpu=0.0, memory=0.75))

    assert policy.score(nodes, a_demand(1.0)) == pytest.approx([100 - 75 * 60 / 120])


def test_requests_count_up_to_the_base_of_the_node() -> None:
    """If requests exceed the node, the risk of the limits is 1."""
    nodes = node_loads(evenly([10]), requests=np.full((1, 2), 120.0), limits=np.full((1, 2), 190.0))

    assert LowRiskOvercommit().score(nodes, a_demand(10.0)) == pytest.approx([50.0])


def test_smoothing_widens_the_deviation() -> None:
    """The deviation of means of n samples is that of the samples over √n."""
    requests, limits = np.full((1, 2), 60.0), np.full((1, 2), 600.0)
    nodes = node_loads(evenly([40]), statistics={"deviation": evenly([10])}, requests=requests, limits=limits)

    found = [LowRiskOvercommit(smoothing_window_size=size).score(nodes, a_demand(1.0))[0] for size in (1, 5, 20)]

    assert found == sorted(found, reverse=True)
    assert found[0] > found[1] > found[2]


def test_a_window_that_is_not_configured_is_unknown() -> None:
    """The policy uses one window, and needs the deviation."""
    policy = LowRiskOvercommit(window="7d")

    assert policy.score(node_loads(evenly([10])), a_demand(1.0)).tolist() == [0.0]
    assert (policy.windows, policy.statistics) == (("7d",), ("deviation",))


class _Holder(Section, frozen=True, kw_only=True):
    policy: LowRiskOvercommit = LowRiskOvercommit()


def test_settings_have_trimarans_names() -> None:
    """The default of a weight is 0.5."""
    document = {"policy": {"smoothingWindowSize": 3, "riskLimitWeights": {"cpu": 1}}}

    policy = msgspec.convert(document, _Holder).policy

    assert policy == LowRiskOvercommit(smoothing_window_size=3, risk_limit_weights=RiskLimitWeights(cpu=1, memory=0.5))


@pytest.mark.parametrize(
    "fault", [{"smoothingWindowSize": 0}, {"riskLimitWeights": {"cpu": 1.5}}, {"riskLimitWeights": {"gpu": 0.5}}]
)
def test_invalid_settings_are_refused(fault: dict[str, object]) -> None:
    """Trimaran replaces them with the default."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"policy": fault}, _Holder)
