"""Advice on placed pods."""

from typing import Literal

import pytest
from builders import GIB, NOW, a_node_utilization, a_placed_pod, a_placement, a_workload, an_intent, nodes_being_emptied
from scorer.clusters import a_cycle, a_pod, a_scoring_state, an_outcome

from equipoise.contracts.configuration.settings import LoadSettings, ResourceThresholds
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.messages.advice import PlacementAdvice
from equipoise.contracts.messages.placement import PlacedHint, PlacedPod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.demand import demand_of_placed
from equipoise.scorer.decisions.explanations.placement_advice import advise, deserves_advice
from equipoise.scorer.state.scoring_state import ScoringState

HIGH = ResourceThresholds(cpu=65, memory=80)
CORES = {"low": 1.0, "level": 2.0, "hot": 8.0}


def placed(name: str = "new-1", cpu: float = 1.0, **fields: object) -> PlacedPod:
    defaults = {"workload": None, "placed_at": NOW, "running_since": None, "requests": Resources(cpu=cpu, memory=GIB)}
    return a_placed_pod(name, **(defaults | fields))


def advice_on(state: ScoringState, pod: PlacedPod, node: str, now: float = NOW, **fields: object) -> PlacementAdvice:
    """Place the pod on the node, then advise."""
    state.on_placement(a_placement(node, [pod], **({"sequence": 2} | fields)), now)
    advice = advise(state, pod, node, HIGH, now)
    assert advice is not None
    return advice


def test_a_pod_on_the_best_node_has_no_regret() -> None:
    """Rank 1, regret 0, and the best node is its own."""
    advice = advice_on(a_scoring_state(CORES), placed(), "level")

    assert (advice.rank, advice.regret, advice.neutral, advice.considered) == (1, 0.0, False, 3)
    assert advice.best == advice.chosen


def test_regret_is_the_difference_to_the_best_node_in_points() -> None:
    """With the rank, and the loads of both nodes without and with the pod."""
    advice = advice_on(a_scoring_state(CORES), placed(), "hot")
    chosen, best = advice.chosen, advice.best

    assert chosen is not None
    assert best is not None
    assert (advice.rank, chosen.node, best.node) == (3, "hot", "level")
    assert advice.regret == pytest.approx(best.score - chosen.score, abs=0.01)
    assert (chosen.load.cpu, chosen.with_pod.cpu) == (pytest.approx(0.8), pytest.approx(0.9))
    assert (best.load.cpu, best.with_pod.cpu) == (pytest.approx(0.2), pytest.approx(0.3))
    assert advice.high == Resources(cpu=0.65, memory=0.8)


def test_advice_names_no_node_that_is_being_emptied_as_the_best() -> None:
    state = a_scoring_state(CORES)
    state.emptying.on_message(nodes_being_emptied("level"), NOW)
    advice = advice_on(state, placed(), "hot")

    assert advice.best is not None
    assert (advice.rank, advice.best.node) == (2, "low")


@pytest.mark.parametrize("compensation", ["proportional", "cliff", "off"])
def test_a_placed_pod_is_scored_as_if_it_were_pending(compensation: Literal["proportional", "cliff", "off"]) -> None:
    """The points are those of a request before the placement: the pod counts on no node."""
    load = LoadSettings(compensation=compensation)
    pending = a_scoring_state(CORES, load=load).prioritize(demand_of_placed(placed()), list(CORES), NOW).ranking
    advice = advice_on(a_scoring_state(CORES, load=load), placed(), "low")

    assert pending is not None
    assert advice.chosen is not None
    assert advice.chosen.score == pytest.approx(pending.points[0], abs=0.01)
    assert advice.regret == pytest.approx(pending.points.max() - pending.points[0], abs=0.01)


def test_the_measured_part_of_the_pod_is_subtracted_from_its_node() -> None:
    """Ten minutes after its start the 15-minute mean includes two thirds of it, the 5-minute mean all of it."""
    state = a_scoring_state(CORES)
    pod = placed(placed_at=NOW - 600, running_since=NOW - 600)
    state.on_placement(a_placement("hot", [pod], sequence=2), NOW)
    usage = {pod.uid: Resources(cpu=1.0, memory=GIB)}
    state.nodes.on_utilization(a_node_utilization("hot", 8.0, pods=usage, sequence=2), NOW)
    advice = advise(state, pod, "hot", HIGH, NOW)

    assert advice is not None
    assert advice.chosen is not None
    assert advice.chosen.load.cpu == pytest.approx(0.7)


