"""Explanations: their content, and that their numbers are those of the scores."""

from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from builders import (
    GIB,
    NOW,
    a_batch_pod,
    a_node_utilization,
    a_placed_pod,
    a_placement,
    a_reclaimed_node,
    a_workload,
    a_workload_utilization,
    nodes_being_emptied,
)
from scorer.clusters import a_batch_request, a_cycle, a_demand, a_pod, a_scoring_state, an_outcome, evenly, node_loads

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.placement import GonePod, PlacedHint, PlacedPod
from equipoise.contracts.messages.score import ExplainRequest, Explanation, NodeExplanation, WindowExplanation
from equipoise.contracts.messages.utilization import WindowUsage
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand, Statistic
from equipoise.scorer.decisions.demand import demand_of_placed
from equipoise.scorer.decisions.explanations.explanation import explain
from equipoise.scorer.decisions.explanations.rank_change import smallest_change
from equipoise.scorer.decisions.policies.load_aware import LoadAware
from equipoise.scorer.decisions.policies.mix import Mix, MixPart
from equipoise.scorer.decisions.policies.policy import ScoringPolicy
from equipoise.scorer.decisions.policies.profile import ProfilePolicy
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.decisions.scoring_settings import BandScoring
from equipoise.scorer.state.scoring_state import ScoringState

A_MIX = Mix(parts=(MixPart(policy=WaterLevel()), MixPart(policy=ProfilePolicy())))
CORES = {"low": 1.0, "under": 3.0, "over": 6.0}
WEB_1 = ExplainRequest(namespace="shop", name="web-1")


def of(explanation: Explanation, node: str) -> NodeExplanation:
    return next(each for each in explanation.nodes if each.node == node)


def window(node: NodeExplanation, name: str) -> WindowExplanation:
    return next(each for each in node.windows if each.window == name)


def a_new_pod(name: str = "web-1", **fields: Any) -> PlacedPod:
    """It has run for half of the shortest window, and is measured at one core."""
    return a_placed_pod(name, **({"placed_at": NOW - 160, "running_since": NOW - 150} | fields))


def a_gone_pod(name: str = "web-9", cpu: float = 1.0) -> GonePod:
    return GonePod(
        uid=f"uid-{name}",
        namespace="shop",
        name=name,
        running_since=NOW - 90_000,
        gone_at=NOW - 60,
        usage=Resources(cpu=cpu, memory=GIB),
    )


def set_pods(
    state: ScoringState, node: str, cpu: float, pods: list[PlacedPod], gone: list[GonePod] | None = None
) -> None:
    """Each of the pods is measured at one core and 1 GiB; the node uses nothing outside its pods."""
    measured = {pod.uid: Resources(cpu=1.0, memory=GIB) for pod in pods}
    state.on_placement(a_placement(node, pods, gone=gone or [], sequence=2), NOW)
    utilization = a_node_utilization(node, cpu, pods=measured, sequence=2)
    state.nodes.on_utilization(msgspec.structs.replace(utilization, system=Resources(cpu=0.0, memory=0.0)), NOW)


# content


def test_an_explanation_has_the_current_scores() -> None:
    """The integers, points, demand and level of a response to kube-scheduler."""
    pod = a_pod(cpu=0.5)
    explanation = explain(a_scoring_state(CORES), ExplainRequest(pod=pod), NOW)
    state = a_scoring_state(CORES)
    prioritized = state.prioritize(pod, list(CORES), NOW)
    decision = state.decision(prioritized, pod, 3, NOW)

    assert [(each.node, each.extender_score, each.score) for each in explanation.nodes] == [
        (each.node, each.extender_score, each.score) for each in decision.best
    ]
    assert (explanation.demand, explanation.level) == (decision.demand, decision.level)
    assert explanation.demand_sources == {"cpu": "request", "memory": "request"}
    assert explanation.chain == ["measured", "limit", "request", "default"]
    assert [each.rank for each in explanation.nodes] == [1, 2, 3]
    assert explanation.considered == 3


