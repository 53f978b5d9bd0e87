"""The peaks policy; tests/peers/test_trimaran.py has Trimaran's cases."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scorer.clusters import a_demand, evenly, node_loads

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.policies.peaks import Peaks, PowerModel, extra_power

STEEP_LATE = PowerModel(k0=100.0, k1=20.0, k2=0.03)


def test_nodes_are_filled_if_the_first_percent_cost_most() -> None:
    """With Trimaran's model the fullest usable node is first; the emptiest still has a point."""
    scores = Peaks().score(node_loads(evenly([0, 30, 60, 98.5, 99.5, np.nan])), a_demand(1.0))

    assert scores[0] == 1.0
    assert scores[:4].tolist() == sorted(scores[:4])
    assert scores[3:] == pytest.approx([100.0, 0.0, 0.0])
    assert Peaks().level(node_loads(evenly([10]))) == Resources(cpu=1.0)


def test_load_is_spread_if_the_last_percent_cost_most() -> None:
    """The emptiest node is first; the policy has no level."""
    policy = Peaks(default_power_model=STEEP_LATE)

    scores = policy.score(node_loads(evenly([10, 40, 80])), a_demand(1.0))

    assert scores.tolist() == sorted(scores, reverse=True)
    assert (scores[0], scores[2]) == pytest.approx((100.0, 1.0))
    assert policy.level(node_loads(evenly([10]))) == Resources()


def test_a_named_node_has_its_own_model() -> None:
    """Others have the default; without a default they score 0."""
    nodes = node_loads(evenly([30, 30, 30]), names=["old", "new", "other"])
    models = {"old": PowerModel(k0=0, k1=40, k2=0.02), "new": PowerModel(k0=0, k1=20, k2=0.02)}

    assert Peaks(node_power_model=models, default_power_model=None).score(nodes, a_demand(1.0)) == pytest.approx(
        [1.0, 100.0, 0.0]
    )
    default = PowerModel(k0=0, k1=30, k2=0.02)
    assert Peaks(node_power_model=models, default_power_model=default).score(nodes, a_demand(1.0)) == pytest.approx(
        [1.0, 100.0, 50.0]
    )


def test_a_larger_node_with_the_same_model_costs_less() -> None:
    """The pod is a smaller share of it."""
    nodes = msgspec.structs.replace(node_loads(evenly([30, 30])), base=np.array([[10.0, 1.0], [20.0, 1.0]]))

    assert Peaks().score(nodes, a_demand(1.0)) == pytest.approx([1.0, 100.0])


def test_small_differences_are_not_scaled_to_all_points() -> None:
    """If costs differ by less than 5 %, points differ little."""
    scores = Peaks().score(node_loads(evenly([30, 30.1])), a_demand(1.0))

    assert scores == pytest.approx([86, 100], abs=1)


@given(loads=st.lists(st.floats(0, 120), min_size=2, max_size=6), pod=st.floats(0, 50))
@settings(max_examples=100)
def test_a_node_with_a_lower_cost_never_scores_lower(loads: list[float], pod: float) -> None:
    """The order is that of the additional power."""
    nodes = node_loads(evenly(loads))
    known = np.array(loads) + pod <= 100
    cost = extra_power(nodes.load[:, 1, 0], np.array(pod / 100), np.array(-91.5), np.array(-0.0719))

    scores = Peaks(default_power_model=PowerModel(k0=0, k1=-91.5, k2=-0.0719)).score(nodes, a_demand(pod))

    by_cost = scores[known][np.argsort(cost[known])]
    assert np.all(np.diff(by_cost) <= 1e-9)


def test_a_window_that_is_not_configured_is_unknown() -> None:
    """The policy uses one window."""
    assert Peaks(window="7d").score(node_loads(evenly([10])), a_demand(1.0)).tolist() == [0.0]
    assert Peaks(window="7d").windows == ("7d",)


class _Holder(Section, frozen=True, kw_only=True):
    policy: Peaks = Peaks()


def test_settings_have_trimarans_names() -> None:
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
def test_invalid_models_are_refused(fault: dict[str, object]) -> None:
    """No model, an incomplete or misspelled one, power that falls as load rises, and unlimited power."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"policy": fault}, _Holder)
