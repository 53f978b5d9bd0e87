"""Answers from the whole picture: bursts, hints, doubts, filtering."""

from collections import Counter

import msgspec
import pytest
from builders import (
    GIB,
    NOW,
    a_node_utilization,
    a_placed_pod,
    a_placement,
    a_workload,
    a_workload_utilization,
    an_intent,
)
from scorer.fleets import a_cycle, a_picture, a_pod
from scorer.test_after_eviction import an_outcome

from equipoise.contracts.configuration.settings import ResourceThresholds
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources
from equipoise.scorer.decisions.score_integers import NEUTRAL
from equipoise.scorer.decisions.scoring_state import Picture

HIGH = ResourceThresholds(cpu=65, memory=80)


def scores(picture: Picture, pod: PodDemand, names: list[str], now: float = NOW) -> dict[str, int]:
    answer = picture.prioritize(pod, names, now).answer
    return dict(zip(names, answer.scores.tolist(), strict=True))


def placed(pod: PodDemand, now: float) -> PlacedPod:
    return a_placed_pod(
        pod.name, uid=pod.uid, workload=pod.workload, requests=pod.requests, placed_at=now, running_since=None
    )


def burst(picture: Picture, names: list[str], *, heard_after: int, cpu: float) -> Counter[str]:
    """100 pods in a row, 5 ms apart, with frozen metrics; placements are heard so many pods later."""
    chosen: Counter[str] = Counter()
    homes: dict[str, list[PlacedPod]] = {name: [] for name in names}
    unheard: list[str] = []
    for number in range(100):
        now = NOW + number * 0.005
        pod = a_pod(f"burst-{number}", cpu=cpu)
        answers = scores(picture, pod, names, now)
        # kube-scheduler's own part is even here; ties go to the least chosen, as least requested would have it.
        node = max(names, key=lambda name: (answers[name], -chosen[name]))
        chosen[node] += 1
        homes[node].append(placed(pod, now))
        unheard.append(node)
        if len(unheard) > heard_after:
            heard = unheard.pop(0)
            picture.on_placement(a_placement(heard, homes[heard], sequence=number + 2), now)
    return chosen


@pytest.mark.parametrize("heard_after", [0, 10, 100])
def test_a_burst_spreads_while_metrics_stand_still(heard_after: int) -> None:
    """Of 100 pods on 40 nodes none gets more than six, even if no placement is heard during the burst."""
    names = [f"n{number}" for number in range(40)]
    picture = a_picture({name: 2.0 + number % 5 * 0.4 for number, name in enumerate(names)})

    chosen = burst(picture, names, heard_after=heard_after, cpu=0.4)

    assert max(chosen.values()) <= 6


def test_light_pods_go_under_the_level_and_heavy_ones_far_below() -> None:
    """What the water level is for: a light pod tops up a node just under the level, a heavy one needs a low node."""
    picture = a_picture({"low": 1.0, "under": 3.9, "over": 6.0, "hot": 8.0})
    names = ["low", "under", "over", "hot"]

    light = scores(picture, a_pod("light", cpu=0.1), names)
    heavy = scores(picture, a_pod("heavy", cpu=3.0), names)

    assert max(light, key=lambda name: light[name]) == "under"
    assert max(heavy, key=lambda name: heavy[name]) == "low"


def test_a_measured_workload_counts_more_than_a_request() -> None:
    """A pod that asks for little but whose siblings use much goes where there is much room."""
    picture = a_picture({"low": 1.0, "under": 3.9, "over": 6.0, "hot": 8.0})
    picture.on_workload(a_workload_utilization(cpu=3.0, memory=GIB))

    answers = scores(picture, a_pod(workload=a_workload(), cpu=0.1), ["low", "under", "over", "hot"])

    assert max(answers, key=lambda name: answers[name]) == "low"


def test_a_pod_that_asks_again_is_not_in_its_own_way() -> None:
    """Its booking is replaced: the same question at the same moment has the same answer."""
    picture = a_picture({"low": 1.0, "under": 3.5, "over": 6.0})
    names = ["low", "under", "over"]

    assert scores(picture, a_pod(cpu=2.0), names) == scores(picture, a_pod(cpu=2.0), names)


def test_another_pod_sees_the_booking_until_it_ends() -> None:
    """After two seconds without a placement a promise is void."""
    picture = a_picture({"low": 1.0, "under": 3.5, "over": 6.0})
    names = ["low", "under", "over"]
    alone = scores(picture, a_pod("first", cpu=2.0), names)

    assert scores(picture, a_pod("second", cpu=2.0), names) != alone
    assert scores(picture, a_pod("third", cpu=2.0), names, NOW + 5) == alone


