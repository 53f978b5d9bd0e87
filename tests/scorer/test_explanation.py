"""Why a pod would go where: what an explanation tells, and that its numbers are those of the answer."""

from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from builders import GIB, NOW, a_node_utilization, a_placed_pod, a_placement, a_workload, a_workload_utilization
from scorer.fleets import a_cycle, a_demand, a_picture, a_pod, node_loads
from scorer.test_after_eviction import an_outcome

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.explanation import ExplainRequest, Explanation, NodeExplanation, WindowExplanation
from equipoise.contracts.messages.placement import GonePod, PlacedPod
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import WindowUsage
from equipoise.scorer.decisions.explanation import smallest_change
from equipoise.scorer.decisions.placement_advice import as_asked
from equipoise.scorer.decisions.policies.load_aware import LoadAware
from equipoise.scorer.decisions.policies.mix import Mix, Part
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.decisions.policies.profile import Profile
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.decisions.scoring_state import Picture
from equipoise.scorer.state.arrays import Array, Demand, NodeLoads, Statistic

A_MIX = Mix(parts=(Part(policy=WaterLevel()), Part(policy=Profile())))

CORES = {"low": 1.0, "under": 3.0, "over": 6.0}


def of(explanation: Explanation, node: str) -> NodeExplanation:
    return next(each for each in explanation.nodes if each.node == node)


def window(node: NodeExplanation, name: str) -> WindowExplanation:
    return next(each for each in node.windows if each.window == name)


def a_new_pod(name: str = "web-1", **fields: Any) -> PlacedPod:
    """Half of the shortest window old; one core, measured."""
    return a_placed_pod(name, **({"placed_at": NOW - 160, "running_since": NOW - 150} | fields))


def a_gone_pod(name: str = "web-9") -> GonePod:
    return GonePod(
        uid=f"uid-{name}",
        namespace="shop",
        name=name,
        running_since=NOW - 90_000,
        gone_at=NOW - 60,
        usage=Resources(cpu=1.0, memory=GIB),
    )


def with_pods(
    picture: Picture, node: str, cpu: float, pods: list[PlacedPod], gone: list[GonePod] | None = None
) -> None:
    """Each of the pods is measured at one core and 1 GiB; nothing else runs there."""
    measured = {pod.uid: Resources(cpu=1.0, memory=GIB) for pod in pods}
    picture.on_placement(a_placement(node, pods, gone=gone or [], sequence=2), NOW)
    heard = a_node_utilization(node, cpu, pods=measured, sequence=2)
    picture.on_utilization(msgspec.structs.replace(heard, system=Resources(cpu=0.0, memory=0.0)), NOW)


# what is told


def test_a_question_is_answered_as_if_it_were_asked_now() -> None:
    """The same integers, scores, demand and level as an answer to kube-scheduler has."""
    pod = a_pod(cpu=0.5)
    told = a_picture(CORES).explain_question(ExplainRequest(pod=pod), NOW)
    picture = a_picture(CORES)
    prioritized = picture.prioritize(pod, list(CORES), NOW)
    published = picture.explain(prioritized, pod, 3, NOW)

    assert [(each.node, each.extender_score, each.score) for each in told.nodes] == [
        (each.node, each.extender_score, each.score) for each in published.best
    ]
    assert (told.demand, told.level) == (published.demand, published.level)
    assert told.demand_sources == {"cpu": "request", "memory": "request"}
    assert told.chain == ["measured", "limit", "request", "default"]
    assert [each.rank for each in told.nodes] == [1, 2, 3]
    assert told.considered == 3


def test_asking_why_changes_nothing() -> None:
    """No booking, and nobody is taken for a replacement."""
    picture = a_picture(CORES)
    picture.on_outcome(an_outcome(node="over", target="low"), NOW)
    asked = ExplainRequest(pod=a_pod("web-2", a_workload()))
    first = picture.explain_question(asked, NOW)

    assert first == picture.explain_question(asked, NOW)
    assert len(picture.reservations) == 0
    assert [each.status for each in (of(first, "low"), of(first, "over"))] == ["preferred", "avoided"]
    other = picture.prioritize(a_pod("web-3", a_workload()), list(CORES), NOW)
    assert other.hint.preferred == "low"