def test_an_explanation_does_not_change_the_state() -> None:
    """It reserves nothing and assigns no replacement."""
    state = a_scoring_state(CORES)
    state.replacements.on_outcome(an_outcome(node="over", target="low"), NOW)
    request = ExplainRequest(pod=a_pod("web-2", a_workload()))
    first = explain(state, request, NOW)

    assert first == explain(state, request, NOW)
    assert len(state.reservations) == 0
    assert [each.status for each in (of(first, "low"), of(first, "over"))] == ["preferred", "avoided"]
    other = state.prioritize(a_pod("web-3", a_workload()), list(CORES), NOW).ranking
    assert other is not None
    assert other.hint.preferred == "low"


def test_a_node_that_is_being_emptied_is_avoided_with_the_reason() -> None:
    """The best one, here; if it is the second one, no load would put it first."""
    state = a_scoring_state(CORES)
    request = ExplainRequest(pod=a_pod("web-2"))
    best, second, *_ = (node.node for node in explain(state, request, NOW).nodes)
    state.emptying.on_message(nodes_being_emptied(best, "over"), NOW)
    explanation = explain(state, request, NOW)

    why = "it is being emptied by consolidation since 2027-01-15 08:00 UTC: few pods"
    assert explanation.nodes[0].node == second
    assert (of(explanation, best).status, of(explanation, best).why) == ("avoided", why)
    assert (of(explanation, best).score, of(explanation, best).extender_score) == (0.0, 0)
    assert explanation.rank_change is not None
    assert explanation.rank_change.why.endswith(f"is avoided whatever the loads are: {why}")
    decision = state.decision(state.prioritize(a_pod("web-3"), list(CORES), NOW), a_pod("web-3"), 3, NOW)
    assert {each.node: each.why for each in decision.best}[best] == why


def test_a_pods_own_reservation_does_not_count() -> None:
    """It counts for another pod."""
    state = a_scoring_state(CORES)
    pod = a_pod("web-2", cpu=2.0)
    before = explain(state, ExplainRequest(pod=pod), NOW)
    state.prioritize(pod, list(CORES), NOW)
    best = before.nodes[0].node
    other = explain(state, ExplainRequest(pod=a_pod("web-3", cpu=2.0)), NOW)

    assert explain(state, ExplainRequest(pod=pod), NOW) == before
    assert (of(other, best).reserved_by_responses, window(of(other, best), "5m").reserved.cpu) == (1, 2.0)
    assert window(of(other, best), "5m").load.cpu == pytest.approx((CORES[best] + 2.0) / 10.0)


@pytest.mark.parametrize("cpu_of_gone", [1.0, 90.0])
@pytest.mark.parametrize("mode", ["proportional", "cliff", "off"])
def test_the_numbers_of_every_window_add_up(mode: Literal["proportional", "cliff", "off"], cpu_of_gone: float) -> None:
    """Measured + added − subtracted + reserved is the load that was scored, whatever pods that left used."""
    state = a_scoring_state(CORES, load=LoadSettings(compensation=mode))
    starting = a_new_pod("api-2", placed_at=NOW, running_since=None, workload=None)
    set_pods(state, "low", 4.0, [a_new_pod("api-1", workload=None), starting], [a_gone_pod(cpu=cpu_of_gone)])
    state.replacements.on_outcome(an_outcome(node="over", target="low"), NOW)
    pod = a_pod(cpu=0.5)
    low = of(explain(state, ExplainRequest(pod=pod), NOW), "low")
    ranking = state.prioritize(pod, ["low"], NOW).ranking

    assert ranking is not None
    assert low.reserved_for_replacements == 1
    for position, each in enumerate(low.windows):
        assert each.measured is not None
        for index, resource in enumerate(("cpu", "memory")):
            terms = [each.measured.mean, each.added.amount, each.reserved, each.subtracted.amount]
            mean, added, reserved, subtracted = (getattr(term, resource) or 0.0 for term in terms)
            load = (mean + added + reserved - subtracted) / getattr(low.base, resource)
            assert load == pytest.approx(getattr(each.load, resource))
            assert load == pytest.approx(ranking.nodes.load[0, position, index])