def test_a_question_without_a_uid_books_nothing() -> None:
    """Who only asks what would be, changes nothing."""
    picture = a_picture({"low": 1.0, "over": 6.0})
    picture.prioritize(PodDemand(namespace="shop", name="what-if", uid=""), ["low", "over"], NOW)

    assert len(picture.reservations) == 0


def test_a_placement_tells_whether_scores_were_followed() -> None:
    """A pod that came to a best node of its answer followed it."""
    picture = a_picture({"low": 1.0, "over": 6.0})
    for name, node in (("follows", "low"), ("strays", "over")):
        pod = a_pod(name, cpu=2.0)
        scores(picture, pod, ["low", "over"])
        arrivals = picture.on_placement(a_placement(node, [placed(pod, NOW)], sequence=2), NOW)

        assert arrivals is not None
        told = [(each.followed, each.booking.chance) for each in arrivals if each.booking is not None]
        assert told == [(name == "follows", 0.5)]


def test_unknown_and_overfull_nodes_get_zero() -> None:
    """A node never heard of and one without room for the pod."""
    picture = a_picture({"low": 1.0, "full": 9.5})

    assert scores(picture, a_pod(cpu=2.0), ["low", "full", "nowhere"]) == {"low": NEUTRAL, "full": 0, "nowhere": 0}


def test_too_little_known_makes_every_score_neutral() -> None:
    """Below 70 % all nodes get the same, known or not: else all pods would go to the few that are known."""
    picture = a_picture({"low": 1.0, "over": 6.0})
    picture.on_cycle(a_cycle(10, sequence=2))

    prioritized = picture.prioritize(a_pod(), ["low", "over", "nowhere"], NOW)

    assert prioritized.answer.scores.tolist() == [NEUTRAL] * 3
    assert prioritized.reason == "coverage"
    assert picture.filter(a_pod(cpu=9.0), ["low", "over"], HIGH, NOW).refused == {}


def test_a_replacement_goes_to_its_target_and_not_home() -> None:
    """The source looks best after the eviction, and gets 0; the target gets 10 alone."""
    picture = a_picture({"source": 1.0, "target": 3.0, "other": 3.5})
    picture.on_outcome(an_outcome(node="source", target="target"), NOW)

    answers = scores(picture, a_pod("web-2", a_workload(), cpu=1.0), ["source", "target", "other"])

    assert answers["source"] == 0
    assert answers["target"] == 10
    assert answers["other"] < 10


def test_the_moved_load_counts_at_the_target_for_others() -> None:
    """Until the replacement is placed, the target is fuller for everyone else."""
    names = ["source", "target", "other"]
    cores = {"source": 5.0, "target": 2.0, "other": 3.0}
    before = a_picture(cores).prioritize(a_pod("x", cpu=0.5), names, NOW).ranked
    picture = a_picture(cores)
    picture.on_outcome(an_outcome(node="source", target="target"), NOW)
    after = picture.prioritize(a_pod("x", cpu=0.5), names, NOW).ranked

    assert before is not None
    assert after is not None
    assert after.nodes.load[1, 0, 0] == pytest.approx(before.nodes.load[1, 0, 0] + 0.1)


def test_asking_does_not_pile_the_moved_load_up() -> None:
    """Beside a live booking it counts once, however often somebody asks."""
    names = ["source", "target", "other"]
    picture = a_picture({"source": 5.0, "target": 2.0, "other": 3.0})
    picture.prioritize(a_pod("first", cpu=0.5), names, NOW)
    picture.on_outcome(an_outcome(node="source", target="target"), NOW)
    nobody = msgspec.structs.replace(a_pod("x", cpu=0.5), uid="")
    first, second = (picture.prioritize(nobody, names, NOW).ranked for _ in range(2))

    assert first is not None
    assert second is not None
    assert second.nodes.load.tolist() == first.nodes.load.tolist()


def test_the_moved_load_does_not_count_against_the_replacement() -> None:
    """Nor against anyone, once the replacement is placed."""
    names = ["source", "target", "other"]
    picture = a_picture({"source": 5.0, "target": 2.0, "other": 3.0})
    picture.on_outcome(an_outcome(node="source", target="target"), NOW)
    replacement = a_pod("web-2", a_workload(), cpu=1.0)
    asked = picture.prioritize(replacement, names, NOW).ranked
    picture.on_placement(a_placement("other", [placed(replacement, NOW)], sequence=2), NOW)
    later = picture.prioritize(a_pod("x", cpu=0.5), names, NOW).ranked

    assert asked is not None
    assert later is not None
    assert asked.nodes.load[1, 0, 0] == pytest.approx(0.2)
    assert later.nodes.load[1, 0, 0] == pytest.approx(0.2)


