"""Outcomes, replacements and counts between evaluations."""

import msgspec
import pytest
from builders import NOW, a_workload, an_intent
from descheduler.cluster import moment
from descheduler.outcomes import a_proposed_move, an_outcome

from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.pod import Pod, PodSpec
from equipoise.contracts.messages.descheduling import NodeClassification, ReplacementPlaced
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.contracts.messages.health import HEARTBEAT_LIFETIME
from equipoise.contracts.messages.values.move import MoveCost
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.cooldowns import pod_cooldown, triggers_in_cooldown
from equipoise.descheduler.state.moves.pending_moves import PodLocation, approved_pods
from equipoise.descheduler.state.moves.tracker import Tracker

SETTINGS = DeschedulerSettings()
NODES = ("node-a", "node-b")


def proposed(intent: EvictionIntent | None = None) -> Tracker:
    tracker = Tracker(SETTINGS.tracker)
    tracker.proposed(a_proposed_move(intent))
    return tracker


def a_candidate(name: str = "web-9", node: str = "node-b") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, uid=f"uid-{name}"), spec=PodSpec(node_name=node))


def update(tracker: Tracker, *candidates: Pod, now: float = NOW + 1) -> list[ReplacementPlaced]:
    return tracker.update({a_workload(): candidates}, {}, NODES, now)


def abnormal(*nodes: str) -> list[NodeClassification]:
    return [NodeClassification(node=name, state="hot", load=Resources(), sampled_at=NOW) for name in nodes]


def test_an_eviction_is_pending_until_its_replacement_is_placed() -> None:
    """Not before it is on a node, and not for a pod that existed before."""
    tracker = proposed()
    tracker.on_outcome(an_outcome(Outcome.EVICTED), NOW)

    assert tracker.awaited_workloads() == {an_intent().workload}
    for candidates in ([], [a_candidate("web-2")], [a_candidate(node="")]):
        assert update(tracker, *candidates) == []
        assert tracker.pending
    (placed,) = update(tracker, a_candidate("web-9"))
    assert (placed.pod, placed.node, placed.target) == ("web-1", "node-a", "node-b")
    assert (placed.replacement, placed.placed_on) == ("web-9", "node-b")
    assert not tracker.pending


def test_the_moves_of_a_campaign_are_kept_with_their_replacements() -> None:
    """The outcome has the name of the campaign."""
    tracker = proposed()
    tracker.on_outcome(an_outcome(Outcome.EVICTED, campaign="chg-1"), NOW)
    update(tracker, a_candidate("web-9"))

    [move] = tracker.campaign.moves
    assert tracker.campaign.name == "chg-1"
    assert (move.node, move.target, move.placed_on, move.replacement_uid) == ("node-a", "node-b", "node-b", "uid-web-9")


def test_a_replacement_on_the_evicted_node_starts_a_cooldown_of_its_workload() -> None:
    """The return is reported as well."""
    tracker = proposed()
    tracker.on_outcome(an_outcome(Outcome.EVICTED), NOW)

    (placed,) = update(tracker, a_candidate(node="node-a"))

    assert placed.placed_on == placed.node == "node-a"
    why = pod_cooldown(
        tracker.cooldowns, uid="", namespace="shop", workload=an_intent().workload, node="node-a", now=NOW + 1_000
    )
    assert "returned to node-a" in why


def test_a_new_leader_sees_no_return_in_two_moves_of_a_single_replica_there_and_back() -> None:
    """It knows the outcomes of both, and the pod that lives now runs where the first one began."""
    tracker = Tracker(SETTINGS.tracker)
    for number, node in enumerate(NODES):
        intent = an_intent(f"web-{number}", node, decided_at=NOW + 60 * number)
        cost = MoveCost(age=86_400.0 if number == 0 else 50.0)
        tracker.on_outcome(an_outcome(Outcome.EVICTED, intent, cost=cost, settled_at=NOW + 60 * number + 5), NOW + 90)
    metadata = ObjectMeta(name="web-9", uid="uid-web-9", creation_timestamp=moment(NOW + 61))

    update(tracker, Pod(metadata=metadata, spec=PodSpec(node_name="node-a")), now=NOW + 90)

    why = pod_cooldown(
        tracker.cooldowns, uid="uid-web-9", namespace="shop", workload=a_workload(), node="node-a", now=NOW + 90
    )
    assert why == "a pod of its workload was moved recently"
    assert not tracker.pending