def test_new_and_gone_pods_are_named() -> None:
    """At most ten, those with the largest effect first; and their number."""
    state = a_scoring_state(CORES)
    new = [a_new_pod(f"web-{number}", running_since=NOW - 10 * number) for number in range(12)]
    set_pods(state, "low", 4.0, new, [a_gone_pod()])
    five = window(of(explain(state, ExplainRequest(node="low"), NOW), "low"), "5m")

    assert five.added.pods == [f"shop/web-{number}" for number in range(10)]
    assert five.added.count == 12
    assert five.added.amount.cpu == pytest.approx(sum(1.0 - 10 * number / 300 for number in range(12)))
    assert (five.subtracted.pods, five.subtracted.count) == (["shop/web-9"], 1)
    assert five.subtracted.amount.cpu == pytest.approx(0.8)


def test_every_window_and_node_has_its_age_and_lifetime() -> None:
    """The age of the newest sample, and how long it may be used."""
    low = of(explain(a_scoring_state(CORES), ExplainRequest(pod=a_pod()), NOW + 7), "low")

    assert (low.age, low.lifetime) == (7.0, 180.0)
    assert (window(low, "5m").age, window(low, "5m").lifetime) == (7.0, 180.0)
    assert window(low, "1d").lifetime == 5_400.0


def test_an_unknown_window_or_node_has_a_reason() -> None:
    """An expired window, one that samples do not cover, and a node without utilization."""
    state = a_scoring_state(CORES)
    windows = dict(a_node_utilization("low", 1.0).windows)
    del windows["1d"]
    old = a_node_utilization("low", 1.0, sampled_at=NOW - 400).windows["5m"]
    state.nodes.on_utilization(a_node_utilization("low", 1.0, windows={**windows, "5m": old}, sequence=2), NOW)
    state.on_placement(a_placement("unmeasured"), NOW)
    explanation = explain(state, ExplainRequest(pod=a_pod(), nodes=[*CORES, "unmeasured", "nowhere"]), NOW)
    low, unmeasured, nowhere = (of(explanation, node) for node in ("low", "unmeasured", "nowhere"))

    assert window(low, "1d").unknown_reason == "samples do not cover it"
    assert window(low, "5m").unknown_reason == "its newest sample is 400.0 s old"
    assert window(low, "5m").load == Resources()
    assert (unmeasured.status, unmeasured.why) == ("unknown", "no utilization was received for it")
    assert unmeasured.age is None
    assert (nowhere.status, nowhere.extender_score) == ("unknown", 0)


def test_a_note_names_windows_of_the_policy_that_are_not_measured() -> None:
    """Otherwise nobody would understand why nodes with known windows score 0."""
    for name, missing in (("5m", False), ("9m", True)):
        state = a_scoring_state(CORES, policy=LoadAware(window=name))
        notes = " ".join(explain(state, ExplainRequest(pod=a_pod()), NOW).notes)
        assert ("the policy uses 9m, which is not in load.windows" in notes) == missing


def test_an_overfull_node_names_the_resource() -> None:
    """And the window with the highest load."""
    explanation = explain(a_scoring_state({"low": 1.0, "full": 9.5}), ExplainRequest(pod=a_pod(cpu=2.0)), NOW)

    assert of(explanation, "full").why == "with the pod it would be overfull: cpu 115.0% (5m)"


def test_without_coverage_the_points_are_still_explained() -> None:
    """All scores are equal; the points show what they would have been."""
    state = a_scoring_state(CORES)
    state.on_cycle(a_cycle(10, sequence=2), NOW)
    explanation = explain(state, ExplainRequest(pod=a_pod()), NOW)

    assert explanation.neutral
    assert explanation.data_problem == explanation.why
    assert "3 of 10 nodes" in explanation.why
    assert len({each.extender_score for each in explanation.nodes}) == 1
    assert len({each.score for each in explanation.nodes}) == 3
    assert explanation.rank_change is not None
    assert explanation.rank_change.cpu_change is None
    assert explanation.rank_change.why == f"every node has the same score: {explanation.why}"