def test_the_moved_load_counts_once_when_the_replacement_has_its_answer() -> None:
    """Its booking is the moved load: others do not see the target fuller than it will be."""
    names = ["source", "target", "other"]
    picture = a_picture({"source": 5.0, "target": 2.0, "other": 3.0})
    picture.on_intent(an_intent(node="source", target="target"), NOW)
    picture.prioritize(a_pod("web-2", a_workload(), cpu=1.0), names, NOW)
    picture.on_outcome(an_outcome(node="source", target="target"), NOW)
    seen = picture.prioritize(a_pod("x", cpu=0.5), names, NOW).ranked

    assert seen is not None
    assert seen.nodes.load[1, 0, 0] == pytest.approx(0.3)


def test_the_moved_load_does_not_refuse_the_replacement() -> None:
    """A target with room for it once has no room for it twice: filtering looks as prioritizing does."""
    picture = a_picture({"source": 5.0, "target": 5.0, "other": 3.0})
    picture.on_outcome(an_outcome(node="source", target="target"), NOW)
    names = ["source", "target", "other"]

    assert "target" in picture.filter(a_pod("web-2", a_workload(), cpu=1.0), names, HIGH, NOW).nodes
    assert "target" in picture.filter(a_pod("x", cpu=1.0), names, HIGH, NOW).refused


def test_state_does_not_hang_on_the_order_of_messages() -> None:
    """After a restart the last values come subject by subject; the answers are those of before."""
    names = ["low", "under", "over"]
    pods = [a_placed_pod("web-7", placed_at=NOW - 100, running_since=NOW - 90)]
    utilizations = [a_node_utilization(name, 1.0 + 2 * index) for index, name in enumerate(names)]
    placements = [a_placement(name, pods if name == "low" else []) for name in names]
    answers = []
    for first in (utilizations, placements):
        picture = a_picture({})
        picture.on_workload(a_workload_utilization())
        picture.on_cycle(a_cycle(3))
        for message in [*first, *utilizations, *placements]:
            if message in utilizations:
                picture.on_utilization(message, NOW)  # type: ignore[arg-type]
            else:
                picture.on_placement(message, NOW)  # type: ignore[arg-type]
        answers.append(scores(picture, a_pod("new", cpu=1.5), names))

    assert answers[0] == answers[1]
    assert len(set(answers[0].values())) > 1


def test_hot_nodes_are_refused() -> None:
    """Above the high mark with the pod, in any resource; unknown nodes stay."""
    picture = a_picture({"low": 1.0, "warm": 6.0})

    filtering = picture.filter(a_pod(cpu=1.0), ["low", "warm", "nowhere"], HIGH, NOW)

    assert filtering.nodes == ["low", "nowhere"]
    assert filtering.refused == {"warm": "cpu load would be 70.0%, above 65%"}


def test_the_last_nodes_are_never_refused() -> None:
    """If every node is too hot the pod may use them all: it must be able to run."""
    picture = a_picture({"a": 7.0, "b": 9.0})

    filtering = picture.filter(a_pod(cpu=1.0), ["b", "a"], HIGH, NOW)

    assert (filtering.nodes, filtering.refused) == (["b", "a"], {})


def test_a_decision_explains_itself() -> None:
    """What was expected of the pod, the level aimed at, and how the best nodes came to their scores."""
    picture = a_picture({"low": 1.0, "over": 6.0})
    pod = a_pod(cpu=1.0)

    told = picture.explain(picture.prioritize(pod, ["low", "nowhere", "over"], NOW), pod, 3, NOW)

    assert told.demand == Resources(cpu=1.0, memory=GIB)
    assert told.demand_source == "cpu: request; memory: request"
    assert told.level.cpu == pytest.approx((0.35 + 0.2 * 0.1) / 1.2)
    assert [each.node for each in told.best] == ["low", "over", "nowhere"]
    assert told.best[0].why.startswith("5m: cpu 10.0% → 20.0%, memory 6.2% → 7.8%")
    assert told.best[2].why == "no utilization was heard of it"
    assert told.considered == 3


def test_an_empty_question_has_an_empty_answer() -> None:
    """No node asked about: nothing to score, nothing booked."""
    picture = a_picture({"low": 1.0})

    assert picture.prioritize(a_pod(), [], NOW).answer.scores.tolist() == []
    assert len(picture.reservations) == 0
