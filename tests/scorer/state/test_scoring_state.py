"""Scores from the whole state: bursts, replacements, coverage, filtering."""

from collections import Counter

import msgspec
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
    an_intent,
)
from scorer.clusters import a_batch_request, a_cycle, a_pod, a_scoring_state, an_outcome

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import ResourceThresholds
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.demand import demand_of_placed
from equipoise.scorer.decisions.neutral_scores import NEUTRAL
from equipoise.scorer.decisions.ranking import points_of
from equipoise.scorer.decisions.scoring_settings import BandScoring
from equipoise.scorer.state.scoring_state import ScoringState

HIGH = ResourceThresholds(cpu=65, memory=80)


def scores(state: ScoringState, pod: PodDemand, names: list[str], now: float = NOW) -> dict[str, int]:
    found = state.prioritize(pod, names, now).scores
    return dict(zip(names, found.scores.tolist(), strict=True))


def placed(pod: PodDemand, now: float) -> PlacedPod:
    return a_placed_pod(
        pod.name, uid=pod.uid, workload=pod.workload, requests=pod.requests, placed_at=now, running_since=None
    )


def burst(state: ScoringState, names: list[str], *, delay: int, cpu: float) -> Counter[str]:
    """100 pods, 5 ms apart, without new measurements; each placement is received `delay` pods later."""
    chosen: Counter[str] = Counter()
    pods: dict[str, list[PlacedPod]] = {name: [] for name in names}
    pending: list[str] = []
    for number in range(100):
        now = NOW + number * 0.005
        pod = a_pod(f"burst-{number}", cpu=cpu)
        found = scores(state, pod, names, now)
        # kube-scheduler's own scores are equal here; of equal nodes the least chosen is taken, as least allocated.
        node = max(names, key=lambda name: (found[name], -chosen[name]))
        chosen[node] += 1
        pods[node].append(placed(pod, now))
        pending.append(node)
        if len(pending) > delay:
            received = pending.pop(0)
            state.on_placement(a_placement(received, pods[received], sequence=number + 2), now)
    return chosen


@pytest.mark.parametrize("delay", [0, 10, 100])
def test_a_burst_is_spread_without_new_measurements(delay: int) -> None:
    """Of 100 pods on 40 nodes no node gets more than six, even if no placement is received during the burst."""
    names = [f"n{number}" for number in range(40)]
    state = a_scoring_state({name: 2.0 + number % 5 * 0.4 for number, name in enumerate(names)})

    chosen = burst(state, names, delay=delay, cpu=0.4)

    assert max(chosen.values()) <= 6


def test_small_pods_go_just_below_the_level_and_large_ones_far_below() -> None:
    """The purpose of water_level."""
    state = a_scoring_state({"low": 1.0, "under": 3.9, "over": 6.0, "hot": 8.0})
    names = ["low", "under", "over", "hot"]

    small = scores(state, a_pod("small", cpu=0.1), names)
    large = scores(state, a_pod("large", cpu=3.0), names)

    assert max(small, key=lambda name: small[name]) == "under"
    assert max(large, key=lambda name: large[name]) == "low"


def test_the_measured_usage_of_a_workload_counts_more_than_requests() -> None:
    """A pod with a small request whose workload uses much goes to an empty node."""
    state = a_scoring_state({"low": 1.0, "under": 3.9, "over": 6.0, "hot": 8.0})
    state.nodes.on_workload(a_workload_utilization(cpu=3.0, memory=GIB), NOW)

    found = scores(state, a_pod(workload=a_workload(), cpu=0.1), ["low", "under", "over", "hot"])

    assert max(found, key=lambda name: found[name]) == "low"


# reservations


def test_a_repeated_request_gets_the_same_scores() -> None:
    """The pod's own reservation does not count."""
    state = a_scoring_state({"low": 1.0, "under": 3.5, "over": 6.0})
    names = ["low", "under", "over"]

    assert scores(state, a_pod(cpu=2.0), names) == scores(state, a_pod(cpu=2.0), names)