# a placed pod


@pytest.mark.parametrize("mode", ["proportional", "cliff", "off"])
def test_a_placed_pod_is_scored_without_itself(mode: Literal["proportional", "cliff", "off"]) -> None:
    """No window of its node includes it, whatever the compensation: otherwise it would count twice."""
    state = a_scoring_state(CORES, load=LoadSettings(compensation=mode))
    pod = a_placed_pod("web-1")
    set_pods(state, "low", 4.0, [pod])
    explanation = explain(state, WEB_1, NOW)
    low = of(explanation, "low")

    assert (explanation.current_node, explanation.pod) == ("low", demand_of_placed(pod))
    assert [each.load.cpu for each in low.windows] == pytest.approx([0.3] * 4)
    assert window(low, "5m").subtracted.pods == ["shop/web-1"]
    assert low.requests == Resources(cpu=0.0, memory=0.0)
    assert explain(state, ExplainRequest(node="low"), NOW).nodes[0].requests.cpu == 0.5


def test_only_the_measured_part_of_a_new_pod_is_subtracted() -> None:
    """The mean includes half of it; the other half is not added."""
    state = a_scoring_state(CORES)
    set_pods(state, "low", 4.0, [a_new_pod(), a_placed_pod("web-2")])
    five = window(of(explain(state, WEB_1, NOW), "low"), "5m")

    assert five.subtracted.amount.cpu == pytest.approx(0.5)
    assert five.added.count == 0
    assert five.load.cpu == pytest.approx(0.35)


def test_the_demand_of_a_placed_pod_is_estimated_as_if_it_were_pending() -> None:
    """By the chain of the policy, not by its own measured usage; the source is named."""
    state = a_scoring_state(CORES)
    set_pods(state, "low", 4.0, [a_placed_pod("web-1")])
    state.nodes.on_workload(a_workload_utilization(cpu=3.0), NOW)
    explanation = explain(state, WEB_1, NOW)

    assert (explanation.demand.cpu, explanation.demand_sources["cpu"]) == (3.0, "measured")


@pytest.mark.parametrize("hint", [None, PlacedHint(), PlacedHint(preferred=2, avoided=1, weight=50)])
def test_an_explanation_has_the_hint_of_a_placed_pod(hint: PlacedHint | None) -> None:
    """Unknown remains unknown."""
    state = a_scoring_state(CORES)
    state.on_placement(a_placement("over", [a_placed_pod("web-1", hint=hint)], sequence=2), NOW)

    assert explain(state, WEB_1, NOW).placed_hint == hint


def test_of_two_pods_with_a_name_the_one_that_is_not_terminating_is_explained() -> None:
    """A StatefulSet's pod that moved is on both nodes for a while."""
    state = a_scoring_state(CORES)
    state.on_placement(a_placement("over", [a_placed_pod("db-0", uid="old", terminating=True)], sequence=2), NOW)
    state.on_placement(a_placement("low", [a_placed_pod("db-0", uid="new")], sequence=2), NOW)

    assert explain(state, ExplainRequest(namespace="shop", name="db-0"), NOW).current_node == "low"


def test_a_request_that_cannot_be_explained_has_a_problem_and_what_to_do() -> None:
    """An unknown pod, an unknown node, an empty request, and a pod that fits on no node."""
    state = a_scoring_state(CORES)

    def problem(request: ExplainRequest) -> str:
        explanation = explain(state, request, NOW)
        assert explanation.nodes == []
        return explanation.problem

    assert "`kubectl -n shop get pod web-1 -o wide`" in problem(WEB_1)
    assert "`equipoise tap '*.node.a_b'`" in problem(ExplainRequest(node="a.b"))
    assert problem(ExplainRequest()) == "name a pod (namespace and name, or the whole pod) or a node"
    assert problem(ExplainRequest(pod=a_pod(cpu=99.0))) == "no known node has enough free requests for the pod"


