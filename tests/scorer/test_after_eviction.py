"""Replacements are kept from going home."""

import pytest
from builders import GIB, NOW, a_placed_pod, a_workload, an_intent

from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.resources import Resources
from equipoise.scorer.state.replacement_hints import AfterEviction, Hint

RELIEF = Resources(cpu=1.0, memory=GIB)
NODES = {"node-a", "node-b", "node-c"}


def an_outcome(pod: str = "web-1", **fields: object) -> EvictionOutcome:
    defaults: dict[str, object] = {
        "intent_id": f"intent-{pod}",
        "outcome": Outcome.EVICTED,
        "pod_uid": f"uid-{pod}",
        "namespace": "shop",
        "pod": pod,
        "node": "node-a",
        "workload": a_workload(),
        "target": "node-b",
        "reason": "node is overutilized",
        "expected_reduction": RELIEF,
        "decided_at": NOW,
        "settled_at": NOW,
    }
    return EvictionOutcome(**(defaults | fields))  # type: ignore[arg-type]


def a_replacement(name: str = "web-2", placed_at: float = NOW + 1) -> PlacedPod:
    return a_placed_pod(name, placed_at=placed_at, running_since=None)


def after(*outcomes: EvictionOutcome) -> AfterEviction:
    state = AfterEviction(600.0)
    for outcome in outcomes:
        state.on_outcome(outcome, NOW)
    return state


def test_the_source_is_avoided_and_the_target_preferred() -> None:
    """The first replacement is sent to the target; its own booking there does not count against it."""
    state = after(an_outcome())

    hint = state.ask("uid-web-2", a_workload(), NODES, NOW + 1)

    assert hint == Hint(avoided=frozenset({"node-a"}), preferred="node-b")
    assert state.booked(NOW + 1, asking="uid-other") == [("node-b", RELIEF)]
    assert state.booked(NOW + 1, asking="uid-web-2") == []


def test_an_answer_that_is_booked_is_not_booked_twice() -> None:
    """While the replacement's answer counts as load, the eviction does not; without one it does again."""
    state = after(an_outcome())
    state.ask("uid-web-2", a_workload(), NODES, NOW + 1)

    assert state.booked(NOW + 1, answered={"uid-web-2"}) == []
    assert state.booked(NOW + 4, answered=set()) == [("node-b", RELIEF)]


def test_an_intent_already_keeps_the_replacement_from_going_home() -> None:
    """It may ask before the outcome is told; until then nothing is booked but for one that has asked."""
    state = AfterEviction(600.0)
    state.on_intent(an_intent(), NOW)

    assert state.booked(NOW + 1) == []
    hint = state.ask("uid-web-2", a_workload(), NODES, NOW + 1)
    assert hint == Hint(avoided=frozenset({"node-a"}), preferred="node-b")
    assert state.booked(NOW + 1) == [("node-b", RELIEF)]


def test_an_eviction_makes_the_intent_last() -> None:
    """Ten minutes from then on, with the replacement that has asked; a second word of it changes nothing."""
    state = AfterEviction(600.0)
    state.on_intent(an_intent(expires_at=NOW + 3), NOW)
    state.ask("uid-web-2", a_workload(), NODES, NOW + 1)
    state.on_outcome(an_outcome(settled_at=NOW + 2), NOW + 2)
    state.on_outcome(an_outcome(settled_at=NOW + 50), NOW + 50)

    assert state.ask("uid-web-2", a_workload(), NODES, NOW + 601).preferred == "node-b"
    assert state.ask("uid-web-3", a_workload(), NODES, NOW + 601) == Hint(avoided=frozenset({"node-a"}))
    assert state.ask("uid-web-3", a_workload(), NODES, NOW + 603) == Hint()


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.EVICTED])
def test_a_refusal_ends_the_intent(outcome: Outcome) -> None:
    """The pod stays: its siblings may be placed beside it. The refusal of an earlier intent ends nothing."""
    state = AfterEviction(600.0)
    state.on_intent(an_intent(), NOW)
    state.on_outcome(an_outcome(intent_id="of-yesterday", outcome=outcome), NOW + 1)
    assert state.ask("uid-web-2", a_workload(), NODES, NOW + 1).avoided == {"node-a"}

    state.on_outcome(an_outcome(outcome=outcome), NOW + 1)
    assert state.ask("uid-web-2", a_workload(), NODES, NOW + 1) == Hint()


def test_an_intent_without_an_outcome_ends_with_its_life() -> None:
    """Nobody may be there to carry it out; an expired one, or one of a bare pod, changes nothing."""
    state = AfterEviction(600.0)
    state.on_intent(an_intent(expires_at=NOW + 3), NOW)
    state.on_intent(an_intent("web-7", node="node-c", expires_at=NOW), NOW)
    state.on_intent(an_intent("web-8", node="node-c", workload=None), NOW)

    assert state.ask("uid-web-2", a_workload(), NODES, NOW + 2).avoided == {"node-a"}
    assert state.ask("uid-web-2", a_workload(), NODES, NOW + 3) == Hint()


