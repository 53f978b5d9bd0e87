"""What was moved or refused is not proposed again for a while."""

import pytest
from builders import NOW, a_workload, an_intent
from descheduler.outcomes import an_outcome
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.messages.descheduling import LoadReduction
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.state.cooldowns import (
    LEFT,
    MOVED,
    Cooldowns,
    CooldownSettings,
    after_outcome,
    after_reduction,
    after_return,
    in_campaign,
    node_cooldown,
    nodes_in_cooldown,
    pod_cooldown,
    pruned,
    triggers_in_cooldown,
)

GIB = 2.0**30
SETTINGS = CooldownSettings()


def cooldown(
    cooldowns: Cooldowns,
    now: float,
    uid: str = "uid-other",
    node: str = "node-a",
    namespace: str = "shop",
    app: str = "web",
) -> str:
    """Of a pod."""
    return pod_cooldown(cooldowns, uid=uid, namespace=namespace, workload=a_workload(app), node=node, now=now)


@pytest.mark.parametrize("outcome", [Outcome.EVICTED, Outcome.DRY_RUN])
def test_a_moved_pod_starts_a_cooldown_of_its_workload(outcome: Outcome) -> None:
    """A dry run like an eviction: otherwise it would propose the same pod at every evaluation."""
    cooldowns = after_outcome({}, an_outcome(outcome), SETTINGS, NOW)

    assert cooldown(cooldowns, NOW + 299) == "a pod of its workload was moved recently"
    assert not cooldown(cooldowns, NOW + 300)


def test_a_refusal_starts_a_cooldown_of_the_pod_alone() -> None:
    """Its siblings may still be movable."""
    cooldowns = after_outcome({}, an_outcome(Outcome.BLOCKED_PDB), SETTINGS, NOW)

    assert cooldown(cooldowns, NOW + 1, uid="uid-web-1") == "its last eviction was blocked by a PodDisruptionBudget"
    assert not cooldown(cooldowns, NOW + 1)


@pytest.mark.parametrize(
    "outcome", [Outcome.ALREADY_GONE, Outcome.UID_CHANGED, Outcome.REJECTED_STALE, Outcome.EXPIRED]
)
def test_an_outcome_that_is_no_reason_against_the_pod_starts_no_cooldown(outcome: Outcome) -> None:
    """It is gone, or the data of this decision was too old or not known yet."""
    assert after_outcome({}, an_outcome(outcome), SETTINGS, NOW) == {}


def test_a_clock_of_the_api_server_that_was_ahead_makes_no_cooldown_longer() -> None:
    """Times of outcomes are those of the API server."""
    ahead = {"settled_at": NOW + 7_200}
    refused = an_outcome(Outcome.PAUSED, **ahead)
    limited = an_outcome(
        Outcome.REJECTED_LIMIT,
        limit="evictionsPerCluster",
        limit_scope="cluster",
        settled_at=NOW + 7_200,
        retry_at=NOW + 7_290,
    )

    assert not cooldown(after_outcome({}, an_outcome(Outcome.EVICTED, **ahead), SETTINGS, NOW), NOW + 300)
    assert not cooldown(after_outcome({}, refused, SETTINGS, NOW), NOW + 600, uid="uid-web-1")
    assert cooldown(after_outcome({}, limited, SETTINGS, NOW), NOW + 89)
    assert not cooldown(after_outcome({}, limited, SETTINGS, NOW), NOW + 90)


def test_an_exhausted_limit_starts_a_cooldown_of_its_scope() -> None:
    """Until it has capacity again."""

    def refused(limit: str, scope: str, retry_at: float | None = NOW + 90) -> Cooldowns:
        outcome = an_outcome(Outcome.REJECTED_LIMIT, limit=limit, limit_scope=scope, retry_at=retry_at)
        return after_outcome({}, outcome, SETTINGS, NOW)

    workload = refused("evictionsPerWorkload", "workload")
    namespace = refused("evictionsPerNamespace", "namespace")
    late, node = refused("lateReplacements", "cluster", None), refused("migratingPerNode", "pod", None)
    assert cooldown(workload, NOW + 89)
    assert not cooldown(workload, NOW + 90, uid="uid-web-1")
    assert not cooldown(workload, NOW, app="db")
    assert cooldown(namespace, NOW, app="db") == "limits.evictionsPerNamespace is exhausted"
    assert not cooldown(namespace, NOW, app="db", namespace="bank")
    assert cooldown(refused("evictionsPerCluster", "cluster"), NOW, app="db", namespace="bank")
    assert cooldown(late, NOW + 599, app="db", namespace="bank")
    assert not cooldown(node, NOW)
    assert cooldown(node, NOW, uid="uid-web-1")