# the candidates


def test_candidates_are_nodes_with_headroom() -> None:
    """And the pod's own node, and the node that the request names."""
    state = a_scoring_state({**CORES, "cordoned": 1.0, "full": 1.0})
    state.on_placement(a_placement("cordoned", cordoned=True, sequence=2), NOW)
    big = a_placed_pod("big", requests=Resources(cpu=9.8, memory=GIB))
    state.on_placement(a_placement("full", [big], sequence=2), NOW)
    pod = a_pod(cpu=0.5)
    any_node = explain(state, ExplainRequest(pod=pod), NOW)
    with_node = explain(state, ExplainRequest(pod=pod, node="cordoned"), NOW)
    placed = explain(state, ExplainRequest(namespace="shop", name="big"), NOW)

    assert {each.node for each in any_node.nodes} == set(CORES)
    assert {each.node for each in with_node.nodes} == {*CORES, "cordoned"}
    assert "full" in {each.node for each in placed.nodes}
    assert "full" not in {each.node for each in with_node.nodes}


def test_ten_nodes_and_the_named_node_are_explained() -> None:
    """With its rank among all; so the explanation of a large cluster fits into one message."""
    state = a_scoring_state({f"n{number}": 1.0 + 0.2 * number for number in range(30)})
    explanation = explain(state, ExplainRequest(pod=a_pod(cpu=2.0), node="n29"), NOW)

    assert (explanation.considered, len(explanation.nodes), explanation.nodes[-1].node) == (30, 11, "n29")
    assert explanation.nodes[-1].rank > 11


# policies


@pytest.mark.parametrize("policy", [WaterLevel(), ProfilePolicy(), A_MIX], ids=["water_level", "profile", "mix"])
def test_every_kind_of_policy_is_explained(policy: ScoringPolicy) -> None:
    """Also one that uses daily loads, and a mix, with the score of each part."""
    state = a_scoring_state({}, policy=policy, min_spread=0.0)
    for node, cpu in CORES.items():
        set_pods(state, node, cpu, [a_placed_pod("web-1" if node == "low" else f"on-{node}")])
    state.on_cycle(a_cycle(3), NOW)
    explanation = explain(state, WEB_1, NOW)

    assert len(explanation.nodes) == 3
    assert all(each.score > 0.0 for each in explanation.nodes)
    assert explanation.rank_change is not None
    assert set(explanation.nodes[0].parts) == ({"1 water_level", "2 profile"} if policy is A_MIX else set())
    assert ("uses the daily load" in " ".join(explanation.notes)) == policy.uses_daily_loads


def test_a_daily_load_does_not_include_the_placed_pod() -> None:
    """Without it, its node is as empty as the others."""
    state = a_scoring_state({}, policy=ProfilePolicy(), min_spread=0.0)
    for node in CORES:
        set_pods(state, node, 1.0, [a_placed_pod("web-1")] if node == "low" else [])
    state.on_cycle(a_cycle(3), NOW)

    assert len({each.score for each in explain(state, WEB_1, NOW).nodes}) == 1


class AllStatistics(ScoringPolicy, frozen=True, kw_only=True, tag="all_statistics"):
    """Needs every kind of statistic, and recent placements."""

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return ("p95", "max", "deviation", "production")

    @property
    def placement_spans(self) -> tuple[float, ...]:
        return (300.0,)

    def score(self, nodes: CandidateNodes, demand: Demand) -> Array:
        points: Array = 100.0 - 100.0 * nodes.load[:, 0, 0]
        return points


