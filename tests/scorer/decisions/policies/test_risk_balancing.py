"""The risk_balancing policy; tests/peers/test_trimaran.py has Trimaran's cases."""

import msgspec
import numpy as np
import pytest
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.numeric import Array
from equipoise.scorer.decisions.arrays import CandidateNodes
from equipoise.scorer.decisions.policies.risk_balancing import RiskBalancing


def with_deviation(load: Array, percent: Array) -> CandidateNodes:
    return node_loads(load, statistics={"deviation": percent})


def test_an_unknown_deviation_is_not_0() -> None:
    """The resource does not count; a node without any known resource scores 0."""
    load, deviation = evenly([30, 30]), evenly([10, 10])
    deviation[0, :, 0], deviation[1] = np.nan, np.nan

    scores = RiskBalancing().score(with_deviation(load, deviation), a_demand(0.0))

    assert scores == pytest.approx([80.0, 0.0])


def test_of_two_nodes_the_one_with_the_lower_deviation_is_first() -> None:
    """If their means are equal."""
    scores = RiskBalancing().score(with_deviation(evenly([40, 40]), evenly([5, 30])), a_demand(1.0))

    assert scores == pytest.approx([77.0, 64.5])


@pytest.mark.parametrize(
    ("margin", "sensitivity", "score"), [(0, 1, 80), (2, 1, 71), (1, 2, 65), (1, 0, 80), (1e6, 1, 30)]
)
def test_margin_and_sensitivity_weight_the_deviation(margin: float, sensitivity: float, score: float) -> None:
    """A deviation of 9 % counts as margin times its root, at most 1; with sensitivity 0 it does not count."""
    policy = RiskBalancing(safe_variance_margin=margin, safe_variance_sensitivity=sensitivity)

    assert policy.score(with_deviation(evenly([40]), evenly([9])), a_demand(0.0)) == pytest.approx([score])


def test_a_window_that_is_not_configured_is_unknown() -> None:
    """The policy uses one window, and needs the deviation."""
    policy = RiskBalancing(window="7d")

    assert policy.score(node_loads(evenly([10])), a_demand(0.0)).tolist() == [0.0]
    assert (policy.windows, policy.statistics) == (("7d",), ("deviation",))


class _Holder(Section, frozen=True, kw_only=True):
    policy: RiskBalancing = RiskBalancing()


@pytest.mark.parametrize("fault", [{"safeVarianceMargin": -1}, {"safeVarianceSensitivity": -1}])
def test_negative_settings_are_refused(fault: dict[str, object]) -> None:
    """Trimaran silently replaces them with 1."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"policy": {"name": "risk_balancing"} | fault}, _Holder)
