"""Nodes are scored by mean and deviation of their load, as Trimaran's LoadVariationRiskBalancing scores them."""

import msgspec
import numpy as np
import pytest
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.configuration.settings import Section
from equipoise.scorer.decisions.policies.risk_balancing import RiskBalancing
from equipoise.scorer.state.arrays import Array, CandidateNodes


def with_deviation(load: Array, percent: Array) -> CandidateNodes:
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
    """Trimaran takes a negative sensitivity for 1 in silence, as it does a negative margin."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"policy": {"name": "risk_balancing"} | fault}, _Holder)