def test_statistics_are_explained_without_the_pod_as_far_as_possible() -> None:
    """The pod's part is subtracted from quantiles and production; a deviation is as measured. Notes explain it."""
    state = a_scoring_state({}, policy=AllStatistics(), min_spread=0.0)
    pod = a_placed_pod("web-1", qos="Burstable", placed_at=NOW - 200, running_since=NOW - 190)
    value = WindowUsage(
        sampled_at=NOW,
        mean=Resources(cpu=3.0, memory=GIB),
        p95=Resources(cpu=4.0, memory=GIB),
        max=Resources(cpu=5.0, memory=GIB),
        deviation=Resources(cpu=0.5, memory=GIB),
    )
    usage = {pod.uid: Resources(cpu=1.0, memory=GIB)}
    state.on_placement(a_placement("low", [pod]), NOW)
    state.nodes.on_utilization(a_node_utilization("low", pods=usage, windows={"5m": value}), NOW)
    state.on_cycle(a_cycle(1), NOW)
    explanation = explain(state, WEB_1, NOW)
    five = window(of(explanation, "low"), "5m")
    rows, without = state.nodes.rows(["low"]), state.nodes.without("low", pod, NOW)

    assert {name: each.cpu for name, each in five.statistics.items()} == pytest.approx(
        {"p95": 0.3, "max": 0.4, "deviation": 0.05, "production": 0.0}
    )
    assert len(explanation.notes) == 3
    assert state.nodes.recent_placements(rows, (300.0,), NOW).tolist() == [[1.0]]
    assert state.nodes.recent_placements(rows, (300.0,), NOW, without).tolist() == [[0.0]]


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


def test_a_node_with_batch_work_has_both_loads() -> None:
    """That of high-priority pods, and that of all pods; what does not count explains the difference."""
    state = a_scoring_state(CORES)
    job = a_batch_pod("job-1")
    set_pods(state, "over", 6.0, [job])

    found = explain(state, ExplainRequest(node="over"), NOW)

    over, low = of(found, "over"), of(found, "low")
    assert (0.5, 0.6) == (over.high_priority_load.cpu, over.total_load.cpu)
    five = window(over, "5m")
    assert five.batch_work.amount.cpu == pytest.approx(0.8)
    assert (["shop/job-1"], 1) == (five.batch_work.pods, five.batch_work.count)
    assert five.load.cpu == pytest.approx(0.52)
    assert Resources() == low.total_load == low.high_priority_load


def test_a_batch_pod_is_explained_by_its_band() -> None:
    """What is reclaimed, requested by others, reserved, and left with the pod; and for how many hours."""
    state = a_scoring_state(CORES, reclaimed=BandScoring(enabled=True))
    job = a_batch_pod("job-1")
    set_pods(state, "low", 2.0, [job, a_batch_pod("job-2")])
    offered = {"low": Resources(cpu=4.0, memory=8 * GIB), "under": Resources(cpu=0.5, memory=GIB)}
    for node, amounts in offered.items():
        state.nodes.on_reclaimed(a_reclaimed_node(node, batch=amounts), NOW - 1)
    state.prioritize(a_batch_request("job-3", cpu=1.0), list(CORES), NOW)

    found = explain(state, ExplainRequest(namespace="shop", name="job-1", nodes=list(CORES)), NOW)

    band = of(found, "low").band
    assert band is not None
    assert (4.0, 1.0, 1.0, 1.0) == (band.reclaimed.cpu, band.requested.cpu, band.reserved.cpu, band.left.cpu)
    assert (10.0, 6.0, 0.0) == (band.capacity.cpu, band.hours, band.age)
    assert of(found, "low").score == pytest.approx(7.81)  # of memory, the scarcer one, 5 of 64 GiB
    assert "overfull" == of(found, "under").status
    assert "unknown" == of(found, "over").status
    assert "reclaimer has published nothing" in of(found, "over").why
    assert any("band batch" in note for note in found.notes)


def test_a_band_of_unknown_amounts_names_them() -> None:
    """And why the reclaimer does not know them."""
    state = a_scoring_state(CORES, reclaimed=BandScoring(enabled=True))
    state.nodes.on_reclaimed(a_reclaimed_node("low", batch=Resources(cpu=1.0), degraded="no samples"), NOW)

    found = explain(state, ExplainRequest(pod=a_batch_request(), nodes=["low"]), NOW)

    assert "memory of the band batch: no samples" in of(found, "low").why