def test_a_pod_is_not_in_its_own_way() -> None:
    """What it was promised a moment ago does not count against it; for another pod it does."""
    picture = a_picture(CORES)
    pod = a_pod("web-2", cpu=2.0)
    before = picture.explain_question(ExplainRequest(pod=pod), NOW)
    picture.prioritize(pod, list(CORES), NOW)
    best = before.nodes[0].node
    other = picture.explain_question(ExplainRequest(pod=a_pod("web-3", cpu=2.0)), NOW)

    assert picture.explain_question(ExplainRequest(pod=pod), NOW) == before
    assert (of(other, best).reserved_by_responses, window(of(other, best), "5m").reserved.cpu) == (1, 2.0)
    assert window(of(other, best), "5m").load.cpu == pytest.approx((CORES[best] + 2.0) / 10.0)


@pytest.mark.parametrize("mode", ["proportional", "cliff", "off"])
def test_the_numbers_of_every_window_add_up(mode: Literal["proportional", "cliff", "off"]) -> None:
    """Measured + added − taken off + booked is the load that was scored."""
    picture = a_picture(CORES, load=LoadSettings(compensation=mode))
    fresh = a_new_pod("api-2", placed_at=NOW, running_since=None, workload=None)
    with_pods(picture, "low", 4.0, [a_new_pod("api-1", workload=None), fresh], [a_gone_pod()])
    picture.on_outcome(an_outcome(node="over", target="low"), NOW)
    pod = a_pod(cpu=0.5)
    told = of(picture.explain_question(ExplainRequest(pod=pod), NOW), "low")
    ranked = picture.prioritize(pod, ["low"], NOW).ranked

    assert ranked is not None
    assert told.reserved_for_replacements == 1
    for position, each in enumerate(told.windows):
        assert each.measured is not None
        for index, resource in enumerate(("cpu", "memory")):
            terms = [each.measured.mean, each.added.amount, each.reserved, each.subtracted.amount]
            mean, added, booked, taken_off = (getattr(term, resource) or 0.0 for term in terms)
            load = (mean + added + booked - taken_off) / getattr(told.base, resource)
            assert load == pytest.approx(getattr(each.load, resource))
            assert load == pytest.approx(ranked.nodes.load[0, position, index])


def test_pods_that_came_and_went_are_named() -> None:
    """Those that change most first, at most ten; and how many there are."""
    picture = a_picture(CORES)
    late = [a_new_pod(f"web-{number}", running_since=NOW - 10 * number) for number in range(12)]
    with_pods(picture, "low", 4.0, late, [a_gone_pod()])
    five = window(of(picture.explain_question(ExplainRequest(node="low"), NOW), "low"), "5m")

    assert five.added.pods == [f"shop/web-{number}" for number in range(10)]
    assert five.added.count == 12
    assert five.added.amount.cpu == pytest.approx(sum(1.0 - 10 * number / 300 for number in range(12)))
    assert (five.subtracted.pods, five.subtracted.count) == (["shop/web-9"], 1)
    assert five.subtracted.amount.cpu == pytest.approx(0.8)


def test_freshness_is_told_per_window_and_node() -> None:
    """Ages are those of the newest samples, beside how long they are good for."""
    picture = a_picture(CORES)
    told = of(picture.explain_question(ExplainRequest(pod=a_pod()), NOW + 7), "low")

    assert (told.age, told.lifetime) == (7.0, 180.0)
    assert (window(told, "5m").age, window(told, "5m").lifetime) == (7.0, 180.0)
    assert window(told, "1d").lifetime == 5_400.0


def test_what_may_not_be_used_is_unknown_and_says_why() -> None:
    """An expired window, one that samples do not cover, and a node of which half is missing."""
    picture = a_picture(CORES)
    windows = dict(a_node_utilization("low", 1.0).windows)
    del windows["1d"]
    old = a_node_utilization("low", 1.0, sampled_at=NOW - 400).windows["5m"]
    picture.on_utilization(a_node_utilization("low", 1.0, windows={**windows, "5m": old}, sequence=2), NOW)
    picture.on_placement(a_placement("silent"), NOW)
    told = picture.explain_question(ExplainRequest(pod=a_pod(), nodes=[*CORES, "silent", "never"]), NOW)

    assert window(of(told, "low"), "1d").unknown_reason == "samples do not cover it"
    assert window(of(told, "low"), "5m").unknown_reason == "its newest sample is 400.0 s old"
    assert window(of(told, "low"), "5m").load == Resources()
    silent = of(told, "silent")
    assert (silent.status, silent.why, silent.age) == ("unknown", "no utilization was heard of it", None)
    assert (of(told, "never").status, of(told, "never").extender_score) == ("unknown", 0)


