"""Hints that keep replacements from returning to the evicted node."""

import pytest
from builders import NOW, a_placed_pod, a_workload, an_intent
from scorer.clusters import MOVED, an_outcome

from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.scorer.state.placement_hints.expected_replacements import ExpectedReplacements, ReplacementHint

NODES = {"node-a", "node-b", "node-c"}
AVOIDED = ReplacementHint(avoided=frozenset({"node-a"}))


def a_replacement(name: str = "web-2", placed_at: float = NOW + 1) -> PlacedPod:
    return a_placed_pod(name, placed_at=placed_at, running_since=None)


def replacements_after(*outcomes: EvictionOutcome) -> ExpectedReplacements:
    replacements = ExpectedReplacements(600.0)
    for outcome in outcomes:
        replacements.on_outcome(outcome, NOW)
    return replacements


def test_the_evicted_node_is_avoided_and_the_target_preferred() -> None:
    """The moved load counts for other pods, not for the replacement."""
    replacements = replacements_after(an_outcome())

    hint = replacements.assign("uid-web-2", a_workload(), NODES, NOW + 1)

    assert hint == ReplacementHint(avoided=frozenset({"node-a"}), preferred="node-b")
    assert replacements.reserved(NOW + 1, without="uid-other") == [("node-b", MOVED)]
    assert replacements.reserved(NOW + 1, without="uid-web-2") == []


def test_a_replacement_with_a_reservation_is_not_reserved_twice() -> None:
    """When the reservation has expired, the moved load counts again."""
    replacements = replacements_after(an_outcome())
    replacements.assign("uid-web-2", a_workload(), NODES, NOW + 1)

    assert replacements.reserved(NOW + 1, reservations={"uid-web-2"}) == []
    assert replacements.reserved(NOW + 4, reservations=set()) == [("node-b", MOVED)]


def test_hints_begin_with_the_intent() -> None:
    """A replacement may be scored before the outcome arrives; until then, only a scored replacement is reserved."""
    replacements = ExpectedReplacements(600.0)
    replacements.on_intent(an_intent(), NOW)

    assert replacements.reserved(NOW + 1) == []
    hint = replacements.assign("uid-web-2", a_workload(), NODES, NOW + 1)
    assert hint == ReplacementHint(avoided=frozenset({"node-a"}), preferred="node-b")
    assert replacements.reserved(NOW + 1) == [("node-b", MOVED)]


def test_an_eviction_extends_the_hint() -> None:
    """To ten minutes, with the assigned replacement; a repeated outcome changes nothing."""
    replacements = ExpectedReplacements(600.0)
    replacements.on_intent(an_intent(expires_at=NOW + 3), NOW)
    replacements.assign("uid-web-2", a_workload(), NODES, NOW + 1)
    replacements.on_outcome(an_outcome(settled_at=NOW + 2), NOW + 2)
    replacements.on_outcome(an_outcome(settled_at=NOW + 50), NOW + 50)

    assert replacements.assign("uid-web-2", a_workload(), NODES, NOW + 601).preferred == "node-b"
    assert replacements.assign("uid-web-3", a_workload(), NODES, NOW + 601) == ReplacementHint(
        avoided=frozenset({"node-a"})
    )
    assert replacements.assign("uid-web-3", a_workload(), NODES, NOW + 603) == ReplacementHint()


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.EVICTED])
def test_any_other_outcome_ends_the_hint(outcome: Outcome) -> None:
    """Other pods of the workload may be placed on the node. An outcome of an earlier intent ends nothing."""
    replacements = ExpectedReplacements(600.0)
    replacements.on_intent(an_intent(), NOW)
    replacements.on_outcome(an_outcome(intent_id="earlier", outcome=outcome), NOW + 1)
    assert replacements.assign("uid-web-2", a_workload(), NODES, NOW + 1).avoided == {"node-a"}

    replacements.on_outcome(an_outcome(outcome=outcome), NOW + 1)
    assert replacements.assign("uid-web-2", a_workload(), NODES, NOW + 1) == ReplacementHint()


def test_an_intent_without_an_outcome_expires() -> None:
    """The binder may be down; an expired intent, or one for a pod without a workload, changes nothing."""
    replacements = ExpectedReplacements(600.0)
    replacements.on_intent(an_intent(expires_at=NOW + 3), NOW)
    replacements.on_intent(an_intent("web-7", node="node-c", expires_at=NOW), NOW)
    replacements.on_intent(an_intent("web-8", node="node-c", workload=None), NOW)

    assert replacements.assign("uid-web-2", a_workload(), NODES, NOW + 2).avoided == {"node-a"}
    assert replacements.assign("uid-web-2", a_workload(), NODES, NOW + 3) == ReplacementHint()


def test_a_late_or_repeated_intent_changes_nothing() -> None:
    """After the outcome, or while the first intent is in the work queue; after its expiry a new one counts."""
    replacements = replacements_after(an_outcome())
    replacements.on_intent(an_intent(node="node-c"), NOW)
    assert replacements.assign("uid-web-2", a_workload(), NODES, NOW + 1).avoided == {"node-a"}

    replacements = ExpectedReplacements(600.0)
    replacements.on_intent(an_intent(expires_at=NOW + 3), NOW)
    replacements.on_intent(an_intent(id="second", target="node-c"), NOW + 1)
    assert replacements.assign("uid-web-2", a_workload(), NODES, NOW + 1).preferred == "node-b"
    replacements.on_intent(an_intent(id="third", target="node-c"), NOW + 4)
    assert replacements.assign("uid-web-2", a_workload(), NODES, NOW + 4).preferred == "node-c"