@pytest.mark.parametrize(("limit", "holds"), [("evictionsPerCluster", False), ("lateReplacements", True)])
def test_limits_that_the_budget_of_a_campaign_replaces_delay_no_move_of_it(limit: str, holds: bool) -> None:
    """Others do, and so does what is no limit."""
    outcome = an_outcome(Outcome.REJECTED_LIMIT, limit=limit, limit_scope="cluster", retry_at=NOW + 90)
    cooldowns = after_outcome({}, an_outcome(Outcome.BLOCKED_PDB), SETTINGS, NOW)
    cooldowns = in_campaign(after_outcome(cooldowns, outcome, SETTINGS, NOW))

    assert bool(cooldown(cooldowns, NOW, app="db")) == holds
    assert cooldown(cooldowns, NOW, uid="uid-web-1")


def test_cooldowns_double_with_every_return() -> None:
    """On the evicted node they are twice as long. None is longer than the maximum."""
    once = after_return({}, a_workload(), "node-a", SETTINGS, NOW)
    twice = after_return(once, a_workload(), "node-a", SETTINGS, NOW + 4_000)
    often = once
    for _ in range(60):
        often = after_return(often, a_workload(), "node-a", SETTINGS, NOW)

    assert cooldown(once, NOW + 1_799, node="node-b")
    assert not cooldown(once, NOW + 1_800, node="node-b")
    assert cooldown(once, NOW + 3_599)
    assert cooldown(twice, NOW + 7_599, node="node-b")
    assert cooldown(often, NOW + 86_399)
    assert not cooldown(often, NOW + 86_400)


@given(st.lists(st.sampled_from(list(Outcome)), max_size=12), st.lists(st.floats(0, 5_000), min_size=12, max_size=12))
def test_no_outcome_shortens_a_cooldown(outcomes: list[Outcome], times: list[float]) -> None:
    """Whatever outcome follows."""
    cooldowns = after_return({}, a_workload(), "node-a", SETTINGS, NOW)
    for outcome, time in zip(outcomes, times, strict=False):
        cooldowns = after_outcome(cooldowns, an_outcome(outcome, settled_at=NOW + time), SETTINGS, NOW + time)

    assert cooldown(pruned(cooldowns, SETTINGS, NOW + 1_799), NOW + 1_799, node="node-b")


def a_reduction(*, reduced: bool = False) -> LoadReduction:
    usage, expected = Resources(cpu=8.0, memory=20 * GIB), Resources(cpu=1.0, memory=GIB)
    return LoadReduction(
        node="node-a", intents=["one"], over=["cpu"], before=usage, after=usage, expected=expected, reduced=reduced
    )


def failed(times: int) -> Cooldowns:
    """The load of node-a was not reduced, this many times in a row."""
    cooldowns: Cooldowns = {}
    for _ in range(times):
        cooldowns = after_reduction(cooldowns, a_reduction(), SETTINGS, NOW)
    return cooldowns


def test_a_node_whose_load_is_not_reduced_twice_is_in_cooldown() -> None:
    """Once may be chance. From the second time on the cooldown doubles each time, up to a day."""
    assert not node_cooldown(failed(1), "node-a", NOW)
    assert node_cooldown(failed(2), "node-a", NOW + 1_799)
    assert not node_cooldown(failed(2), "node-a", NOW + 1_800)
    assert node_cooldown(failed(3), "node-a", NOW + 3_599)
    assert not node_cooldown(failed(60), "node-a", NOW + 86_400)
    assert not node_cooldown(failed(2), "node-b", NOW)


def test_a_load_reduction_resets_the_cooldown_of_a_node() -> None:
    """Earlier failures are forgotten then, and a day after the cooldown."""
    reduced = after_reduction(failed(3), a_reduction(reduced=True), SETTINGS, NOW)
    assert not node_cooldown(reduced, "node-a", NOW)
    assert not node_cooldown(after_reduction(reduced, a_reduction(), SETTINGS, NOW), "node-a", NOW)

    assert pruned(failed(2), SETTINGS, NOW + 88_199)
    assert not pruned(failed(2), SETTINGS, NOW + 88_201)


def test_the_reason_of_a_nodes_cooldown_has_numbers() -> None:
    """How often, what was expected, and what was measured."""
    (node,) = nodes_in_cooldown(failed(2), NOW)

    assert (node.node, node.until) == ("node-a", NOW + 1_800)
    assert node.why == (
        "no load reduction after evictions, 2 times in a row: cpu fell by 0.00 instead of falling by 1.00 cores"
    )
    assert nodes_in_cooldown(failed(2), NOW + 1_800) == []


def after_moves_for(cooldowns: Cooldowns, generation: int, at: float, outcome: Outcome = Outcome.EVICTED) -> Cooldowns:
    """The cooldowns after a pod was moved for this generation of the pod with UID uid-big."""
    message = an_outcome(outcome, trigger=f"uid-big.{generation}", settled_at=at)
    return after_outcome(cooldowns, message, SETTINGS, at)


