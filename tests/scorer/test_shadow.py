"""The policy that only looks on."""

import msgspec
import numpy as np
import pytest
from builders import NOW, a_node_utilization, a_placed_pod, a_placement
from scorer.fleets import a_cycle, a_pod

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.decisions.scoring_state import Picture, Prioritized
from equipoise.scorer.decisions.shadow import Shadow
from equipoise.scorer.state.arrays import Array, Demand, NodeLoads, Statistic

NAMES = ["low", "level", "hot"]


class Emptiest(ScoringPolicy, frozen=True, kw_only=True):
    """Prefers the emptiest node by the highest value of the shortest window, and nodes without arrivals."""

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return ("max",)

    @property
    def counted_within(self) -> tuple[float, ...]:
        return (60.0,)

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        assert nodes.placed.shape == (len(nodes.names), 1)
        score: Array = 100.0 - 100.0 * nodes.statistics["max"][:, 0, 0] - 10.0 * nodes.placed[:, 0]
        return score


class Fuller(ScoringPolicy, frozen=True, kw_only=True):
    """Counts arrivals too, within other spans."""

    @property
    def counted_within(self) -> tuple[float, ...]:
        return (600.0, 3_600.0)

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        assert nodes.placed.shape == (len(nodes.names), 2)
        score: Array = 100.0 * nodes.load[:, 0, 0]
        return score


class Constant(ScoringPolicy, frozen=True, kw_only=True):
    score_of_all: float

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        return np.full(len(nodes.names), self.score_of_all)


class Untouched(ScoringPolicy, frozen=True, kw_only=True):
    """Prefers nodes that were given nothing of late."""

    @property
    def counted_within(self) -> tuple[float, ...]:
        return (60.0,)

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        score: Array = 90.0 - 50.0 * np.minimum(nodes.placed[:, 0], 1.0)
        return score


class Stumbling(ScoringPolicy, frozen=True, kw_only=True):
    """Fails once, and would do well after."""

    asked: list[int] = msgspec.field(default_factory=list)

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        self.asked.append(1)
        if len(self.asked) == 1:
            raise LookupError("stumbled")
        return np.linspace(10.0, 90.0, len(nodes.names))


class Failing(ScoringPolicy, frozen=True, kw_only=True):
    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        raise ZeroDivisionError("no luck")


def picture_with(policy: ScoringPolicy, shadow: ScoringPolicy | None) -> tuple[Picture, Shadow | None]:
    looking_on = None if shadow is None else Shadow(shadow, "other", least_spread=5.0)
    picture = Picture(
        load=LoadSettings(),
        policy=policy,
        policy_name="first",
        least_spread=5.0,
        reservation=2.0,
        after_eviction=600.0,
        shadow=looking_on,
    )
    for node, cpu in zip(NAMES, (1.0, 2.6, 8.0), strict=True):
        picture.on_placement(a_placement(node, [a_placed_pod(f"old-{node}", placed_at=NOW - 30)]), NOW)
        message = a_node_utilization(node, cpu)
        windows = {
            name: type(value)(sampled_at=value.sampled_at, mean=value.mean, max=value.mean)
            for name, value in message.windows.items()
        }
        picture.on_utilization(a_node_utilization(node, cpu, windows=windows), NOW)
    picture.on_cycle(a_cycle(3))
    return picture, looking_on


def asked(picture: Picture) -> Prioritized:
    return picture.prioritize(a_pod(cpu=0.5), NAMES, NOW)


def test_it_tells_its_best_nodes_and_whether_they_would_have_done() -> None:
    """water_level fills the node just below the level; the other would have taken the emptiest."""
    picture, _ = picture_with(WaterLevel(), Emptiest())
    answer = asked(picture)

    assert answer.shadow is not None
    assert (answer.shadow.policy, answer.shadow.best, answer.shadow.agrees) == ("other", ["low"], False)
    assert picture.explain(answer, a_pod(), 3, NOW).shadow == answer.shadow


def test_the_same_policy_agrees() -> None:
    """With itself, always."""
    picture, _ = picture_with(Emptiest(), Emptiest())
    opinion = asked(picture).shadow

    assert opinion is not None
    assert opinion.agrees


def test_who_tells_no_nodes_apart_agrees_with_anybody() -> None:
    """To the neutral one every node is a best one, and none is named."""
    opinions = [
        asked(picture_with(policy, shadow)[0]).shadow
        for policy, shadow in ((WaterLevel(), Constant(score_of_all=50.0)), (Constant(score_of_all=50.0), Emptiest()))
    ]

    assert [(each.best, each.agrees) for each in opinions if each is not None] == [([], True), (["low"], True)]


def test_each_policy_sees_its_own_counts_and_statistics() -> None:
    """What only the other looks at is kept for it, and does not get in the way."""
    picture, shadow = picture_with(Fuller(), Emptiest())
    answer = asked(picture)

    assert shadow is not None
    assert not shadow.failure
    assert answer.shadow is not None
    assert answer.shadow.best == ["low"]
    assert int(answer.answer.best[0]) == NAMES.index("hot")


def test_what_only_the_shadow_counts_is_counted() -> None:
    """The first policy does not look at arrivals; the second one sees them all the same."""
    picture, _ = picture_with(WaterLevel(), Untouched())
    picture.on_placement(a_placement("hot", sequence=2), NOW)
    for node in ("low", "level"):
        picture.on_placement(a_placement(node, [a_placed_pod("young", placed_at=NOW - 5)], sequence=2), NOW)
    picture.on_placement(a_placement("hot", [a_placed_pod("aged", placed_at=NOW - 100)], sequence=3), NOW)
    opinion = picture.prioritize(a_pod(cpu=0.5), NAMES, NOW + 40).shadow

    assert opinion is not None
    assert opinion.best == ["hot"]


@pytest.mark.parametrize("shadow", [None, Emptiest(), Failing(), Constant(score_of_all=float("nan"))])
def test_the_answer_is_the_same_whoever_looks_on(shadow: ScoringPolicy | None) -> None:
    """Its integers, its bookings, and the answer after it."""
    alone, _ = picture_with(WaterLevel(), None)
    watched, _ = picture_with(WaterLevel(), shadow)
    expected = [asked(alone).answer.scores.tolist() for _ in range(2)]

    assert [asked(watched).answer.scores.tolist() for _ in range(2)] == expected
    assert len(watched.reservations) == len(alone.reservations)


@pytest.mark.parametrize(
    ("policy", "failure"),
    [
        (Failing(), "other: ZeroDivisionError: no luck"),
        (Constant(score_of_all=float("nan")), "other: a score is not a number"),
    ],
)
def test_a_failing_one_is_switched_off(policy: ScoringPolicy, failure: str) -> None:
    """At its first failure, for good."""
    picture, shadow = picture_with(WaterLevel(), policy)

    assert shadow is not None
    assert asked(picture).shadow is None
    assert shadow.failure == failure
    assert asked(picture).shadow is None


def test_it_gets_no_second_chance() -> None:
    """What failed once may fail slowly the next time: it is not even asked."""
    policy = Stumbling()
    picture, _ = picture_with(WaterLevel(), policy)

    assert [asked(picture).shadow for _ in range(3)] == [None] * 3
    assert len(policy.asked) == 1