def test_a_set_of_which_an_intent_has_no_outcome_is_planned_again_after_the_cooldown_of_the_waiting_pod() -> None:
    """The binder that worked on it may have ended for good."""
    tracker = Tracker(SETTINGS.tracker)
    for name in ("web-1", "web-2"):
        intent = msgspec.structs.replace(an_intent(name), trigger="uid-big.2")
        tracker.proposed(a_proposed_move(intent))
        if name == "web-1":
            tracker.on_outcome(an_outcome(Outcome.EVICTED, intent), NOW)
    update(tracker, now=NOW + 1)
    assert "uid-big.2" in triggers_in_cooldown(tracker.cooldowns, NOW + 3_000)
    update(tracker, now=NOW + 3_000)
    assert "uid-big.2" not in triggers_in_cooldown(tracker.cooldowns, NOW + 3_000)


def test_moves_expire() -> None:
    """An intent without an outcome, and a replacement that is never placed."""
    tracker = proposed()
    update(tracker, now=NOW + 359)
    assert tracker.pending
    update(tracker, now=NOW + 361)
    assert not tracker.pending

    tracker = proposed()
    tracker.on_outcome(an_outcome(Outcome.EVICTED), NOW)
    update(tracker, now=NOW + 599)
    assert tracker.pending
    update(tracker, now=NOW + 601)
    assert not tracker.pending


def test_a_withdrawn_intent_is_no_pending_move() -> None:
    """The bus did not accept it."""
    tracker = proposed()
    tracker.withdrawn(an_intent().id)

    assert not tracker.pending


def test_real_evictions_end_the_moves_of_dry_runs() -> None:
    """Whoever enables evictions must not wait for a day: these pods still have to be moved."""
    tracker = Tracker(SETTINGS.tracker)
    tracker.on_outcome(an_outcome(Outcome.DRY_RUN), NOW)
    location = {"uid-web-1": PodLocation(node="node-a", workload=an_intent().workload)}
    tracker.update({}, location, NODES, NOW + 1)
    assert tracker.pending
    tracker.end_dry_runs()

    assert not tracker.pending


def test_an_eviction_resets_the_count_of_its_node_only() -> None:
    """Other nodes are as hot as before."""
    tracker = Tracker(msgspec.structs.replace(SETTINGS, interval=Duration(1)).tracker)
    tracker.count("low_node_load", abnormal(*NODES), NOW)

    tracker.on_outcome(an_outcome(Outcome.EVICTED), NOW)

    assert tracker.counts["low_node_load"].keys() == {"node-b"}


def test_a_new_leader_counts_from_zero() -> None:
    """Of every strategy."""
    tracker = Tracker(SETTINGS.tracker)
    tracker.count("low_node_load", abnormal("node-a"), NOW)
    tracker.reset_counts()

    assert not tracker.counts


def cooldown_of(tracker: Tracker, pod: str = "other") -> str:
    """Why a pod of another workload in another namespace may not be moved."""
    return pod_cooldown(
        tracker.cooldowns, uid=f"uid-{pod}", namespace="elsewhere", workload=None, node="node-b", now=NOW + 1
    )


def test_what_dry_runs_used_up_delays_no_eviction() -> None:
    """Neither a limit that refused a dry run nor the cooldowns of its workload delay an eviction."""
    tracker = proposed()
    tracker.on_outcome(an_outcome(Outcome.DRY_RUN), NOW)
    exhausted = {"limit": "evictionsPerCluster", "limit_scope": "cluster", "retry_at": NOW + 600, "dry_run": True}
    tracker.on_outcome(an_outcome(Outcome.REJECTED_LIMIT, an_intent("web-2"), **exhausted), NOW)
    assert cooldown_of(tracker) == "limits.evictionsPerCluster is exhausted"

    tracker.end_dry_runs()

    assert not tracker.cooldowns
    assert cooldown_of(tracker) == ""