def test_a_window_that_the_policy_looks_at_and_nobody_measures_is_told() -> None:
    """Else a score of 0 on nodes of which everything seems known would be a riddle."""
    question = ExplainRequest(pod=a_pod())
    for name, told in (("5m", False), ("9m", True)):
        picture = a_picture(CORES, policy=LoadAware(window=name))
        notes = " ".join(picture.explain_question(question, NOW).notes)
        assert ("looks at 9m, which load.windows does not have" in notes) == told


def test_an_overfull_node_says_in_what() -> None:
    """The resource and the window in which it would be fullest."""
    told = a_picture({"low": 1.0, "full": 9.5}).explain_question(ExplainRequest(pod=a_pod(cpu=2.0)), NOW)

    assert of(told, "full").why == "with the pod it would be overfull: cpu 115.0% (5m)"


def test_too_little_known_is_a_doubt_and_the_numbers_are_still_told() -> None:
    """Every answer is the same, and what it would have been can be seen from the scores."""
    picture = a_picture(CORES)
    picture.on_cycle(a_cycle(10, sequence=2))
    told = picture.explain_question(ExplainRequest(pod=a_pod()), NOW)

    assert told.neutral
    assert told.data_problem == told.why == "the load of 3 of 10 nodes is known, 70% needed"
    assert len({each.extender_score for each in told.nodes}) == 1
    assert len({each.score for each in told.nodes}) == 3
    assert told.rank_change is not None
    assert told.rank_change.cpu_change is None
    assert told.rank_change.why.startswith("every node is told the same: the load of 3 of 10")


# a pod that has a node


@pytest.mark.parametrize("mode", ["proportional", "cliff", "off"])
def test_a_placed_pod_is_explained_without_itself(mode: Literal["proportional", "cliff", "off"]) -> None:
    """On its own node nothing of it is left in any window, whatever the compensation: else it would count twice."""
    picture = a_picture(CORES, load=LoadSettings(compensation=mode))
    old = a_placed_pod("web-1")
    with_pods(picture, "low", 4.0, [old])
    told = picture.explain_question(ExplainRequest(namespace="shop", name="web-1"), NOW)
    low = of(told, "low")

    assert (told.current_node, told.pod) == ("low", as_asked(old))
    assert [each.load.cpu for each in low.windows] == pytest.approx([0.3] * 4)
    assert window(low, "5m").subtracted.pods == ["shop/web-1"]
    assert low.requests == Resources(cpu=0.0, memory=0.0)
    assert picture.explain_question(ExplainRequest(node="low"), NOW).nodes[0].requests.cpu == 0.5


def test_of_a_young_pod_only_what_is_measured_is_taken_off() -> None:
    """Half a window old: half of it is in the mean, and the rest is not added."""
    picture = a_picture(CORES)
    with_pods(picture, "low", 4.0, [a_new_pod(), a_placed_pod("web-2")])
    told = picture.explain_question(ExplainRequest(namespace="shop", name="web-1"), NOW)
    five = window(of(told, "low"), "5m")

    assert five.subtracted.amount.cpu == pytest.approx(0.5)
    assert five.added.count == 0
    assert five.load.cpu == pytest.approx(0.35)


def test_a_measured_pod_is_scored_as_its_workload_is_expected() -> None:
    """By the chain, as if it came anew: the link that told is named."""
    picture = a_picture(CORES)
    with_pods(picture, "low", 4.0, [a_placed_pod("web-1")])
    picture.on_workload(a_workload_utilization(cpu=3.0))
    told = picture.explain_question(ExplainRequest(namespace="shop", name="web-1"), NOW)

    assert (told.demand.cpu, told.demand_sources["cpu"]) == (3.0, "measured")


def test_of_two_pods_of_a_name_the_one_that_stays_is_meant() -> None:
    """A StatefulSet's pod that moved is for a while on both nodes."""
    picture = a_picture(CORES)
    picture.on_placement(a_placement("over", [a_placed_pod("db-0", uid="old", terminating=True)], sequence=2), NOW)
    picture.on_placement(a_placement("low", [a_placed_pod("db-0", uid="new")], sequence=2), NOW)

    assert picture.explain_question(ExplainRequest(namespace="shop", name="db-0"), NOW).current_node == "low"