def test_a_reservation_counts_for_other_pods_until_it_expires() -> None:
    """After two seconds without a placement."""
    state = a_scoring_state({"low": 1.0, "under": 3.5, "over": 6.0})
    names = ["low", "under", "over"]
    alone = scores(state, a_pod("first", cpu=2.0), names)

    assert scores(state, a_pod("second", cpu=2.0), names) != alone
    assert scores(state, a_pod("third", cpu=2.0), names, NOW + 5) == alone


def test_a_request_without_a_uid_reserves_nothing() -> None:
    """No such pod will be placed."""
    state = a_scoring_state({"low": 1.0, "over": 6.0})
    state.prioritize(PodDemand(namespace="shop", name="what-if", uid=""), ["low", "over"], NOW)

    assert len(state.reservations) == 0


def test_a_placement_shows_whether_scores_were_followed() -> None:
    """They were if the pod was placed on one of its best nodes."""
    state = a_scoring_state({"low": 1.0, "over": 6.0})
    for name, node in (("follows", "low"), ("differs", "over")):
        pod = a_pod(name, cpu=2.0)
        scores(state, pod, ["low", "over"])
        placements = state.on_placement(a_placement(node, [placed(pod, NOW)], sequence=2), NOW)

        assert placements is not None
        found = [(each.followed, each.reservation.chance) for each in placements if each.reservation is not None]
        assert found == [(name == "follows", 0.5)]


def test_a_request_without_nodes_has_no_scores() -> None:
    """And reserves nothing."""
    state = a_scoring_state({"low": 1.0})

    assert state.prioritize(a_pod(), [], NOW).scores.scores.tolist() == []
    assert len(state.reservations) == 0


# coverage


def test_unknown_and_overfull_nodes_score_0() -> None:
    """A node without messages, and one that the pod would overfill."""
    state = a_scoring_state({"low": 1.0, "full": 9.5})

    assert scores(state, a_pod(cpu=2.0), ["low", "full", "nowhere"]) == {"low": NEUTRAL, "full": 0, "nowhere": 0}


def test_scores_are_neutral_below_the_coverage_threshold() -> None:
    """Below 70 % all nodes score the same: otherwise all pods would go to the few known nodes. No node is refused."""
    state = a_scoring_state({"low": 1.0, "over": 6.0})
    state.on_cycle(a_cycle(10, sequence=2), NOW)

    prioritized = state.prioritize(a_pod(), ["low", "over", "nowhere"], NOW)

    assert prioritized.scores.scores.tolist() == [NEUTRAL] * 3
    assert prioritized.reason == "coverage"
    assert state.filter(a_pod(cpu=9.0), ["low", "over"], HIGH, NOW).refused == {}


# replacements


def test_a_replacement_goes_to_the_target_and_not_to_the_evicted_node() -> None:
    """The evicted node, whose load is lowest, scores 0; only the target scores 10."""
    state = a_scoring_state({"source": 1.0, "target": 3.0, "other": 3.5})
    state.replacements.on_outcome(an_outcome(node="source", target="target"), NOW)

    found = scores(state, a_pod("web-2", a_workload(), cpu=1.0), ["source", "target", "other"])

    assert found["source"] == 0
    assert found["target"] == 10
    assert found["other"] < 10


def test_the_moved_load_counts_on_the_target_until_the_replacement_is_placed() -> None:
    """For other pods."""
    names = ["source", "target", "other"]
    cores = {"source": 5.0, "target": 2.0, "other": 3.0}
    before = a_scoring_state(cores).prioritize(a_pod("x", cpu=0.5), names, NOW).ranking
    state = a_scoring_state(cores)
    state.replacements.on_outcome(an_outcome(node="source", target="target"), NOW)
    after = state.prioritize(a_pod("x", cpu=0.5), names, NOW).ranking

    assert before is not None
    assert after is not None
    assert before.nodes.load[1, 0, 0] == pytest.approx(0.2)
    assert after.nodes.load[1, 0, 0] == pytest.approx(0.3)


