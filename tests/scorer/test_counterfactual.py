"""The smallest change of load that changes the order of two nodes."""

import numpy as np
import pytest
from builders import NOW
from scorer.clusters import a_demand, a_pod, a_scoring_state, evenly, node_loads

from equipoise.contracts.messages.explanation import ExplainRequest, Explanation
from equipoise.scorer.decisions.counterfactual import smallest_change
from equipoise.scorer.decisions.explanation import explain
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.state.arrays import Array, CandidateNodes, Demand

PAIR = np.array([0, 1])


class LeastLoaded(ScoringPolicy, frozen=True, kw_only=True, tag="least_loaded"):
    """100 − cpu load of the shortest window in percent."""

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        points: Array = 100.0 - 100.0 * nodes.load[:, 0, 0]
        return points


class Fixed(ScoringPolicy, frozen=True, kw_only=True, tag="fixed"):
    """Scores that do not depend on the load."""

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        return np.array([60.0 if name == "node-0" else 40.0 for name in nodes.names])


def explain_pod(cores: dict[str, float]) -> Explanation:
    return explain(a_scoring_state(cores), ExplainRequest(pod=a_pod(cpu=0.5)), NOW)


def test_the_reported_change_changes_the_order() -> None:
    """And 0.2 points less do not."""
    cores = {"low": 1.0, "under": 3.0, "over": 6.0}
    result = explain_pod(cores).rank_change

    assert result is not None
    assert result.cpu_change is not None
    for change, first in (
        (result.cpu_change, result.runner_up),
        (result.cpu_change - np.sign(result.cpu_change) * 0.2, result.best),
    ):
        changed = cores | {result.best: cores[result.best] + change / 10.0}
        assert explain_pod(changed).nodes[0].node == first
    expected = f"{result.runner_up} would be first if {result.best} had {abs(result.cpu_change):.1f} points"
    assert expected in result.why


@pytest.mark.parametrize(
    ("percent", "expected"),
    [((10.0, 22.5), 12.5), ((10.0, 10.0), 0.0), ((10.0, 10.21), 0.3), ((10.0, 98.0), 88.0)],
)
def test_the_change_equals_the_difference_in_points(percent: tuple[float, float], expected: float) -> None:
    """Rounded up to tenths."""
    nodes = node_loads(evenly(percent))

    assert smallest_change(LeastLoaded(), nodes, a_demand(1.0), PAIR, 0) == pytest.approx(expected)


def test_an_overfull_node_is_never_first() -> None:
    """Even if the policy does not use the load."""
    assert smallest_change(Fixed(), node_loads(evenly([10, 20])), a_demand(1.0), PAIR, 0) == pytest.approx(89.0)


def test_without_a_change_that_is_enough_the_result_is_none() -> None:
    """The second node is overfull or unknown."""
    assert smallest_change(Fixed(), node_loads(evenly([10, 100])), a_demand(1.0), PAIR, 0) is None
    assert smallest_change(WaterLevel(), node_loads(evenly([10, np.nan])), a_demand(1.0), PAIR, 0) is None


def test_the_change_may_be_negative() -> None:
    """Below the level the fuller node is first: here by 4 points in cpu and memory, 6 in cpu, which counts double."""
    nodes = node_loads(evenly([30, 26, 60, 60, 20]))

    assert smallest_change(WaterLevel(), nodes, a_demand(0.5), PAIR, 0) == pytest.approx(-6.0)
