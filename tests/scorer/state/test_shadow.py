"""The shadow policy."""

import msgspec
import numpy as np
import pytest
from builders import NOW, a_node_utilization, a_placed_pod, a_placement
from scorer.clusters import a_cycle, a_pod, a_scoring_state

from equipoise.contracts.numeric import Array
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand, Statistic
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.state.scoring_state import Prioritized, ScoringState

NAMES = ["low", "level", "hot"]


class Emptiest(ScoringPolicy, frozen=True, kw_only=True, tag="emptiest"):
    """Prefers nodes with a low maximum in the shortest window and without recent placements."""

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return ("max",)

    @property
    def placement_spans(self) -> tuple[float, ...]:
        return (60.0,)

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        assert nodes.recent_placements.shape == (len(nodes.names), 1)
        score: Array = 100.0 - 100.0 * nodes.statistics["max"][:, 0, 0] - 10.0 * nodes.recent_placements[:, 0]
        return score


class Fullest(ScoringPolicy, frozen=True, kw_only=True, tag="fullest"):
    """Needs placements too, within other spans."""

    @property
    def placement_spans(self) -> tuple[float, ...]:
        return (600.0, 3_600.0)

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        assert nodes.recent_placements.shape == (len(nodes.names), 2)
        score: Array = 100.0 * nodes.load[:, 0, 0]
        return score


class Constant(ScoringPolicy, frozen=True, kw_only=True, tag="constant"):
    score_of_all: float

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        return np.full(len(nodes.names), self.score_of_all)


class FewestPlacements(ScoringPolicy, frozen=True, kw_only=True, tag="fewest_placements"):
    """Prefers nodes without recent placements."""

    @property
    def placement_spans(self) -> tuple[float, ...]:
        return (60.0,)

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        score: Array = 90.0 - 50.0 * np.minimum(nodes.recent_placements[:, 0], 1.0)
        return score


class FailingOnce(ScoringPolicy, frozen=True, kw_only=True, tag="failing_once"):
    calls: list[int] = msgspec.field(default_factory=list)

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        self.calls.append(1)
        if len(self.calls) == 1:
            raise LookupError("first call")
        return np.linspace(10.0, 90.0, len(nodes.names))


class Failing(ScoringPolicy, frozen=True, kw_only=True, tag="failing"):
    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        raise ZeroDivisionError("always")


def a_state(policy: ScoringPolicy, shadow: ScoringPolicy | None) -> ScoringState:
    """Three nodes with one pod each, placed 30 seconds ago."""
    state = a_scoring_state({}, policy=policy, shadow=shadow)
    for node, cpu in zip(NAMES, (1.0, 2.6, 8.0), strict=True):
        state.on_placement(a_placement(node, [a_placed_pod(f"old-{node}", placed_at=NOW - 30)]), NOW)
        message = a_node_utilization(node, cpu)
        windows = {
            name: type(value)(sampled_at=value.sampled_at, mean=value.mean, max=value.mean)
            for name, value in message.windows.items()
        }
        state.nodes.on_utilization(a_node_utilization(node, cpu, windows=windows), NOW)
    state.on_cycle(a_cycle(3), NOW)
    return state


def prioritize(state: ScoringState) -> Prioritized:
    return state.prioritize(a_pod(cpu=0.5), NAMES, NOW)


def test_the_result_has_the_best_nodes_and_whether_they_agree() -> None:
    """water_level fills the node just below the level; the shadow prefers the emptiest."""
    state = a_state(WaterLevel(), Emptiest())
    prioritized = prioritize(state)
    result = prioritized.shadow

    assert result is not None
    assert (result.policy, result.best, result.agrees) == ("emptiest", ["low"], False)
    assert state.decision(prioritized, a_pod(), 3, NOW).shadow == result


def test_the_same_policy_agrees() -> None:
    """Its best nodes are the same."""
    result = prioritize(a_state(Emptiest(), Emptiest())).shadow

    assert result is not None
    assert result.agrees


def test_a_neutral_policy_agrees_with_every_policy() -> None:
    """All its nodes are equal; it names no best node."""
    results = [
        prioritize(a_state(policy, shadow)).shadow
        for policy, shadow in ((WaterLevel(), Constant(score_of_all=50.0)), (Constant(score_of_all=50.0), Emptiest()))
    ]

    assert [(each.best, each.agrees) for each in results if each is not None] == [([], True), (["low"], True)]


def test_each_policy_has_its_own_placement_counts_and_statistics() -> None:
    """What only one of the two needs does not affect the other."""
    state = a_state(Fullest(), Emptiest())
    prioritized = prioritize(state)

    assert state.shadow is not None
    assert not state.shadow.failure
    assert prioritized.shadow is not None
    assert prioritized.shadow.best == ["low"]
    assert int(prioritized.scores.best[0]) == NAMES.index("hot")


def test_placements_are_counted_if_only_the_shadow_needs_them() -> None:
    """All of them, from the beginning."""
    state = a_state(WaterLevel(), FewestPlacements())
    state.on_placement(a_placement("hot", sequence=2), NOW)
    for node in ("low", "level"):
        state.on_placement(a_placement(node, [a_placed_pod("young", placed_at=NOW - 5)], sequence=2), NOW)
    state.on_placement(a_placement("hot", [a_placed_pod("aged", placed_at=NOW - 100)], sequence=3), NOW)
    result = state.prioritize(a_pod(cpu=0.5), NAMES, NOW + 40).shadow

    assert result is not None
    assert result.best == ["hot"]


@pytest.mark.parametrize("shadow", [None, Emptiest(), Failing(), Constant(score_of_all=float("nan"))])
def test_a_shadow_does_not_change_the_response(shadow: ScoringPolicy | None) -> None:
    """Neither the scores nor the reservations, nor the scores of the next request."""
    alone, shadowed = a_state(WaterLevel(), None), a_state(WaterLevel(), shadow)
    expected = [prioritize(alone).scores.scores.tolist() for _ in range(2)]

    assert [prioritize(shadowed).scores.scores.tolist() for _ in range(2)] == expected
    assert len(shadowed.reservations) == len(alone.reservations)


@pytest.mark.parametrize(
    ("policy", "failure"),
    [
        (Failing(), "failing: ZeroDivisionError: always"),
        (Constant(score_of_all=float("nan")), "constant: a score is not a number"),
    ],
)
def test_a_failing_shadow_is_switched_off(policy: ScoringPolicy, failure: str) -> None:
    """At its first failure, with the reason."""
    state = a_state(WaterLevel(), policy)

    assert prioritize(state).shadow is None
    assert state.shadow is not None
    assert state.shadow.failure == failure
    assert prioritize(state).shadow is None


def test_a_shadow_is_not_called_after_a_failure() -> None:
    """It could fail slowly the next time."""
    policy = FailingOnce()
    state = a_state(WaterLevel(), policy)

    assert [prioritize(state).shadow for _ in range(3)] == [None] * 3
    assert len(policy.calls) == 1