def test_repeated_requests_do_not_accumulate_the_moved_load() -> None:
    """Next to a reservation it counts once, whatever the number of requests."""
    names = ["source", "target", "other"]
    state = a_scoring_state({"source": 5.0, "target": 2.0, "other": 3.0})
    state.prioritize(a_pod("first", cpu=0.5), names, NOW)
    state.replacements.on_outcome(an_outcome(node="source", target="target"), NOW)
    without_uid = msgspec.structs.replace(a_pod("x", cpu=0.5), uid="")
    first, second = (state.prioritize(without_uid, names, NOW).ranking for _ in range(2))

    assert first is not None
    assert second is not None
    assert second.nodes.load.tolist() == first.nodes.load.tolist()


def test_the_moved_load_does_not_count_for_the_replacement_or_after_its_placement() -> None:
    """On whichever node it is placed."""
    names = ["source", "target", "other"]
    state = a_scoring_state({"source": 5.0, "target": 2.0, "other": 3.0})
    state.replacements.on_outcome(an_outcome(node="source", target="target"), NOW)
    replacement = a_pod("web-2", a_workload(), cpu=1.0)
    first = state.prioritize(replacement, names, NOW).ranking
    state.on_placement(a_placement("other", [placed(replacement, NOW)], sequence=2), NOW)
    later = state.prioritize(a_pod("x", cpu=0.5), names, NOW).ranking

    assert first is not None
    assert later is not None
    assert first.nodes.load[1, 0, 0] == pytest.approx(0.2)
    assert later.nodes.load[1, 0, 0] == pytest.approx(0.2)


def test_the_moved_load_counts_once_if_the_replacement_has_a_reservation() -> None:
    """The reservation is the moved load."""
    names = ["source", "target", "other"]
    state = a_scoring_state({"source": 5.0, "target": 2.0, "other": 3.0})
    state.replacements.on_intent(an_intent(node="source", target="target"), NOW)
    state.prioritize(a_pod("web-2", a_workload(), cpu=1.0), names, NOW)
    state.replacements.on_outcome(an_outcome(node="source", target="target"), NOW)
    ranking = state.prioritize(a_pod("x", cpu=0.5), names, NOW).ranking

    assert ranking is not None
    assert ranking.nodes.load[1, 0, 0] == pytest.approx(0.3)


def test_the_moved_load_does_not_refuse_the_replacement() -> None:
    """The target has headroom for the pod once, not twice: a filter request ignores it as a prioritize request does."""
    state = a_scoring_state({"source": 5.0, "target": 5.0, "other": 3.0})
    state.replacements.on_outcome(an_outcome(node="source", target="target"), NOW)
    names = ["source", "target", "other"]

    assert "target" in state.filter(a_pod("web-2", a_workload(), cpu=1.0), names, HIGH, NOW).nodes
    assert "target" in state.filter(a_pod("x", cpu=1.0), names, HIGH, NOW).refused


def test_the_state_does_not_depend_on_the_order_of_messages() -> None:
    """After a restart the last values arrive subject by subject; scores are the same as before."""
    names = ["low", "under", "over"]
    pods = [a_placed_pod("web-7", placed_at=NOW - 100, running_since=NOW - 90)]
    utilizations = [a_node_utilization(name, 1.0 + 2 * index) for index, name in enumerate(names)]
    placements = [a_placement(name, pods if name == "low" else []) for name in names]
    found = []
    for first in (utilizations, placements):
        state = a_scoring_state({})
        state.nodes.on_workload(a_workload_utilization(), NOW)
        state.on_cycle(a_cycle(3), NOW)
        for message in [*first, *utilizations, *placements]:
            if message in utilizations:
                state.nodes.on_utilization(message, NOW)  # type: ignore[arg-type]
            else:
                state.on_placement(message, NOW)  # type: ignore[arg-type]
        found.append(scores(state, a_pod("new", cpu=1.5), names))

    assert found[0] == found[1]
    assert len(set(found[0].values())) > 1


# filter


def test_hot_nodes_are_refused() -> None:
    """Above a high threshold with the pod; unknown nodes are not refused."""
    state = a_scoring_state({"low": 1.0, "warm": 6.0})

    filtered = state.filter(a_pod(cpu=1.0), ["low", "warm", "nowhere"], HIGH, NOW)

    assert filtered.nodes == ["low", "nowhere"]
    assert filtered.refused == {"warm": "cpu load would be 70.0%, above 65%"}