def test_pods_are_moved_once_for_a_size_of_a_waiting_pod() -> None:
    cooldowns = after_moves_for({}, 2, NOW)

    assert triggers_in_cooldown(cooldowns, NOW + 1) == {
        "uid-big": "pods were moved for it recently", "uid-big.2": "pods were moved for this size of it before"
    }  # fmt: skip
    assert triggers_in_cooldown(cooldowns, NOW + 301).keys() == {"uid-big.2"}
    assert not triggers_in_cooldown(cooldowns, NOW + SETTINGS.max)


def test_the_second_pod_of_a_set_and_a_repeated_outcome_do_not_extend_the_cooldown_of_a_trigger() -> None:
    cooldowns = after_moves_for({}, 2, NOW)
    again = after_moves_for(cooldowns, 2, NOW + 10)

    assert {key: value for key, value in again.items() if "uid-big" in key} == {
        key: value for key, value in cooldowns.items() if "uid-big" in key
    }


def a_set_member(outcome: Outcome, pod: str, decided_at: float = NOW) -> EvictionOutcome:
    """The outcome of one pod of a set that was planned at this time, for the second size of a pod."""
    intent = an_intent(pod, decided_at=decided_at)
    return an_outcome(outcome, intent, trigger="uid-big.2", settled_at=decided_at + 5)


NOT_MOVED = sorted(set(Outcome) - {*MOVED, *LEFT})


@pytest.mark.parametrize("refused_first", [True, False])
@pytest.mark.parametrize("refusal", NOT_MOVED)
def test_a_set_of_which_a_pod_was_not_moved_is_planned_again_after_the_cooldown_of_the_waiting_pod(
    refusal: Outcome, refused_first: bool
) -> None:
    """Whichever outcome arrives first, and however often. The time doubles with each such set."""
    cooldowns: Cooldowns = {}
    decided_at = NOW
    for length in (300.0, 600.0, 1_200.0):
        outcomes = [a_set_member(Outcome.EVICTED, "web-1", decided_at), a_set_member(refusal, "web-2", decided_at)]
        for outcome in 2 * (outcomes[::-1] if refused_first else outcomes):
            cooldowns = after_outcome(cooldowns, outcome, SETTINGS, decided_at + 5)
        end = decided_at + 5 + length
        assert triggers_in_cooldown(cooldowns, end - 1).keys() == {"uid-big", "uid-big.2"}
        assert not triggers_in_cooldown(cooldowns, end)
        cooldowns = pruned(cooldowns, SETTINGS, end)
        decided_at = end


@pytest.mark.parametrize("left", LEFT)
def test_a_pod_of_a_set_that_left_by_itself_has_made_room(left: Outcome) -> None:
    cooldowns = after_outcome({}, a_set_member(left, "web-2"), SETTINGS, NOW + 5)
    cooldowns = after_outcome(cooldowns, a_set_member(Outcome.EVICTED, "web-1"), SETTINGS, NOW + 5)

    assert "uid-big.2" in triggers_in_cooldown(cooldowns, NOW + SETTINGS.max)


def test_a_set_after_one_that_was_refused_counts_in_full() -> None:
    """Its pods are others, and all of them are moved."""
    cooldowns = after_outcome({}, a_set_member(Outcome.FAILED, "web-2"), SETTINGS, NOW + 5)
    cooldowns = after_outcome(cooldowns, a_set_member(Outcome.EVICTED, "web-3", NOW + 120), SETTINGS, NOW + 125)

    assert "uid-big.2" in triggers_in_cooldown(cooldowns, NOW + SETTINGS.max)


def test_an_autoscaler_that_resizes_a_pod_again_and_again_has_others_moved_ever_less_often() -> None:
    """Each size is a new generation: the time between two plans doubles, up to the maximum."""
    cooldowns: Cooldowns = {}
    planned: list[float] = []
    for minute in range(24 * 60):
        now = NOW + 60.0 * minute
        cooldowns = pruned(cooldowns, SETTINGS, now)
        if triggers_in_cooldown(cooldowns, now).keys().isdisjoint({"uid-big", f"uid-big.{minute}"}):
            cooldowns = after_moves_for(cooldowns, minute, now)
            planned.append(minute)

    assert planned == [0, 5, 15, 35, 75, 155, 315, 635, 1275]


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.EVICTED, Outcome.DRY_RUN}))
def test_a_move_that_was_refused_leaves_the_waiting_pod_its_turn(outcome: Outcome) -> None:
    assert not triggers_in_cooldown(after_moves_for({}, 2, NOW, outcome), NOW + 1)