def test_only_the_first_replacement_prefers_the_target() -> None:
    """A second pod of the workload only avoids the evicted node; the first may be scored again."""
    replacements = replacements_after(an_outcome())
    first = replacements.assign("uid-web-2", a_workload(), NODES, NOW + 1)

    assert replacements.assign("uid-web-3", a_workload(), NODES, NOW + 1) == ReplacementHint(
        avoided=frozenset({"node-a"})
    )
    assert replacements.assign("uid-web-2", a_workload(), NODES, NOW + 2) == first


def test_other_workloads_get_no_hint() -> None:
    """Their pods may use the evicted node."""
    replacements = replacements_after(an_outcome())

    assert replacements.assign("uid-db-1", a_workload("db"), NODES, NOW + 1) == ReplacementHint()
    assert replacements.assign("uid-bare", None, NODES, NOW + 1) == ReplacementHint()


def test_a_target_that_is_not_a_candidate_is_not_preferred() -> None:
    """The next pod with this candidate is the replacement."""
    replacements = replacements_after(an_outcome())

    assert replacements.assign("uid-web-2", a_workload(), {"node-c"}, NOW + 1).preferred == ""
    assert replacements.assign("uid-web-3", a_workload(), NODES, NOW + 1).preferred == "node-b"


def test_a_placed_replacement_ends_reservation_and_preference() -> None:
    """On whichever node it is; the evicted node is still avoided."""
    replacements = replacements_after(an_outcome())
    replacements.on_placed([a_replacement()], NOW + 2)

    assert replacements.reserved(NOW + 2) == []
    assert replacements.assign("uid-web-3", a_workload(), NODES, NOW + 2) == ReplacementHint(
        avoided=frozenset({"node-a"})
    )


def test_one_placement_replaces_one_pod() -> None:
    """Of two evictions, that of the assigned replacement."""
    replacements = replacements_after(an_outcome("web-1"), an_outcome("web-9", target="node-c", decided_at=NOW + 0.5))
    replacements.assign("uid-web-2", a_workload(), {"node-c"}, NOW + 1)
    replacements.on_placed([a_replacement("web-2")], NOW + 2)

    assert replacements.reserved(NOW + 2) == [("node-b", MOVED)]


def test_a_replacement_may_be_placed_before_the_outcome_arrives() -> None:
    """Controller and scheduler may be faster than the ledger: nothing is reserved for a placed pod."""
    replacements = ExpectedReplacements(600.0)
    replacements.on_placed([a_replacement(placed_at=NOW - 0.5)], NOW)
    replacements.on_outcome(an_outcome(), NOW + 0.1)

    assert replacements.reserved(NOW + 0.1) == []
    assert replacements.assign("uid-web-3", a_workload(), NODES, NOW + 1).avoided == {"node-a"}


def test_pods_placed_long_before_are_no_replacements() -> None:
    """A pod of the workload that was placed before the eviction."""
    replacements = ExpectedReplacements(600.0)
    replacements.on_placed([a_replacement(placed_at=NOW - 60)], NOW)
    replacements.on_outcome(an_outcome(), NOW)

    assert replacements.reserved(NOW) == [("node-b", MOVED)]


def test_hints_end_after_their_duration() -> None:
    """Avoidance, preference and reservation."""
    replacements = replacements_after(an_outcome())

    assert replacements.assign("uid-web-2", a_workload(), NODES, NOW + 601) == ReplacementHint()
    assert replacements.reserved(NOW + 601) == []
    replacements.prune(NOW + 601)
    assert replacements.assign("uid-web-2", a_workload(), NODES, NOW) == ReplacementHint()


def test_only_evictions_of_the_last_minutes_count() -> None:
    """A dry run, a refusal, a pod without a workload, and an old or repeated outcome change nothing."""
    replacements = replacements_after(
        an_outcome("p1", outcome=Outcome.DRY_RUN),
        an_outcome("p2", outcome=Outcome.REJECTED_LIMIT),
        an_outcome("p3", workload=None),
        an_outcome("p4", settled_at=NOW - 3_600),
        an_outcome("p5", node="node-c"),
        an_outcome("p5", node="node-c"),
    )

    assert replacements.reserved(NOW) == [("node-b", MOVED)]
    assert replacements.assign("uid-web-2", a_workload(), NODES, NOW).avoided == {"node-c"}


def test_an_evicted_node_is_not_preferred_as_a_target() -> None:
    """Two evictions whose targets are each other's nodes do not send pods in circles."""
    replacements = replacements_after(
        an_outcome("p1", node="node-a", target="node-b"), an_outcome("p2", node="node-b", target="node-a")
    )

    hint = replacements.assign("uid-web-2", a_workload(), NODES, NOW)

    assert hint == ReplacementHint(avoided=frozenset({"node-a", "node-b"}))


@pytest.mark.parametrize("ahead", [7_200.0, 31_536_000.0])
def test_hints_of_the_time_of_a_clock_that_was_ahead_end(ahead: float) -> None:
    """Of this clock, of that of the descheduler, and of that of the API server."""
    later = NOW + ahead
    ours, others, outcomes = ExpectedReplacements(600.0), ExpectedReplacements(600.0), ExpectedReplacements(600.0)
    ours.on_intent(an_intent(decided_at=later, expires_at=later + 180), later)
    others.on_intent(an_intent(decided_at=later, expires_at=later + 180), NOW)
    outcomes.on_outcome(an_outcome(settled_at=later), NOW)
    outcomes.on_placed([a_replacement("late", placed_at=later)], NOW)
    for replacements, lasting in ((ours, 0.0), (others, 3_600.0), (outcomes, 600.0)):
        replacements.prune(NOW)
        replacements.prune(NOW + lasting)
        assert replacements.hint("uid-web-2", a_workload(), NODES, NOW + lasting) == ReplacementHint()
    assert not outcomes._unmatched