def test_no_node_is_refused_if_all_are_too_hot() -> None:
    """The pod must be able to run."""
    state = a_scoring_state({"a": 7.0, "b": 9.0})

    filtered = state.filter(a_pod(cpu=1.0), ["b", "a"], HIGH, NOW)

    assert (filtered.nodes, filtered.refused) == (["b", "a"], {})


# decisions


def test_a_decision_contains_its_inputs() -> None:
    """The expected usage of the pod, the level, and the loads of the best nodes."""
    state = a_scoring_state({"low": 1.0, "over": 6.0})
    pod = a_pod(cpu=1.0)

    decision = state.decision(state.prioritize(pod, ["low", "nowhere", "over"], NOW), pod, 3, NOW)

    assert decision.demand == Resources(cpu=1.0, memory=GIB)
    assert decision.demand_source == "cpu: request; memory: request"
    assert decision.level.cpu == pytest.approx((0.35 + 0.2 * 0.1) / 1.2)
    assert [each.node for each in decision.best] == ["low", "over", "nowhere"]
    assert decision.best[0].why.startswith("5m: cpu 10.0% → 20.0%, memory 6.2% → 7.8%")
    assert decision.best[2].why == "no utilization was received for it"
    assert decision.considered == 3


def a_banded_state(cores: dict[str, float], batch: dict[str, float], **settings: object) -> ScoringState:
    """Nodes of 10 cores of which this many are used, and this many reclaimed for batch pods; memory in abundance."""
    settings = {"reclaimed": BandScoring(enabled=True)} | settings
    state = a_scoring_state(cores, **settings)  # type: ignore[arg-type]
    for node, cpu in batch.items():
        offered = Resources(cpu=cpu, memory=64 * GIB)
        assert state.nodes.on_reclaimed(a_reclaimed_node(node, batch=offered, mid=offered), NOW)
    return state


def test_a_batch_pod_is_scored_by_what_is_left_of_its_band() -> None:
    """Not by the load, by which the order would be the opposite. An ordinary pod is scored by the policy."""
    state = a_banded_state({"idle": 1.0, "busy": 5.0}, {"idle": 2.0, "busy": 4.0})

    assert scores(state, a_batch_request(), ["idle", "busy"]) == {"idle": 1, "busy": 10}
    assert scores(state, a_pod(), ["idle", "busy"]) == {"idle": 10, "busy": 1}


def test_a_batch_pod_is_kept_from_nodes_of_which_nothing_is_left_or_known() -> None:
    """Not from one that is full otherwise: its usage does not decide."""
    cores = {"much": 1.0, "full": 9.9, "nothing": 1.0, "unknown": 1.0}
    state = a_banded_state(cores, {"much": 5.0, "full": 4.0, "nothing": 0.5})

    assert scores(state, a_batch_request(), list(cores)) == {"much": 10, "full": 1, "nothing": 0, "unknown": 0}


def test_a_batch_pod_has_neutral_scores_if_the_band_of_no_node_is_known() -> None:
    """Also when all amounts are outdated: kube-scheduler decides alone."""
    nothing = a_banded_state({"idle": 1.0, "busy": 5.0}, {})
    outdated = a_banded_state(
        {"idle": 1.0, "busy": 5.0},
        {"idle": 2.0, "busy": 4.0},
        reclaimed=BandScoring(enabled=True, lifetime=Duration(10)),
    )

    for state, now in ((nothing, NOW), (outdated, NOW + 11)):
        found = state.prioritize(a_batch_request(), ["idle", "busy"], now).scores
        assert found.scores.tolist() == [NEUTRAL, NEUTRAL]
        assert "band batch" in found.why


def test_without_co_location_a_batch_pod_is_scored_by_the_policy() -> None:
    """As before: messages of a reclaimer are not used."""
    state = a_scoring_state({"idle": 1.0, "busy": 5.0})

    assert not state.nodes.on_reclaimed(a_reclaimed_node("busy", batch=Resources(cpu=4.0, memory=GIB)), NOW)
    assert scores(state, a_batch_request(), ["idle", "busy"]) == {"idle": 10, "busy": 1}