@pytest.mark.parametrize("hint", [None, PlacedHint(), PlacedHint(preferred=2, avoided=1, weight=-50)])
def test_advice_has_the_hint_of_the_pod(hint: PlacedHint | None) -> None:
    """Unknown remains unknown."""
    assert advice_on(a_scoring_state(CORES), placed(hint=hint), "level").hint == hint


def test_advice_does_not_change_the_state() -> None:
    """It reserves nothing, assigns no replacement, and the next scores are the same."""
    names = ["low", "level", "hot"]
    pod = placed(workload=a_workload())
    results = []
    for with_advice in (False, True):
        state = a_scoring_state(CORES)
        state.replacements.on_intent(an_intent(node="hot", target="low"), NOW)
        state.on_placement(a_placement("level", [pod], sequence=2), NOW)
        if with_advice:
            assert advise(state, pod, "level", HIGH, NOW) is not None
        prioritized = state.prioritize(a_pod("next", a_workload(), cpu=1.0), names, NOW)
        assert prioritized.ranking is not None
        results.append((prioritized.scores.scores.tolist(), prioritized.ranking.hint))
        assert len(state.reservations) == 1

    assert results[0] == results[1]


def test_the_evicted_node_scores_0_for_a_replacement_that_returned_to_it() -> None:
    """As it would have if the pod were pending."""
    state = a_scoring_state({"source": 3.0, "target": 3.0, "other": 3.2})
    state.replacements.on_outcome(an_outcome(node="source", target="target"), NOW)
    advice = advice_on(state, placed("web-2", workload=a_workload()), "source")

    assert advice.chosen is not None
    assert (advice.chosen.score, advice.rank) == (0.0, 3)


def test_only_nodes_with_headroom_are_considered() -> None:
    """Ready, schedulable, with enough free requests; and the pod's own node."""
    state = a_scoring_state({"low": 1.0, "full": 2.0, "tainted": 2.5, "cordoned": 3.0, "hot": 8.0})
    big = a_placed_pod("big", requests=Resources(cpu=9.5, memory=GIB))
    state.on_placement(a_placement("full", [big], sequence=2), NOW)
    state.on_placement(a_placement("tainted", taints=[Taint(key="gpu", effect="NoSchedule")], sequence=2), NOW)
    state.on_placement(a_placement("cordoned", cordoned=True, sequence=2), NOW)

    assert advice_on(state, placed(), "low").considered == 2
    assert advice_on(state, placed("new-2"), "tainted").considered == 3


def test_without_sufficient_data_advice_only_gives_the_reason() -> None:
    """Insufficient coverage, or a node of unknown load."""
    state = a_scoring_state(CORES)
    state.on_cycle(a_cycle(10, sequence=2), NOW)
    uncovered = advice_on(state, placed(), "low")
    unknown = advice_on(a_scoring_state(CORES), placed(), "nowhere")

    assert (uncovered.rank, uncovered.regret, uncovered.chosen, uncovered.best) == (None, None, None, None)
    assert "of 10 nodes" in uncovered.why
    assert (unknown.rank, unknown.why) == (None, "no utilization was received for it")


def test_advice_is_neutral_for_similar_nodes() -> None:
    """Whatever the rank: their scores would have been equal."""
    advice = advice_on(a_scoring_state({"a": 3.0, "b": 3.01}), placed(), "b")

    assert advice.neutral
    assert advice.regret is not None
    assert advice.regret < 5


def test_a_pod_that_is_gone_gets_no_advice() -> None:
    """Nor one on an unknown node."""
    state = a_scoring_state(CORES)

    assert advise(state, placed(), "low", HIGH, NOW) is None
    assert advise(state, placed(), "nowhere", HIGH, NOW) is None


@pytest.mark.parametrize(
    ("pod", "deserves"),
    [
        (placed(), True),
        (placed(workload=a_workload()), True),
        (placed(workload=a_workload(kind="DaemonSet")), False),
        (placed("kube-proxy-node-a"), False),
        (placed("web-1-node-a", workload=a_workload()), True),
        (placed(terminating=True), False),
        (placed(placed_at=NOW - 181), False),
    ],
)
def test_only_recent_placements_with_a_choice_deserve_advice(pod: PlacedPod, deserves: bool) -> None:
    """Not DaemonSet pods, static pods, terminating pods, and pods that were placed under other loads."""
    assert deserves_advice(pod, "node-a", max_age=180.0, now=NOW) == deserves