def test_a_pod_that_was_never_seen_is_a_problem_and_not_an_answer() -> None:
    """It says what to do; so do a node that was never heard of, and an empty question."""
    picture = a_picture(CORES)

    def problem(question: ExplainRequest) -> str:
        told = picture.explain_question(question, NOW)
        assert told.nodes == []
        return told.problem

    assert "`kubectl -n shop get pod web-1 -o wide`" in problem(ExplainRequest(namespace="shop", name="web-1"))
    assert "`equipoise tap '*.node.a_b'`" in problem(ExplainRequest(node="a.b"))
    assert problem(ExplainRequest()) == "name a pod (namespace and name, or all of it) or a node"
    assert "room" in problem(ExplainRequest(pod=a_pod(cpu=99.0)))


# which nodes


def test_candidates_are_nodes_that_could_hold_the_pod() -> None:
    """Cordoned nodes and those without room by requests are left out, but for its own and the one asked about."""
    picture = a_picture({**CORES, "shut": 1.0, "booked": 1.0})
    picture.on_placement(a_placement("shut", cordoned=True, sequence=2), NOW)
    hog = a_placed_pod("hog", requests=Resources(cpu=9.8, memory=GIB))
    picture.on_placement(a_placement("booked", [hog], sequence=2), NOW)
    pod = a_pod(cpu=0.5)
    asked = picture.explain_question(ExplainRequest(pod=pod, node="shut"), NOW)
    its_own = picture.explain_question(ExplainRequest(namespace="shop", name="hog"), NOW)

    assert {each.node for each in picture.explain_question(ExplainRequest(pod=pod), NOW).nodes} == set(CORES)
    assert {each.node for each in asked.nodes} == {*CORES, "shut"}
    assert "booked" in {each.node for each in its_own.nodes}
    assert "booked" not in {each.node for each in asked.nodes}


def test_ten_nodes_are_told_and_the_one_asked_about() -> None:
    """With its rank among all; so that the answer of a large fleet fits into one message."""
    picture = a_picture({f"n{number}": 1.0 + 0.2 * number for number in range(30)})
    told = picture.explain_question(ExplainRequest(pod=a_pod(cpu=2.0), node="n29"), NOW)

    assert (told.considered, len(told.nodes), told.nodes[-1].node) == (30, 11, "n29")
    assert told.nodes[-1].rank > 11


# what would have changed the order


def test_the_change_that_is_told_changes_the_order() -> None:
    """With a tenth of a point less the best node still is, with so many points it is not."""
    cores = {"low": 1.0, "under": 3.0, "over": 6.0}
    told = a_picture(cores).explain_question(ExplainRequest(pod=a_pod(cpu=0.5)), NOW).rank_change

    assert told is not None
    assert told.cpu_change is not None
    for change, first in (
        (told.cpu_change, told.runner_up),
        (told.cpu_change - np.sign(told.cpu_change) * 0.2, told.best),
    ):
        changed = cores | {told.best: cores[told.best] + change / 10.0}
        assert a_picture(changed).explain_question(ExplainRequest(pod=a_pod(cpu=0.5)), NOW).nodes[0].node == first
    assert f"{told.runner_up} would be first if {told.best} had {abs(told.cpu_change):.1f} points" in told.why


class LeastLoaded(ScoringPolicy, frozen=True, kw_only=True, tag="least_loaded"):
    """100 − cpu load of the shortest window in percent."""

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        points: Array = 100.0 - 100.0 * nodes.load[:, 0, 0]
        return points


class Fixed(ScoringPolicy, frozen=True, kw_only=True, tag="fixed"):
    """Scores that hang on no load."""

    def score(self, nodes: NodeLoads, demand: Demand) -> Array:
        return np.array([60.0 if name == "node-0" else 40.0 for name in nodes.names])


def loads_of(*percent: float) -> NodeLoads:
    return node_loads(np.repeat(np.array(percent) / 100.0, 8).reshape(len(percent), 4, 2))


@pytest.mark.parametrize(
    ("percent", "expected"),
    [((10.0, 22.5), 12.5), ((10.0, 10.0), 0.0), ((10.0, 10.21), 0.3), ((10.0, 98.0), 88.0)],
)
def test_a_lead_of_so_many_points_is_lost_after_so_many(percent: tuple[float, float], expected: float) -> None:
    """In full tenths."""
    pair = np.array([0, 1])

    assert smallest_change(LeastLoaded(), loads_of(*percent), a_demand(1.0), pair, 0) == pytest.approx(expected)


def test_a_node_loses_its_lead_at_the_latest_when_it_is_overfull() -> None:
    """Even where the policy looks at no load."""
    assert smallest_change(Fixed(), loads_of(10.0, 20.0), a_demand(1.0), np.array([0, 1]), 0) == pytest.approx(89.0)