def test_an_intent_that_is_heard_late_or_twice_changes_nothing() -> None:
    """After the outcome, or refused by the queue while the first one waits there; after its life a new one counts."""
    state = after(an_outcome())
    state.on_intent(an_intent(node="node-c"), NOW)
    assert state.ask("uid-web-2", a_workload(), NODES, NOW + 1).avoided == {"node-a"}

    state = AfterEviction(600.0)
    state.on_intent(an_intent(expires_at=NOW + 3), NOW)
    state.on_intent(an_intent(id="second", target="node-c"), NOW + 1)
    assert state.ask("uid-web-2", a_workload(), NODES, NOW + 1).preferred == "node-b"
    state.on_intent(an_intent(id="third", target="node-c"), NOW + 4)
    assert state.ask("uid-web-2", a_workload(), NODES, NOW + 4).preferred == "node-c"


def test_only_the_first_replacement_is_sent_there() -> None:
    """A second pod of the workload only avoids the source; the first may ask again."""
    state = after(an_outcome())
    first = state.ask("uid-web-2", a_workload(), NODES, NOW + 1)

    assert state.ask("uid-web-3", a_workload(), NODES, NOW + 1) == Hint(avoided=frozenset({"node-a"}))
    assert state.ask("uid-web-2", a_workload(), NODES, NOW + 2) == first


def test_other_workloads_are_not_concerned() -> None:
    """Pods of others may use the room that the eviction made."""
    state = after(an_outcome())

    assert state.ask("uid-db-1", a_workload("db"), NODES, NOW + 1) == Hint()
    assert state.ask("uid-bare", None, NODES, NOW + 1) == Hint()


def test_a_target_that_is_no_candidate_is_not_preferred() -> None:
    """The hint waits for a pod that can go there."""
    state = after(an_outcome())

    assert state.ask("uid-web-2", a_workload(), {"node-c"}, NOW + 1).preferred == ""
    assert state.ask("uid-web-3", a_workload(), NODES, NOW + 1).preferred == "node-b"


def test_a_placed_replacement_ends_booking_and_preference() -> None:
    """Wherever it went; the source stays avoided."""
    state = after(an_outcome())
    state.on_placed([a_replacement()], NOW + 2)

    assert state.booked(NOW + 2) == []
    assert state.ask("uid-web-3", a_workload(), NODES, NOW + 2) == Hint(avoided=frozenset({"node-a"}))


def test_one_placement_replaces_one_pod() -> None:
    """Of two evictions, the one whose replacement asked is settled by it."""
    state = after(an_outcome("web-1"), an_outcome("web-9", target="node-c", decided_at=NOW + 0.5))
    state.ask("uid-web-2", a_workload(), {"node-c"}, NOW + 1)
    state.on_placed([a_replacement("web-2")], NOW + 2)

    assert state.booked(NOW + 2) == [("node-b", RELIEF)]


def test_a_replacement_may_be_placed_before_the_outcome_is_heard() -> None:
    """Controller and scheduler are quicker than the ledger: nothing is booked for a pod that is there already."""
    state = AfterEviction(600.0)
    state.on_placed([a_replacement(placed_at=NOW - 0.5)], NOW)
    state.on_outcome(an_outcome(), NOW + 0.1)

    assert state.booked(NOW + 0.1) == []
    assert state.ask("uid-web-3", a_workload(), NODES, NOW + 1).avoided == {"node-a"}


def test_pods_placed_long_before_are_no_replacements() -> None:
    """A sibling of yesterday settles nothing."""
    state = AfterEviction(600.0)
    state.on_placed([a_replacement(placed_at=NOW - 60)], NOW)
    state.on_outcome(an_outcome(), NOW)

    assert state.booked(NOW) == [("node-b", RELIEF)]


def test_everything_ends_after_ten_minutes() -> None:
    """Avoidance, preference and booking."""
    state = after(an_outcome())

    assert state.ask("uid-web-2", a_workload(), NODES, NOW + 601) == Hint()
    assert state.booked(NOW + 601) == []
    state.forget(NOW + 601)
    assert state.ask("uid-web-2", a_workload(), NODES, NOW) == Hint()


def test_only_real_evictions_count() -> None:
    """A dry run, a refusal, a bare pod and an outcome of an hour ago change nothing; nor does the same one twice."""
    state = after(
        an_outcome("p1", outcome=Outcome.DRY_RUN),
        an_outcome("p2", outcome=Outcome.REJECTED_LIMIT),
        an_outcome("p3", workload=None),
        an_outcome("p4", settled_at=NOW - 3_600),
        an_outcome("p5", node="node-c"),
        an_outcome("p5", node="node-c"),
    )

    assert state.booked(NOW) == [("node-b", RELIEF)]
    assert state.ask("uid-web-2", a_workload(), NODES, NOW).avoided == {"node-c"}


def test_a_target_that_lost_a_pod_of_the_workload_itself_is_not_preferred() -> None:
    """Two evictions that point at one another's source do not send pods in circles."""
    state = after(an_outcome("p1", node="node-a", target="node-b"), an_outcome("p2", node="node-b", target="node-a"))

    hint = state.ask("uid-web-2", a_workload(), NODES, NOW)

    assert hint == Hint(avoided=frozenset({"node-a", "node-b"}))