def test_dry_runs_end_no_cooldown_of_evictions() -> None:
    """Both apply while binders make dry runs; afterwards that of the eviction, also if it is shorter."""
    tracker = proposed()
    tracker.on_outcome(an_outcome(Outcome.EVICTED), NOW)
    real = tracker.cooldowns
    tracker.on_outcome(an_outcome(Outcome.DRY_RUN, an_intent("web-3"), settled_at=NOW + 60), NOW + 60)
    assert tracker.cooldowns[str(a_workload())].until > real[str(a_workload())].until

    tracker.end_dry_runs()

    assert tracker.cooldowns == real


def test_pending_moves_end_without_an_evaluation() -> None:
    """The same moves end as with `update`, but nothing is changed or reported."""
    tracker = proposed()
    tracker.on_outcome(an_outcome(Outcome.EVICTED), NOW)
    before = vars(tracker).copy()

    assert tracker.still_pending({a_workload(): []}, {}, NODES, NOW + 1) == tracker.pending
    assert not tracker.still_pending({a_workload(): [a_candidate("web-9")]}, {}, NODES, NOW + 1)
    assert vars(tracker) == before


def test_a_move_without_a_gap_is_pending_until_its_outcome() -> None:
    """Its replacement may start for longer than an intent and its outcome take: the pod counts as leaving meanwhile."""
    tracker = proposed()
    late = tracker.pending[an_intent().id].until + 1

    tracker.update({}, {}, NODES, late, [an_intent().pod_uid])
    assert tracker.still_pending({}, {}, NODES, late, [an_intent().pod_uid]) == tracker.pending != {}

    tracker.update({}, {}, NODES, late, ["another"])
    assert not tracker.pending


@pytest.mark.parametrize("ahead", [60.0, 86_400.0, 31_536_000.0])
def test_a_clock_that_was_ahead_makes_nothing_last_longer(ahead: float) -> None:
    """Moves, approvals and cooldowns of that time end as if it had been right, and nodes are counted anew."""
    tracker = Tracker(SETTINGS.tracker)
    tracker.read_clock(NOW + ahead)
    evicted = an_intent("web-1", decided_at=NOW + ahead, expires_at=NOW + ahead + 180)
    tracker.proposed(a_proposed_move(evicted))
    tracker.on_outcome(an_outcome(Outcome.EVICTED, settled_at=NOW + ahead), NOW + ahead)
    tracker.proposed(a_proposed_move(an_intent("web-2", decided_at=NOW + ahead, expires_at=NOW + ahead + 180)))
    tracker.count("low_node_load", abnormal("node-a"), NOW + ahead)

    tracker.read_clock(NOW)
    expired = NOW + 180 + HEARTBEAT_LIFETIME
    assert approved_pods(tracker.pending.values(), now=expired - 1) == ["uid-web-2"]
    assert approved_pods(tracker.pending.values(), now=expired) == []
    assert tracker.counts == {}
    cooldown = {"uid": "", "namespace": "shop", "workload": a_workload(), "node": "node-a"}
    assert pod_cooldown(tracker.cooldowns, now=NOW + 299, **cooldown)  # type: ignore[arg-type]
    assert not pod_cooldown(tracker.cooldowns, now=NOW + 300, **cooldown)  # type: ignore[arg-type]
    update(tracker, now=NOW + SETTINGS.replacement_timeout)
    assert tracker.pending == {}


def test_a_clock_of_the_api_server_that_was_ahead_makes_no_move_pending_for_longer() -> None:
    """Times of outcomes are those of the API server."""
    tracker = proposed()
    tracker.on_outcome(an_outcome(Outcome.EVICTED, settled_at=NOW + 31_536_000), NOW)
    update(tracker, now=NOW + SETTINGS.replacement_timeout)
    assert tracker.pending == {}


def test_a_clock_that_is_adjusted_changes_nothing() -> None:
    """By some seconds, as NTP does."""
    tracker = proposed()
    before = tracker.pending
    tracker.read_clock(NOW)
    tracker.read_clock(NOW - 5)
    assert tracker.pending == before
