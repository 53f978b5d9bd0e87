"""Nodes are scored by the risk of overcommitment, as Trimaran's LowRiskOverCommitment scores them."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.configuration.settings import Section
from equipoise.scorer.decisions.policies.low_risk_overcommit import LowRiskOvercommit, RiskLimitWeights, load_risk


def risk_at(mean: float, deviation: float, requested: float, limited: float) -> float:
    """All in percent; the deviation as it counts, smoothing included."""
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
def test_risk_of_the_load(mean: float, deviation: float, requested: float, limited: float, risk: float) -> None:
    """That it lies above the requests, given that it lies below the limits."""
    assert risk_at(mean, deviation, requested, limited) == pytest.approx(risk)


def test_a_node_far_above_its_limits_is_a_risk() -> None:
    """At 98 % load, requests and limits of 30 % and 50 % are kept by nobody; Trimaran's risk is next to 0 there."""
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
def test_more_load_above_the_requests_is_no_less_risk(
    mean: float, more: float, deviation: float, requested: float, beyond: float
) -> None:
    """But for a rest of 7 points of the load's risk, where a Beta distribution of the same deviation turns U-shaped."""
    lower = max(mean, requested)
    upper = min(lower + more, 100.0)

    before, after = (risk_at(load, deviation, requested, requested + beyond) for load in (min(lower, upper), upper))

    assert after >= before - 0.07


def test_what_is_not_measured_counts_as_full() -> None:
    """A resource without a deviation has the whole risk of its load, a node without any load gets 0."""
    load, deviation = evenly([20, 20, 20]), evenly([0, 0, 0])
    deviation[1, :, 1], load[2] = np.nan, np.nan
    nodes = node_loads(
        load, statistics={"deviation": deviation}, requests=np.full((3, 2), 50.0), limits=np.full((3, 2), 60.0)
    )

    assert LowRiskOvercommit().score(nodes, a_demand(1.0)) == pytest.approx([100.0, 50.0, 0.0])


def test_weights_are_per_resource() -> None:
    """The worse resource decides: 60 of memory's limits are beyond what is there, of 120 beyond what is asked."""
    nodes = node_loads(evenly([10]), requests=np.full((1, 2), 39.0), limits=np.array([[50.0, 159.0]]))
    policy = LowRiskOvercommit(risk_limit_weights=RiskLimitWeights(cpu=0.0, memory=0.75))

    assert policy.score(nodes, a_demand(1.0)) == pytest.approx([100 - 75 * 60 / 120])


def test_requests_count_up_to_what_the_node_has() -> None:
    """Of a node that is asked for more than it has, all limits beyond it are a risk, and not more than all."""
    nodes = node_loads(evenly([10]), requests=np.full((1, 2), 120.0), limits=np.full((1, 2), 190.0))

    assert LowRiskOvercommit().score(nodes, a_demand(10.0)) == pytest.approx([50.0])


def test_smoothing_widens_the_deviation() -> None:
    """The deviation of means of n samples is that of the samples over √n."""
    asked, allowed = np.full((1, 2), 60.0), np.full((1, 2), 600.0)
    nodes = node_loads(evenly([40]), statistics={"deviation": evenly([10])}, requests=asked, limits=allowed)

    found = [LowRiskOvercommit(smoothing_window_size=size).score(nodes, a_demand(1.0))[0] for size in (1, 5, 20)]

    assert found == sorted(found, reverse=True)
    assert found[0] > found[1] > found[2]


def test_a_window_nobody_configured_is_unknown() -> None:
    """The policy looks at one window, and asks for the deviation."""
    policy = LowRiskOvercommit(window="7d")

    assert policy.score(node_loads(evenly([10])), a_demand(1.0)).tolist() == [0.0]
    assert (policy.windows, policy.statistics) == (("7d",), ("deviation",))


class _Holder(Section, frozen=True, kw_only=True):
    policy: LowRiskOvercommit = LowRiskOvercommit()


def test_settings_bear_trimarans_names() -> None:
    """A weight that is not given is 0.5."""
    document = {"policy": {"smoothingWindowSize": 3, "riskLimitWeights": {"cpu": 1}}}

    policy = msgspec.convert(document, _Holder).policy

    assert policy == LowRiskOvercommit(smoothing_window_size=3, risk_limit_weights=RiskLimitWeights(cpu=1, memory=0.5))


@pytest.mark.parametrize(
    "fault", [{"smoothingWindowSize": 0}, {"riskLimitWeights": {"cpu": 1.5}}, {"riskLimitWeights": {"gpu": 0.5}}]
)
def test_settings_that_trimaran_replaces_in_silence_are_refused(fault: dict[str, object]) -> None:
    """An error says more than a default."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"policy": fault}, _Holder)