def test_no_load_puts_a_node_to_keep_away_from_first() -> None:
    """None, not a number that means nothing."""
    pair = np.array([0, 1])

    assert smallest_change(Fixed(), loads_of(10.0, 100.0), a_demand(1.0), pair, 0) is None
    assert smallest_change(WaterLevel(), loads_of(10.0, np.nan), a_demand(1.0), pair, 0) is None


def test_less_load_may_be_what_it_takes() -> None:
    """Under the level the fuller node leads: here by 4 points in cpu and memory, 6 in cpu alone that counts double."""
    loads = loads_of(30.0, 26.0, 60.0, 60.0, 20.0)

    assert smallest_change(WaterLevel(), loads, a_demand(0.5), np.array([0, 1]), 0) == pytest.approx(-6.0)


# every policy


@pytest.mark.parametrize("policy", [WaterLevel(), Profile(), A_MIX], ids=["water_level", "profile", "mix"])
def test_every_policy_is_explained(policy: ScoringPolicy) -> None:
    """Also those that look at whole days, and mixes: these tell the score of each part."""
    picture = Picture(
        load=LoadSettings(),
        policy=policy,
        policy_name="any",
        least_spread=0.0,
        reservation=2.0,
        after_eviction=600.0,
    )
    pod = a_placed_pod("web-1")
    for node, cpu in CORES.items():
        with_pods(picture, node, cpu, [pod] if node == "low" else [a_placed_pod(f"on-{node}")])
    picture.on_cycle(a_cycle(3))
    told = picture.explain_question(ExplainRequest(namespace="shop", name="web-1"), NOW)

    assert len(told.nodes) == 3
    assert all(each.score > 0.0 for each in told.nodes)
    assert told.rank_change is not None
    assert set(told.nodes[0].parts) == ({"1 water_level", "2 profile"} if policy is A_MIX else set())
    assert ("the coming day" in " ".join(told.notes)) == policy.looks_at_days


def test_a_day_without_the_pod_is_explained() -> None:
    """A policy that looks at days sees its node without it, too: an empty node is as good as it was before."""
    picture = Picture(
        load=LoadSettings(),
        policy=Profile(),
        policy_name="profile",
        least_spread=0.0,
        reservation=2.0,
        after_eviction=600.0,
    )
    for node in CORES:
        with_pods(picture, node, 1.0, [a_placed_pod("web-1")] if node == "low" else [])
    picture.on_cycle(a_cycle(3))
    told = picture.explain_question(ExplainRequest(namespace="shop", name="web-1"), NOW)

    assert len({each.score for each in told.nodes}) == 1


class Curious(LeastLoaded, frozen=True, kw_only=True, tag="curious"):
    """Looks at everything."""

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return ("p95", "max", "deviation", "production")

    @property
    def counted_within(self) -> tuple[float, ...]:
        return (300.0,)


def test_statistics_are_told_without_the_pod_as_far_as_that_can_be_said() -> None:
    """Quantiles and production lose the pod's part, a deviation stays as measured; the notes say so."""
    picture = Picture(
        load=LoadSettings(),
        policy=Curious(),
        policy_name="curious",
        least_spread=0.0,
        reservation=2.0,
        after_eviction=600.0,
    )
    pod = a_placed_pod("web-1", qos="Burstable", placed_at=NOW - 200, running_since=NOW - 190)
    value = WindowUsage(
        sampled_at=NOW,
        mean=Resources(cpu=3.0, memory=GIB),
        p95=Resources(cpu=4.0, memory=GIB),
        max=Resources(cpu=5.0, memory=GIB),
        deviation=Resources(cpu=0.5, memory=GIB),
    )
    used = {pod.uid: Resources(cpu=1.0, memory=GIB)}
    picture.on_placement(a_placement("low", [pod]), NOW)
    picture.on_utilization(a_node_utilization("low", pods=used, windows={"5m": value}), NOW)
    picture.on_cycle(a_cycle(1))
    question = ExplainRequest(namespace="shop", name="web-1")
    told = picture.explain_question(question, NOW)
    five = window(of(told, "low"), "5m")
    fleet = picture.fleet.without("low", pod, NOW)
    names = ["low"]

    assert {name: each.cpu for name, each in five.statistics.items()} == pytest.approx(
        {"p95": 0.3, "max": 0.4, "deviation": 0.05, "production": 0.0}
    )
    assert len(told.notes) == 3
    assert picture.fleet.loads(names, picture.fleet.rows(names), NOW).placed.tolist() == [[1.0]]
    assert fleet.loads(names, fleet.rows(names), NOW).placed.tolist() == [[0.0]]