def test_a_reservation_of_a_batch_pod_counts_in_its_band_until_the_pod_is_placed() -> None:
    """Then its requests count as those of the placement do."""
    names = ["node-a", "node-b"]
    state = a_banded_state({"node-a": 1.0, "node-b": 1.0}, {"node-a": 6.0, "node-b": 4.0})
    first = a_batch_request("job-1", cpu=3.0)
    assert scores(state, first, names) == {"node-a": 10, "node-b": 1}
    assert scores(state, a_batch_request("job-2", uid=""), names) == {"node-a": 1, "node-b": 10}
    assert scores(state, first, names) == {"node-a": 10, "node-b": 1}

    pod = a_batch_pod("job-1", reclaimed_requests=first.reclaimed_requests, placed_at=NOW)
    state.on_placement(a_placement("node-a", [pod], sequence=2), NOW)

    assert scores(state, a_batch_request("job-2", uid=""), names) == {"node-a": 1, "node-b": 10}
    state.on_placement(a_placement("node-a", [], sequence=3), NOW)
    assert scores(state, a_batch_request("job-2", uid=""), names) == {"node-a": 10, "node-b": 1}


def test_amounts_that_arrive_before_the_node_count() -> None:
    """After a restart, messages arrive in any order."""
    state = a_banded_state({"node-a": 1.0}, {"node-a": 2.0, "late": 9.0})
    state.on_placement(a_placement("late"), NOW)
    state.nodes.on_utilization(a_node_utilization("late", 5.0), NOW)

    assert scores(state, a_batch_request(), ["node-a", "late"]) == {"node-a": 1, "late": 10}


def test_a_node_that_takes_the_row_of_a_removed_one_does_not_have_its_amounts() -> None:
    """Rows are reused."""
    state = a_banded_state({"node-a": 1.0, "node-b": 1.0}, {"node-a": 9.0, "node-b": 5.0})
    state.on_placement(a_placement("node-a", removed=True, sequence=2), NOW)
    state.on_placement(a_placement("node-x"), NOW)
    state.nodes.on_utilization(a_node_utilization("node-x", 1.0), NOW)

    assert scores(state, a_batch_request(), ["node-x", "node-b"]) == {"node-x": 0, "node-b": 10}


def test_a_placed_batch_pod_is_scored_without_itself() -> None:
    """Its node then has as much left as the other one."""
    state = a_banded_state({"node-a": 1.0, "node-b": 1.0}, {"node-a": 5.0, "node-b": 4.0})
    pod = a_batch_pod("job-1")
    state.on_placement(a_placement("node-a", [pod], sequence=2), NOW)
    names = ["node-a", "node-b"]

    without = state.nodes.without("node-a", pod, NOW)
    demand, nodes, _ = state.inputs(demand_of_placed(pod), names, NOW, without=without)

    assert points_of(state.policy, nodes, demand)[0].tolist() == [40.0, 30.0]


def test_batch_work_that_runs_counts_in_part_for_ordinary_pods() -> None:
    """A fifth of its cores: a node with eight cores of it is better than one with four cores of others."""
    job = a_batch_pod("job-1")
    state = a_scoring_state({"batch": 8.0, "others": 4.0}, pods={"batch": [job]})
    measured = {job.uid: Resources(cpu=7.9, memory=GIB)}
    state.nodes.on_utilization(a_node_utilization("batch", 8.0, pods=measured, sequence=2), NOW)

    assert scores(state, a_pod(), ["batch", "others"]) == {"batch": 10, "others": 1}


def test_a_reservation_of_batch_work_counts_in_part_for_ordinary_pods() -> None:
    """As much as it will once it is placed."""
    state = a_scoring_state({"node-a": 1.0})
    scores(state, a_batch_request(cpu=5.0, priority=5_500), ["node-a"])

    _, nodes, _ = state.inputs(a_pod(), ["node-a"], NOW)

    assert nodes.load[0, 0, 0] == pytest.approx(0.2)
