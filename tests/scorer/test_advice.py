"""What a placed pod is told of its place."""

import pytest
from builders import GIB, NOW, a_node_utilization, a_placed_pod, a_placement, a_workload, an_intent
from scorer.fleets import a_cycle, a_picture, a_pod
from scorer.test_after_eviction import an_outcome

from equipoise.contracts.configuration.settings import LoadSettings, ResourceThresholds
from equipoise.contracts.messages.advice import PlacementAdvice
from equipoise.contracts.messages.placement import PlacedPod, Taint
from equipoise.contracts.messages.resources import Resources
from equipoise.scorer.decisions.placement_advice import as_asked, deserves_advice
from equipoise.scorer.decisions.scoring_state import Picture

HIGH = ResourceThresholds(cpu=65, memory=80)
NAMES = {"low": 1.0, "level": 2.0, "hot": 8.0}


def placed(name: str = "new-1", cpu: float = 1.0, **fields: object) -> PlacedPod:
    defaults = {"workload": None, "placed_at": NOW, "running_since": None, "requests": Resources(cpu=cpu, memory=GIB)}
    return a_placed_pod(name, **(defaults | fields))


def advised(picture: Picture, pod: PlacedPod, node: str, now: float = NOW, **fields: object) -> PlacementAdvice:
    """Place it there, then ask."""
    picture.on_placement(a_placement(node, [pod], **({"sequence": 2} | fields)), now)
    told = picture.advise(pod, node, HIGH, now)
    assert told is not None
    return told


def test_a_pod_on_the_best_node_regrets_nothing() -> None:
    """Rank 1, regret 0, and the best node is its own."""
    told = advised(a_picture(NAMES), placed(), "level")

    assert (told.rank, told.regret, told.neutral, told.considered) == (1, 0.0, False, 3)
    assert told.best == told.chosen


def test_a_pod_on_a_worse_node_is_told_how_much_worse() -> None:
    """Its rank, the points between its node and the best, and what both would be with it and without."""
    told = advised(a_picture(NAMES), placed(), "hot")
    chosen, best = told.chosen, told.best

    assert chosen is not None
    assert best is not None
    assert (told.rank, chosen.node, best.node) == (3, "hot", "level")
    assert told.regret == pytest.approx(best.score - chosen.score, abs=0.01)
    assert (chosen.load.cpu, chosen.with_pod.cpu) == (pytest.approx(0.8), pytest.approx(0.9))
    assert (best.load.cpu, best.with_pod.cpu) == (pytest.approx(0.2), pytest.approx(0.3))
    assert told.high == Resources(cpu=0.65, memory=0.8)


@pytest.mark.parametrize("compensation", ["proportional", "cliff", "off"])
def test_it_is_scored_as_it_would_have_been_when_asked(compensation: str) -> None:
    """The same points as the question before the placement had: the pod is nowhere yet."""
    load = LoadSettings(compensation=compensation)  # type: ignore[arg-type]
    asked = a_picture(NAMES, load=load).prioritize(as_asked(placed()), list(NAMES), NOW).ranked
    told = advised(a_picture(NAMES, load=load), placed(), "low")

    assert asked is not None
    assert told.chosen is not None
    assert told.chosen.score == pytest.approx(asked.points[0], abs=0.01)
    assert told.regret == pytest.approx(asked.points.max() - asked.points[0], abs=0.01)


def test_what_its_node_has_measured_of_it_is_taken_off() -> None:
    """Ten minutes after it began, two thirds of it are in the mean of 15 minutes, and all of it in that of 5."""
    picture = a_picture(NAMES)
    pod = placed(placed_at=NOW - 600, running_since=NOW - 600)
    picture.on_placement(a_placement("hot", [pod], sequence=2), NOW)
    usage = {pod.uid: Resources(cpu=1.0, memory=GIB)}
    picture.on_utilization(a_node_utilization("hot", 8.0, pods=usage, sequence=2), NOW)
    told = picture.advise(pod, "hot", HIGH, NOW)

    assert told is not None
    assert told.chosen is not None
    assert told.chosen.load.cpu == pytest.approx(0.7)


def test_advice_changes_nothing() -> None:
    """Nobody is booked, nobody is taken for a replacement, and the next answer is the same."""
    names = ["low", "level", "hot"]
    pod = placed(workload=a_workload())
    answers = []
    for ask in (False, True):
        picture = a_picture(NAMES)
        picture.on_intent(an_intent(node="hot", target="low"), NOW)
        picture.on_placement(a_placement("level", [pod], sequence=2), NOW)
        if ask:
            assert picture.advise(pod, "level", HIGH, NOW) is not None
        asked = picture.prioritize(a_pod("next", a_workload(), cpu=1.0), names, NOW)
        answers.append((asked.answer.scores.tolist(), asked.hint))
        assert len(picture.reservations) == 1

    assert answers[0] == answers[1]


def test_a_replacement_that_went_home_is_told_so() -> None:
    """The node that its predecessor was evicted from scores 0, as it would have when asked."""
    picture = a_picture({"source": 3.0, "target": 3.0, "other": 3.2})
    picture.on_outcome(an_outcome(node="source", target="target"), NOW)
    told = advised(picture, placed("web-2", workload=a_workload()), "source")

    assert told.chosen is not None
    assert (told.chosen.score, told.rank) == (0.0, 3)


def test_only_nodes_that_could_hold_it_are_looked_at() -> None:
    """Ready, open, with room by requests; its own in any case."""
    picture = a_picture({"low": 1.0, "full": 2.0, "tainted": 2.5, "cordoned": 3.0, "hot": 8.0})
    big = a_placed_pod("big", requests=Resources(cpu=9.5, memory=GIB))
    picture.on_placement(a_placement("full", [big], sequence=2), NOW)
    picture.on_placement(a_placement("tainted", taints=[Taint(key="gpu", effect="NoSchedule")], sequence=2), NOW)
    picture.on_placement(a_placement("cordoned", cordoned=True, sequence=2), NOW)

    assert advised(picture, placed(), "low").considered == 2
    assert advised(picture, placed("new-2"), "tainted").considered == 3


def test_where_too_little_is_known_nothing_is_said() -> None:
    """Neither of a fleet that is not covered, nor of a node of unknown load: and why."""
    blind = a_picture(NAMES)
    blind.on_cycle(a_cycle(10, sequence=2))
    of_fleet = advised(blind, placed(), "low")
    of_node = advised(a_picture(NAMES), placed(), "nowhere")

    assert (of_fleet.rank, of_fleet.regret, of_fleet.chosen, of_fleet.best) == (None, None, None, None)
    assert "of 10 nodes" in of_fleet.why
    assert (of_node.rank, of_node.why) == (None, "no utilization was heard of it")


def test_nodes_that_are_alike_are_neutral() -> None:
    """Whatever the rank among them: no answer would have told them apart."""
    told = advised(a_picture({"a": 3.0, "b": 3.01}), placed(), "b")

    assert told.neutral
    assert told.regret is not None
    assert told.regret < 5


def test_a_pod_that_is_gone_again_gets_none() -> None:
    """Its place says nothing any more."""
    picture = a_picture(NAMES)

    assert picture.advise(placed(), "low", HIGH, NOW) is None
    assert picture.advise(placed(), "never-heard-of", HIGH, NOW) is None


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
def test_who_had_a_choice_a_moment_ago_gets_advice(pod: PlacedPod, deserves: bool) -> None:
    """Not DaemonSet and static pods, not who leaves, not who was placed when loads were others."""
    assert deserves_advice(pod, "node-a", life=180.0, now=NOW) == deserves
